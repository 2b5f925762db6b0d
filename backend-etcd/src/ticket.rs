//! A waiter's place in the count of releases.

use std::sync::Arc;

use crate::count::{Count, Turn};
use crate::nodes::Waiting;
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
pub(crate) enum Called {
    /// All that were ahead have left, by this count.
    Next(Count),
    /// The same, but whether the own node is still there must be looked up.
    Maybe,
}

impl Ticket {
    /// Of a node that was seen behind others at this revision; `None` where it does not know its turn.
    pub(crate) fn draw(watches: &Arc<Watches>, waiting: &Waiting, own: &Own, seen: u64) -> Option<Self> {
        let turn = waiting.turn?;
        let key = waiting.queue.ticket(turn.number())?;
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
