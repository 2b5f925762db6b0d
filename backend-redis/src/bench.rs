//! What a join and a leave are on the wire: for the benchmark, which sends the very same requests without this crate.

use std::time::Duration;

use latchwork_core::contracts::{Join, NodeId};
use latchwork_core::{Address, Result};

use crate::config::{REMEMBER, life};
use crate::inbox::Secret;
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

impl Request {
    fn of(Call { script, keys, args }: Call, ttl: Duration) -> Self {
        let owned = |words: Words| words.iter().map(str::to_owned).collect::<Vec<_>>();
        let mut args = owned(args);
        args.push(life(REMEMBER, ttl).to_string());
        Self { code: script.text(), keys: owned(keys), args }
    }
}

/// A join. Its answer's second field is the sequence number.
///
/// # Errors
/// `InvalidArgument` for a queue that this backend refuses.
pub fn join(join: &Join, ttl: Duration, inbox: &str) -> Result<Request> {
    let queue = Queue::of(&join.queue)?;
    let secret = Secret::of(0x0123_4567_89ab_cdef);
    Ok(Request::of(scripts::join(&queue, join, ttl, (secret, inbox), None), ttl))
}

/// A leave of the node with this sequence number.
///
/// # Errors
/// As [`join`].
pub fn leave(queue: &Address, id: NodeId, sequence: u64, ttl: Duration) -> Result<Request> {
    Ok(Request::of(scripts::leave(&Queue::of(queue)?, id, sequence, None), ttl))
}
