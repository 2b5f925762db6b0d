//! Predicts a client's next turn in a queue, so that its join need not list. A wrong expectation costs a
//! trip.
//!
//! *The same client again*: no node was created between the last and the next node of this client
//! (CHAIN-OWN-HISTORY). *The same predecessor again*: clients that take turns and reuse their names can watch
//! their predecessors by name. `docs/protocol/zookeeper-fast-path.md` has the conditions and their reasons.

use std::collections::HashMap;
use std::time::Duration;

use latchwork_core::{Kind, Moment};
use parking_lot::Mutex;

use super::birth::Birth;

const QUEUES: usize = 64;

/// After this number of own turns in succession, a client expects another one within this time. Later, other
/// writes make the distance between the transactions useless.
const ALONE_AFTER: u32 = 8;
const ALONE_WITHIN: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Behind a predecessor whose name begins with this text.
    Behind(String),
    /// Alone. The creation of the new node proves it.
    Free,
}

#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Queues>);

#[derive(Debug, Default)]
struct Queues {
    known: HashMap<Box<str>, Known>,
    changes: u64,
}

#[derive(Debug)]
struct Known {
    /// Two kinds at one exact address share the counter, but not the queue.
    kind: Kind,
    changed: u64,
    neighbour: Option<Neighbour>,
    /// The last exclusively admitted node, and when it left. Kept until the next node is created.
    last: Option<(Birth, Moment)>,
    alone: u32,
}

#[derive(Debug)]
struct Neighbour {
    // The name up to the counter.
    prefix: Box<str>,
    again: bool,
}

impl History {
    pub(crate) fn expected(&self, kind: Kind, queue: &str, waits: bool, now: Moment) -> Option<Expected> {
        let queues = self.0.lock();
        let known = queues.known.get(queue).filter(|known| known.kind == kind)?;
        if waits && let Some(neighbour) = known.neighbour.as_ref().filter(|neighbour| neighbour.again) {
            return Some(Expected::Behind(neighbour.prefix.to_string()));
        }
        let since = now.since(known.last?.1);
        (known.alone >= ALONE_AFTER && since <= ALONE_WITHIN).then_some(Expected::Free)
    }

    /// Returns whether this alone admits the node.
    pub(crate) fn made(&self, kind: Kind, queue: &str, birth: Birth) -> bool {
        let mut queues = self.0.lock();
        let Some(known) = queues.known.get_mut(queue).filter(|known| known.kind == kind) else {
            return false;
        };
        let follows = known.last.take().is_some_and(|(last, _)| birth.follows(last));
        known.alone = if follows { known.alone.saturating_add(1) } else { 0 };
        follows
    }

    pub(crate) fn left(&self, kind: Kind, queue: &str, birth: Birth, now: Moment) {
        self.learn(kind, queue, |known| known.last = Some((birth, now)));
    }

    pub(crate) fn far(&self, kind: Kind, queue: &str, prefix: &str) {
        self.learn(kind, queue, |known| {
            let again = known.neighbour.as_ref().is_some_and(|last| *last.prefix == *prefix);
            known.neighbour = Some(Neighbour { prefix: prefix.into(), again });
        });
    }

    pub(crate) fn forget_neighbour(&self, queue: &str) {
        if let Some(known) = self.0.lock().known.get_mut(queue) {
            known.neighbour = None;
        }
    }

    pub(crate) fn forget(&self, queue: &str) {
        self.0.lock().known.remove(queue);
    }

    fn learn(&self, kind: Kind, queue: &str, change: impl FnOnce(&mut Known)) {
        let mut queues = self.0.lock();
        let Queues { known: all, changes } = &mut *queues;
        *changes += 1;
        let nothing = |changed| Known { kind, changed, neighbour: None, last: None, alone: 0 };
        if let Some(known) = all.get_mut(queue) {
            if known.kind != kind {
                *known = nothing(*changes);
            }
            known.changed = *changes;
            return change(known);
        }
        if all.len() >= QUEUES
            && let Some(oldest) =
                all.iter().min_by_key(|(_, known)| known.changed).map(|(queue, _)| queue.clone())
        {
            all.remove(&oldest);
        }
        change(all.entry(queue.into()).or_insert_with(|| nothing(*changes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: Kind = Kind::Mutex;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn birth(counter: i32, sequence: u64) -> Birth {
        Birth { counter, sequence }
    }

    #[test]
    fn a_predecessor_that_was_there_twice_is_expected_until_it_was_not() {
        let history = History::default();
        let expected = |queue| history.expected(M, queue, true, at(0));
        let behind = |prefix: &str| Some(Expected::Behind(prefix.to_owned()));
        assert_eq!(expected("q"), None);
        history.far(M, "q", "a-");
        assert_eq!(expected("q"), None, "seen once");
        history.far(M, "q", "a-");
        assert_eq!((expected("q"), expected("other")), (behind("a-"), None));
        assert_eq!(history.expected(M, "q", false, at(0)), None, "a try does not wait");
        history.far(M, "q", "b-");
        assert_eq!(expected("q"), None);
        history.far(M, "q", "b-");
        assert_eq!(expected("q"), behind("b-"));
        history.forget_neighbour("q");
        assert_eq!(expected("q"), None);
    }

    #[test]
    fn a_client_that_came_back_often_enough_expects_it_until_another_has_joined() {
        let history = History::default();
        let turn = |counter, sequence| {
            let follows = history.made(M, "q", birth(counter, sequence));
            history.left(M, "q", birth(counter, sequence), at(0));
            follows
        };
        assert!(!turn(2, 4));
        for n in 3..=10 {
            assert_eq!(history.expected(M, "q", true, at(9)), None);
            assert!(turn(n, u64::try_from(n).unwrap() * 2));
        }
        for waits in [true, false] {
            assert_eq!(history.expected(M, "q", waits, at(100)), Some(Expected::Free));
            assert_eq!(history.expected(M, "q", waits, at(101)), None, "too late");
        }
        assert!(!turn(12, 26));
        assert_eq!(history.expected(M, "q", true, at(9)), None);
        assert!(turn(13, 28));
        assert!(!history.made(M, "other", birth(14, 30)));
    }

    #[test]
    fn a_turn_of_another_kind_says_nothing() {
        let history = History::default();
        history.left(M, "q", birth(8, 10), at(0));
        history.far(M, "q", "a-");
        assert!(!history.made(Kind::RwLock, "q", birth(9, 12)));
        history.left(Kind::RwLock, "q", birth(9, 12), at(0));
        assert!(!history.made(M, "q", birth(10, 14)));
        assert!(history.made(Kind::RwLock, "q", birth(10, 14)));
    }

    #[test]
    fn a_turn_that_is_not_over_says_nothing() {
        let history = History::default();
        history.left(M, "q", birth(3, 10), at(0));
        assert!(history.made(M, "q", birth(4, 12)));
        assert!(!history.made(M, "q", birth(5, 13)), "node 4 has not left");
    }

    #[test]
    fn number_of_kept_names_is_bounded() {
        let history = History::default();
        for queue in 0..=QUEUES {
            history.far(M, &queue.to_string(), "a-");
            history.far(M, "0", "a-");
        }
        let queues = history.0.lock();
        assert_eq!(queues.known.len(), QUEUES);
        assert!(
            queues.known.contains_key("0") && !queues.known.contains_key("1"),
            "the oldest queue is forgotten"
        );
    }
}
