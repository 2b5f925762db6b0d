use crate::driver::Event;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Left,
    /// The node ahead has announced its release.
    Released,
    Look,
}

impl Woken {
    pub(crate) fn by(event: Event) -> Self {
        if event == Event::Deleted { Woken::Left } else { Woken::Look }
    }
}
