mod attempt;
mod changes;
mod channels;
mod inbox;
mod next_look;
pub(crate) mod recheck;

pub(crate) use attempt::Attempt;
pub(crate) use changes::{RedisWatch, Subject};
pub(crate) use channels::Channels;
pub(crate) use inbox::Inbox;
