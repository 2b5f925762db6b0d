//! A queue of nodes: joining, waiting, leaving.

mod attempt;
pub(crate) mod cleanup;
pub(crate) mod context;
pub(crate) mod data;
pub(crate) mod fast_path;
pub(crate) mod join;
pub(crate) mod leases;
pub(crate) mod leave;
pub(crate) mod limit;
pub(crate) mod list;
mod mark;
pub(crate) mod node;
pub(crate) mod queues;
pub(crate) mod wait;
