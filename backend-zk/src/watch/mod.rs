mod holder;
mod holders;
mod unwatched;

pub(crate) use holder::NewHolder;
pub(crate) use holders::HolderWatch;
