//! Events of held nodes, from the server to their holders.

mod holder;
mod holders;
mod unwatched;

pub(crate) use holder::NewHolder;
pub(crate) use holders::HolderWatch;
