//! The life of a node: join, wait, leave; and what operators ask of a queue.

pub(crate) mod cleanup;
pub(crate) mod confirm;
pub(crate) mod confirmations;
pub(crate) mod join;
pub(crate) mod limit;
pub(crate) mod list;
mod node;
pub(crate) mod wait;
