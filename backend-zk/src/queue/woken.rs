//! The reason why a wait for events ended.

use crate::driver::Event;

/// The event that ended a wait for the node ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The node ahead is gone.
    Left,
    /// The node ahead was a holder, and is released.
    Released,
    /// Any other event: list again.
    Look,
}

impl Woken {
    /// The reason by an event of the node ahead alone.
    pub(crate) fn by(event: Event) -> Self {
        if event == Event::Deleted { Woken::Left } else { Woken::Look }
    }
}
