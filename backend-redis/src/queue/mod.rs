pub(crate) mod cleanup;
pub(crate) mod confirm;
pub(crate) mod confirmations;
pub(crate) mod join;
pub(crate) mod limit;
pub(crate) mod list;
mod node;
pub(crate) mod wait;
