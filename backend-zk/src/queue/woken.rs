use crate::driver::Event;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Left,
    /// The node ahead was a holder, and has released.
    Released,
    /// List again.
    Look,
}

impl Woken {
    pub(crate) fn by(event: Event) -> Self {
        if event == Event::Deleted { Woken::Left } else { Woken::Look }
    }
}
