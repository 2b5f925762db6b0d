//! What a join and a leave are on the wire: for the benchmark, which sends the very same requests without this crate.

use std::time::Duration;

use latchwork_core::contracts::{Join, NodeId};
use latchwork_core::{Address, Result};

use crate::layout::Queue;
use crate::scripts::{self, Call, Words};

/// One invocation of a script.
#[derive(Clone, Debug)]
pub struct Request {
    /// The script.
    pub code: &'static str,
    /// Its keys.
    pub keys: Vec<String>,
    /// Its arguments.
    pub args: Vec<String>,
}

impl From<Call> for Request {
    fn from(Call { script, keys, args }: Call) -> Self {
        let owned = |words: Words| words.iter().map(str::to_owned).collect();
        Self { code: script.code, keys: owned(keys), args: owned(args) }
    }
}

/// A join. Its answer's second field is the sequence number.
///
/// # Errors
/// `InvalidArgument` for a queue that this backend refuses.
pub fn join(join: &Join, ttl: Duration, inbox: &str) -> Result<Request> {
    let queue = Queue::of(&join.queue)?;
    Ok(scripts::join(&queue, join, ttl, inbox, None).into())
}

/// A leave of the node with this sequence number.
///
/// # Errors
/// As [`join`].
pub fn leave(queue: &Address, id: NodeId, sequence: u64) -> Result<Request> {
    Ok(scripts::leave(&Queue::of(queue)?, id, sequence, None).into())
}
