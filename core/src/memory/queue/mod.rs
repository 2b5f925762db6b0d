//! The life of a node: join, wait, leave.

pub(super) mod join;
mod node;
mod wait;
