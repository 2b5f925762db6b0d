//! Layouts: which clients may work in a namespace, and how its stamp is raised.
//!
//! *The invariant.* Every client that has entered works with the stamped layout. So a client may write data
//! of this layout, and no client meets data that it cannot read.

/// The layout of this build. A change of stored data that an older build would misread raises it. Since
/// layout 2, the clients of a move compare its two sides ([`RECORDS`]).
pub const LAYOUT: u32 = 2;

/// The lowest layout with [records of moves](crate::decide::moving::evidence).
pub const RECORDS: u32 = 2;

/// The stamp of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The layout that every client works with.
    pub layout: u32,
    /// The layout that an operator has announced.
    pub next: Option<u32>,
}

/// The next step of a client that is registered and has read the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admission {
    /// The client enters.
    Enter,
    /// No stamp exists: the client writes this one, unless another client was faster.
    Write(Stamp),
    /// The client does not work with this layout, and must not enter.
    Refused(u32),
}

/// The next step of an operator that raises the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Raise {
    /// The layout is raised.
    Done,
    /// Write this stamp over the one that was read.
    Write(Stamp),
    /// This stamp is announced: list the clients, and write the result of [`Stamp::settled`].
    List(Stamp),
    /// Another build has raised the layout further.
    Refused(u32),
}

impl Stamp {
    /// Returns the stamp of a namespace that has none yet.
    pub fn of(layout: u32) -> Self {
        Self { layout, next: None }
    }

    /// Decides whether a client that works with layouts up to `own` may enter. From the
    /// announcement on, a client without the next layout is refused.
    pub fn admission(stamp: Option<Self>, own: u32) -> Admission {
        let Some(stamp) = stamp else { return Admission::Write(Self::of(own)) };
        let needed = stamp.next.map_or(stamp.layout, |next| next.max(stamp.layout));
        if needed > own { Admission::Refused(needed) } else { Admission::Enter }
    }

    /// Returns the next step of an operator that raises the layout to `own`.
    pub fn raise(stamp: Option<Self>, own: u32) -> Raise {
        match (Self::admission(stamp, own), stamp) {
            (Admission::Refused(needed), _) => Raise::Refused(needed),
            (Admission::Write(stamp), _) => Raise::Write(stamp),
            (Admission::Enter, Some(stamp)) if stamp.layout < own => match stamp.next {
                Some(next) if next == own => Raise::List(stamp),
                _ => Raise::Write(Self { next: Some(own), ..stamp }),
            },
            (Admission::Enter, _) => Raise::Done,
        }
    }

    /// Decides an announced raise, by the layouts of all clients that were registered at one instant after
    /// the announcement (`None` if a client reports none). If no client is below the next layout, this layout is
    /// in force. Otherwise the announcement ends.
    pub fn settled(self, clients: impl IntoIterator<Item = Option<u32>>) -> Self {
        let next = self.next.unwrap_or(self.layout);
        let all = clients.into_iter().all(|layout| layout.is_some_and(|layout| layout >= next));
        Self::of(if all { next } else { self.layout })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(layout: u32, next: u32) -> Option<Stamp> {
        Some(Stamp { layout, next: Some(next) })
    }

    #[test]
    fn client_enters_unless_the_stamp_or_announcement_is_newer() {
        for (stamp, own, expected) in [
            (None, 2, Admission::Write(Stamp::of(2))),
            (Some(Stamp::of(1)), 2, Admission::Enter),
            (Some(Stamp::of(2)), 2, Admission::Enter),
            (Some(Stamp::of(3)), 2, Admission::Refused(3)),
            (announced(1, 2), 2, Admission::Enter),
            (announced(1, 3), 2, Admission::Refused(3)),
            (announced(3, 1), 2, Admission::Refused(3)),
        ] {
            assert_eq!(Stamp::admission(stamp, own), expected, "{stamp:?} for {own}");
        }
    }

    #[test]
    fn a_layout_is_announced_before_the_clients_are_listed() {
        for (stamp, own, expected) in [
            (None, 2, Raise::Write(Stamp::of(2))),
            (Some(Stamp::of(1)), 2, Raise::Write(Stamp { layout: 1, next: Some(2) })),
            (announced(1, 2), 2, Raise::List(Stamp { layout: 1, next: Some(2) })),
            (announced(1, 2), 3, Raise::Write(Stamp { layout: 1, next: Some(3) })),
            (announced(1, 3), 2, Raise::Refused(3)),
            (Some(Stamp::of(2)), 2, Raise::Done),
            (Some(Stamp::of(3)), 2, Raise::Refused(3)),
        ] {
            assert_eq!(Stamp::raise(stamp, own), expected, "{stamp:?} for {own}");
        }
    }

    #[test]
    fn it_is_raised_only_over_clients_that_all_work_with_it() {
        let stamp = Stamp { layout: 1, next: Some(2) };
        for (clients, layout) in
            [(vec![], 2), (vec![Some(2), Some(3)], 2), (vec![Some(2), Some(1)], 1), (vec![Some(2), None], 1)]
        {
            assert_eq!(stamp.settled(clients.clone()), Stamp::of(layout), "{clients:?}");
        }
    }
}
