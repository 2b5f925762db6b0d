//! Events, from the server to the attempts that wait for them.

mod attempt;
mod channels;
mod inbox;
pub(crate) mod recheck;

pub(crate) use attempt::Attempt;
pub(crate) use channels::{Channel, Channels, Subscription};
pub(crate) use inbox::Inbox;
