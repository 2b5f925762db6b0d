//! The one writer of a client and a count: the wants of its tasks, and its knowledge.
//!
//! *Why.* If each task sent its change alone, the tasks would fail each other's compare-and-set, and need a
//! round trip each. So the changes of all waiting tasks become one operation, and each task gets its share of
//! the result (COUNT-ADDED-UP). Clients take turns: see [`Pace`].

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::contracts::{CellLife, NodeId, VersionedValue};
use crate::decide::count::{Change, Pace};
use crate::desk::Desk;
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct CountWriter {
    pub(crate) id: u64,
    pub(crate) desk: Desk<CountWant>,
    /// Only the task of the desk changes it.
    pub(crate) known: Mutex<KnownCount>,
}

#[derive(Debug, Default)]
pub(crate) struct KnownCount {
    pub(crate) last: u64,
    /// The last known cell. The next operation expects it, and needs one round trip if no other writer has
    /// changed it.
    pub(crate) seen: Option<VersionedValue>,
    /// A lower bound of the number of writes, if the server changes counts.
    pub(crate) writes: Option<u64>,
    pub(crate) pace: Pace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountTerms {
    /// The first value of the count, if its users agree on one.
    pub(crate) initial: Option<u32>,
    pub(crate) life: CellLife,
}

pub(crate) type Answer<T> = oneshot::Sender<Result<T>>;

#[derive(Debug)]
pub(crate) enum CountWant {
    Change(CountTerms, Change, Answer<Option<i64>>),
    Delete(Answer<bool>),
}

#[derive(Debug)]
pub(crate) enum CountBatch {
    /// The changes as one, and each of them.
    Changes(CountTerms, Change, Vec<Change>, Vec<Answer<Option<i64>>>),
    Deletion(Answer<bool>),
}

impl CountWriter {
    pub(crate) fn new() -> Self {
        Self { id: NodeId::random().as_u64(), desk: Desk::default(), known: Mutex::default() }
    }
}

impl CountWant {
    fn is_dropped(&self) -> bool {
        match self {
            Self::Change(_, _, answer) => answer.is_closed(),
            Self::Delete(answer) => answer.is_closed(),
        }
    }
}

impl CountBatch {
    /// Takes the wants from the front that one operation can serve.
    pub(crate) fn next(waiting: &mut VecDeque<CountWant>) -> Option<Self> {
        waiting.retain(|want| !want.is_dropped());
        let (terms, mut all, answer) = match waiting.pop_front()? {
            CountWant::Change(terms, change, answer) => (terms, change, answer),
            CountWant::Delete(answer) => return Some(Self::Deletion(answer)),
        };
        let (mut changes, mut answers) = (vec![all], vec![answer]);
        let fits = |all: Change, next: &CountWant| match next {
            CountWant::Change(its, change, _) if *its == terms => all.and(*change),
            _ => None,
        };
        while let Some(sum) = waiting.front().and_then(|next| fits(all, next))
            && let Some(CountWant::Change(_, change, answer)) = waiting.pop_front()
        {
            all = sum;
            changes.push(change);
            answers.push(answer);
        }
        Some(Self::Changes(terms, all, changes, answers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(initial: Option<u32>) -> CountTerms {
        CountTerms { initial, life: CellLife::Stays }
    }

    fn changes(waiting: &mut VecDeque<CountWant>) -> Option<Vec<Change>> {
        match CountBatch::next(waiting)? {
            CountBatch::Changes(_, _, changes, _) => Some(changes),
            CountBatch::Deletion(_) => Some(Vec::new()),
        }
    }

    #[test]
    fn batch_has_the_wants_from_the_front_that_are_of_one_kind() {
        let (mut waiting, mut kept) = (VecDeque::new(), Vec::new());
        let mut add = |initial, number, is_kept: bool| {
            let (answer, answered) = oneshot::channel();
            waiting.push_back(CountWant::Change(terms(initial), Change::Add(number), answer));
            kept.extend(is_kept.then_some(answered));
        };
        add(None, 9, false);
        add(None, 1, true);
        add(None, 2, false);
        add(None, 3, true);
        add(None, -3, true);
        add(Some(1), -4, true);
        let (deletion, _deleted) = oneshot::channel();
        waiting.push_back(CountWant::Delete(deletion));
        assert_eq!(
            changes(&mut waiting),
            Some(vec![Change::Add(1), Change::Add(3)]),
            "dropped ones are left out"
        );
        assert_eq!(changes(&mut waiting), Some(vec![Change::Add(-3)]));
        assert_eq!(changes(&mut waiting), Some(vec![Change::Add(-4)]), "it has another first value");
        assert_eq!(changes(&mut waiting), Some(vec![]), "the deletion");
        assert_eq!(changes(&mut waiting), None);
    }
}
