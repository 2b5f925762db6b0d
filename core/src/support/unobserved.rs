use async_trait::async_trait;

use crate::address::Address;
use crate::contracts::ChangeWatch;
use crate::error::{Error, ErrorKind, Result};

/// The watch of a queue whose kind [cannot be watched](crate::Kind::is_observed). It always fails.
#[derive(Debug)]
pub struct Unobserved(Address);

impl Unobserved {
    /// Creates the watch.
    pub fn new(queue: &Address) -> Self {
        Self(queue.clone())
    }
}

#[async_trait]
impl ChangeWatch for Unobserved {
    async fn changed(&mut self) -> Result<()> {
        let why = format!("the queue of a {} cannot be watched", self.0.kind().as_str());
        let kind = ErrorKind::Unsupported { capability: "watch_queue" };
        Err(Error::new(kind, why).on(self.0.name()))
    }
}
