//! A waiter's place in the count of releases.

use std::sync::Arc;

use crate::count::{Count, Turn};
use crate::keys::Queue;
use crate::watch::{Own, Subscription, Telling, Watches};

/// The wait of a node far from the head for the release that makes it the next. Dropping it ends the wait.
pub(crate) struct Ticket {
    turn: Turn,
    telling: Telling,
    // Watches the own node, as long as the server does.
    own: Option<Subscription>,
    in_order: bool,
}

/// What a ticket brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// All that were ahead have left, by this count.
    Next(Count),
    /// The same, but whether the own node is still there must be looked up.
    Maybe,
}

impl Ticket {
    /// Of a node that was seen behind others at this revision; `None` where nothing is counted.
    pub(crate) fn draw(
        watches: &Arc<Watches>,
        queue: &Queue,
        turn: Turn,
        own: &Own,
        seen: u64,
    ) -> Option<Self> {
        let key = queue.ticket(turn.number())?;
        // So many releases after the join, each at a revision of its own: at the earliest then it is told. And not in the past, which
        // may be compacted.
        let due = (own.state.sequence() + turn.ahead()).max(seen + 1);
        let (own, in_order) = watches.own_far(own, due - 1)?;
        Some(Self { turn, telling: watches.told(key, due), own: Some(own), in_order })
    }

    /// Waits for the count that says that all that were ahead have left: for ever, where it will not be told. Cancel-safe.
    pub(crate) async fn called(&mut self) -> Called {
        loop {
            let own = async {
                match &mut self.own {
                    Some(own) => own.seen().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // It was removed, which its state tells; or the server ended its watch.
                _ = own => (self.own, self.in_order) = (None, false),
                count = self.telling.next() => {
                    if self.turn.has_come(count) {
                        return if self.in_order { Called::Next(count) } else { Called::Maybe };
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use latchwork_core::{Address, Kind};

    use super::*;
    use crate::count::tests::{counter, queue};
    use crate::keys::Layout;
    use crate::terms::{Change, Ended, Notice};
    use crate::watch::tests::own;

    /// When it joined, four were ahead, and a series had counted some releases.
    const JOINED: u64 = 50;
    const AHEAD: u64 = 4;
    const SERIES: u64 = 9;
    const COUNTED: u64 = 356;
    /// The watches in their order.
    const OWN: i64 = 1;
    const TOLD: i64 = 2;

    struct Waiter(Arc<Watches>);

    impl Waiter {
        fn new() -> Self {
            Self(Watches::new().0)
        }

        /// The ticket of a node of always the same name.
        fn draws(&self, joined: u64, seen: u64) -> Ticket {
            let own = own(b"latchwork/mutex/a/1-x", joined);
            let turn = Turn::new(joined, &queue(AHEAD + 1), &counter(SERIES, COUNTED)).unwrap();
            let address = Address::new("latchwork", Kind::Mutex, "a").unwrap();
            let queue = Layout::new("latchwork").queue(&address).unwrap();
            Ticket::draw(&self.0, &queue, turn, &own, seen).unwrap()
        }

        fn begins(&self, id: i64) -> u64 {
            self.0.armed(id).unwrap().from
        }

        fn told(&self, id: i64, series: u64, releases: u64) {
            let value = Count { series, releases }.encode().into_bytes();
            let changes = vec![Change { key: Vec::new(), value, revision: 60 }];
            self.0.apply(Notice::Changed { id, revision: 60, changes });
        }
    }

    /// What it brings after all that it was told so far.
    fn brings(ticket: &mut Ticket) -> Option<Called> {
        ticket.called().now_or_never()
    }

    #[test]
    fn it_begins_with_the_first_release_that_may_call_it_and_never_in_the_past() {
        for (seen, begins) in [(JOINED, JOINED + AHEAD), (JOINED + AHEAD + 30, JOINED + AHEAD + 31)] {
            let waiter = Waiter::new();
            let _ticket = waiter.draws(JOINED, seen);
            assert_eq!((waiter.begins(OWN), waiter.begins(TOLD)), (begins, begins));
        }
    }

    /// Its key tells of every 256th release, of whatever series.
    #[test]
    fn it_is_called_by_no_other_release_with_its_remainder() {
        let waiter = Waiter::new();
        let mut ticket = waiter.draws(JOINED, JOINED);
        assert!(waiter.0.armed(TOLD).unwrap().key.ends_with(b"/104"));
        let its = COUNTED + AHEAD;
        for (series, releases) in [(SERIES, its - 256), (SERIES - 1, its), (JOINED, its + 256)] {
            waiter.told(TOLD, series, releases);
            assert_eq!(brings(&mut ticket), None, "{releases} of {series}");
        }
        waiter.told(TOLD, SERIES, its);
        assert_eq!(brings(&mut ticket), Some(Called::Maybe), "its own node was not watched when it joined");
    }

    #[test]
    fn only_who_hears_of_its_own_node_first_need_not_look_at_it() {
        // Of an earlier node of its name: where the server made it before its start, it is prompt.
        for (made_at, ends, looks) in
            [(Some(10), false, false), (Some(40), false, true), (None, false, true), (Some(10), true, true)]
        {
            let waiter = Waiter::new();
            drop(waiter.draws(20, 20));
            if let Some(revision) = made_at {
                waiter.0.apply(Notice::Created { id: OWN, revision });
            }
            let mut ticket = waiter.draws(JOINED, JOINED);
            if ends {
                waiter.0.apply(Notice::Ended { id: OWN, why: Ended::Compacted });
            }
            let count = Count { series: SERIES, releases: COUNTED + AHEAD };
            waiter.told(3, count.series, count.releases);
            let expected = if looks { Called::Maybe } else { Called::Next(count) };
            assert_eq!(brings(&mut ticket), Some(expected), "made at {made_at:?}, ended: {ends}");
        }
    }

    #[test]
    fn a_ticket_whose_watch_the_server_ended_is_never_called() {
        let waiter = Waiter::new();
        let mut ticket = waiter.draws(JOINED, JOINED);
        waiter.0.apply(Notice::Ended { id: TOLD, why: Ended::Compacted });
        assert_eq!(brings(&mut ticket), None);
    }
}
