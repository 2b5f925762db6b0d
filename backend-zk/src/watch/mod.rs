//! Events of held nodes, from the server to their holders.

mod held_node;
mod holder;
mod holders;
mod unwatched;

use std::future::Future;
use std::pin::Pin;

use crate::driver::Event;

pub(crate) use held_node::HeldNode;
pub(crate) use holder::NewHolder;
pub(crate) use holders::HolderWatch;

/// An armed watch, as the future of its event.
pub(crate) type Armed = Pin<Box<dyn Future<Output = Event> + Send>>;
