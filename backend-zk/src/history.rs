//! What a client's last turn in a queue tells of its next, so that the next join need not list the queue.
//!
//! # Who comes back
//!
//! A directory counts all that is created in it. Where an own node with the counter L was admitted exclusively and has left, and
//! the next own node has L + 1, nobody is ahead of it: all before L were gone when L was admitted, and nobody has joined
//! since. It must be the same directory: one that is removed and made again counts anew. From L's making on that takes a
//! transaction for the removal (of L too), one for the making and the first join, one for each of L more joins, and the own: L + 3
//! in zxid, since nobody makes several contenders in one transaction. With fewer it is the same one. A zxid of another leader is far
//! off. Model B of core's tests has it as `returns`, with what goes wrong where the distance is not looked at, or where L was not
//! admitted. On a server with much else to do it holds only where many have joined, and a queue is listed as ever.
//!
//! So a join that expects this creates its node, and lists only if it was wrong: a trip more. That is expected after some turns in
//! a row that came out so; and where this client had to wait a moment ago, since then whoever was ahead has often left by the
//! time of the second trip.
//!
//! # Who stands before it, far from the head
//!
//! Where the same clients take turns and use their names again, a client's predecessor is the same one each time. It can
//! be watched by its name then, and need not be looked for in a listing, which costs the more the longer the queue is.
//!
//! A node that is there and has the counter before ours is ahead of us, and nobody can come between. When it has left the
//! queue is listed as ever (RULES B2). Where it is not there the queue is listed at once: a wrong guess costs a
//! request and two trips, and is not made again until the predecessor was the same twice. Where as many joined between the last
//! turns, its counter can be guessed too, and it is watched in the trip of the create.

use std::collections::HashMap;
use std::time::Duration;

use latchwork_core::{Kind, Moment};
use parking_lot::Mutex;

use crate::names::counter;

/// For so many queues is it remembered: those that go round now.
const QUEUES: usize = 64;

/// After so many turns behind its own last one a client expects the next one to be, too: a wrong guess costs a trip.
const ALONE_AFTER: u32 = 8;

/// Who had to wait expects others for so many turns, each begun within [`AT_ONCE`] of the end of the one before.
const BUSY_FOR: u32 = 16;
const AT_ONCE: Duration = Duration::from_millis(2);

/// When and where a node was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Birth {
    /// Its directory's counter.
    pub(crate) counter: i32,
    /// Its transaction.
    pub(crate) sequence: u64,
}

impl Birth {
    /// Of the node of this name or path, and of this sequence number.
    pub(crate) fn of(kind: Kind, name: &str, sequence: u64) -> Option<Self> {
        Some(Self { counter: counter(kind, name)?, sequence })
    }

    /// Whether nobody has joined between the two, of which the first was made before.
    fn follows(self, last: Self) -> bool {
        let apart = self.sequence.checked_sub(last.sequence);
        let joins = u64::try_from(last.counter).ok();
        last.counter.checked_add(1) == Some(self.counter)
            && joins.zip(apart).is_some_and(|(joins, apart)| apart <= joins + 2)
    }
}

/// What a join of an exclusive claim may expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Its predecessor is the one whose name begins so, and perhaps with this counter.
    Behind(String, Option<i32>),
    /// Nobody is ahead of it, as far as its creation can tell, or nobody will be soon.
    Free,
}

/// What a session's client knows of the queues in which it takes turns.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<HashMap<Box<str>, Known>>);

#[derive(Debug, Default)]
struct Known {
    neighbour: Option<Neighbour>,
    /// The last own node that was admitted exclusively and has left, until the next is made; and when.
    last: Option<(Birth, Moment)>,
    pace: Option<Pace>,
    alone: u32,
    busy: u32,
}

/// How many join between this client's own.
#[derive(Debug)]
struct Pace {
    counter: i32,
    step: Option<i32>,
    // The same twice.
    steady: bool,
}

#[derive(Debug)]
struct Neighbour {
    // Its name up to the counter.
    prefix: Box<str>,
    // It was there the last two times.
    again: bool,
}

impl History {
    /// What is to be expected of the next join.
    pub(crate) fn expected(&self, queue: &str, waits: bool, now: Moment) -> Option<Expected> {
        let known = self.0.lock();
        let known = known.get(queue)?;
        if waits && let Some(neighbour) = known.neighbour.as_ref().filter(|neighbour| neighbour.again) {
            let pace = known.pace.as_ref().filter(|pace| pace.steady);
            let own = pace.and_then(|pace| Some(pace.counter.wrapping_add(pace.step?)));
            return Some(Expected::Behind(neighbour.prefix.to_string(), own.map(|own| own.wrapping_sub(1))));
        }
        let (_, left) = known.last?;
        let busy = waits && known.busy > 0 && now.since(left) <= AT_ONCE;
        (known.alone >= ALONE_AFTER || busy).then_some(Expected::Free)
    }

    /// The next own node was made: whether it is let in by that alone.
    pub(crate) fn made(&self, queue: &str, birth: Birth) -> bool {
        let mut known = self.0.lock();
        let Some(known) = known.get_mut(queue) else { return false };
        let follows = known.last.take().is_some_and(|(last, _)| birth.follows(last));
        let step = known.pace.as_ref().map(|pace| birth.counter.wrapping_sub(pace.counter));
        let steady = known.pace.as_ref().is_some_and(|pace| pace.step == step);
        known.pace = Some(Pace { counter: birth.counter, step, steady });
        known.alone = if follows { known.alone.saturating_add(1) } else { 0 };
        known.busy = if follows { 0 } else { known.busy.saturating_sub(1) };
        follows
    }

    /// A node that was admitted exclusively has left for certain.
    pub(crate) fn left(&self, queue: &str, birth: Birth, now: Moment) {
        self.learn(queue, |known| known.last = Some((birth, now)));
    }

    /// This client has to wait near the head of the queue.
    pub(crate) fn near(&self, queue: &str) {
        self.learn(queue, |known| (known.busy, known.neighbour) = (BUSY_FOR, None));
    }

    /// This one was the predecessor, far from the head.
    pub(crate) fn far(&self, queue: &str, prefix: &str) {
        self.learn(queue, |known| {
            let again = known.neighbour.as_ref().is_some_and(|last| *last.prefix == *prefix);
            known.neighbour = Some(Neighbour { prefix: prefix.into(), again });
            known.busy = 0;
        });
    }

    /// The neighbour was not there, or the queue is short now.
    pub(crate) fn forget_neighbour(&self, queue: &str) {
        if let Some(known) = self.0.lock().get_mut(queue) {
            known.neighbour = None;
        }
    }

    fn learn(&self, queue: &str, news: impl FnOnce(&mut Known)) {
        let mut queues = self.0.lock();
        if let Some(known) = queues.get_mut(queue) {
            return news(known);
        }
        if queues.len() >= QUEUES
            && let Some(other) = queues.keys().next().cloned()
        {
            queues.remove(&other);
        }
        news(queues.entry(queue.into()).or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn birth(counter: i32, sequence: u64) -> Birth {
        Birth { counter, sequence }
    }

    #[test]
    fn who_was_there_twice_is_expected_until_it_was_not() {
        let history = History::default();
        let expected = |queue| history.expected(queue, true, at(0));
        let behind = |prefix: &str| Some(Expected::Behind(prefix.to_owned(), None));
        assert_eq!(expected("q"), None);
        history.far("q", "a-");
        assert_eq!(expected("q"), None, "seen once");
        history.far("q", "a-");
        assert_eq!((expected("q"), expected("other")), (behind("a-"), None));
        assert_eq!(history.expected("q", false, at(0)), None, "a try does not wait");
        history.far("q", "b-");
        assert_eq!(expected("q"), None);
        history.far("q", "b-");
        assert_eq!(expected("q"), behind("b-"));
        history.forget_neighbour("q");
        assert_eq!(expected("q"), None);
    }

    #[test]
    fn where_as_many_joined_twice_the_neighbours_counter_is_guessed() {
        let history = History::default();
        history.far("q", "a-");
        history.far("q", "a-");
        for (own, guess) in
            [(3, None), (19, None), (35, Some(50)), (51, Some(66)), (60, None), (69, Some(77))]
        {
            history.made("q", birth(own, 0));
            let expected = history.expected("q", true, at(0));
            assert_eq!(expected, Some(Expected::Behind("a-".into(), guess)), "after {own}");
        }
    }

    /// The bound is tight: another directory may have the next counter one transaction later.
    #[test]
    fn the_next_counter_is_the_same_directorys_when_no_other_can_have_come_so_far() {
        let last = birth(5, 1 << 33);
        for (next, follows) in [
            (birth(6, (1 << 33) + 2), true),
            (birth(6, (1 << 33) + 7), true),
            (birth(6, (1 << 33) + 8), false),
            (birth(7, (1 << 33) + 2), false),
            (birth(5, (1 << 33) + 2), false),
            (birth(6, (1 << 33) + (1 << 32)), false),
        ] {
            assert_eq!(next.follows(last), follows, "{next:?}");
        }
        assert!(!birth(i32::MIN, 9).follows(birth(i32::MAX, 7)));
        assert!(!birth(-1, 9).follows(birth(-2, 7)));
        assert!(!birth(1, 5).follows(birth(0, 7)));
    }

    #[test]
    fn who_came_back_often_enough_expects_it_until_somebody_has_joined() {
        let history = History::default();
        let turn = |counter, sequence| {
            let follows = history.made("q", birth(counter, sequence));
            history.left("q", birth(counter, sequence), at(0));
            follows
        };
        assert!(!turn(0, 0));
        for n in 1..=8 {
            assert_eq!(history.expected("q", true, at(9)), None);
            assert!(turn(n, u64::try_from(n).unwrap() * 2));
        }
        for waits in [true, false] {
            assert_eq!(history.expected("q", waits, at(9)), Some(Expected::Free));
        }
        assert!(!turn(10, 22));
        assert_eq!(history.expected("q", true, at(9)), None);
        assert!(turn(11, 24));
        assert!(!history.made("other", birth(12, 26)));
    }

    /// Only the turn before counts, and only when it is over.
    #[test]
    fn a_turn_that_is_not_over_tells_nothing() {
        let history = History::default();
        history.left("q", birth(3, 10), at(0));
        assert!(history.made("q", birth(4, 12)));
        assert!(!history.made("q", birth(5, 13)), "4 has not left");
    }

    #[test]
    fn who_waited_a_moment_ago_expects_others_for_a_while() {
        let history = History::default();
        history.near("q");
        assert_eq!(history.expected("q", true, at(0)), None, "its turn is not over");
        for turn in 0..16 {
            history.left("q", birth(turn * 2, 0), at(10));
            assert_eq!(history.expected("q", true, at(12)), Some(Expected::Free), "turn {turn}");
            assert_eq!(history.expected("q", false, at(12)), None, "a try does not wait");
            assert_eq!(history.expected("q", true, at(13)), None, "too late");
            history.made("q", birth(turn * 2 + 2, 9));
        }
        history.left("q", birth(40, 0), at(10));
        assert_eq!(history.expected("q", true, at(10)), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let history = History::default();
        (0..=QUEUES).for_each(|queue| history.far(&queue.to_string(), "a-"));
        assert_eq!(history.0.lock().len(), QUEUES);
    }
}
