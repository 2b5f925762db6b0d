//! The names under which nodes are made, used again and again.
//!
//! *Why.* etcd's index keeps every key that ever was until it is compacted away, and a range walks over all of them: with a
//! fresh name for every attempt, a join costs the more the more often its queue was taken. And on etcd and ZooKeeper
//! who waits far from the head of a queue that goes round knows by its name who is ahead, without a listing.
//!
//! *Why it is safe.* Where no name is free an attempt's own id is its name. A name becomes free only when the two requests
//! that touch whatever bears it, the join and the first leave, were answered and never repeated: so neither lands later. An
//! attempt that was repeated, abandoned or refused behind its write, and a node whose first leave has no answer, take their name
//! with them: so what an abandon, such a refusal and the leave of a repeated attempt remove by the name alone is their own. All other
//! requests (further leaves, marks, downgrades) compare the create revision on etcd, so that late ones find nothing, and on ZooKeeper are not sent behind
//! a confirmed leave (RULES B10).
//! Model B of core's tests has it as `reuses`, with what goes wrong where a name is freed earlier.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{Join, Joined, NodeId};
use crate::{ErrorKind, LostReason, Result};

/// Free names are kept for so many queues, and so many for each: who needs more makes new ones.
const QUEUES: usize = 1024;
const EACH: usize = 256;

/// A client's names.
#[derive(Debug, Default)]
pub struct Names(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    free: HashMap<Box<str>, Vec<NodeId>>,
    // Of the attempts under way that go by another name than their id.
    lent: HashMap<NodeId, NodeId>,
}

impl Names {
    /// The name of an attempt: that of its earlier request, or one that is free.
    pub fn lend(&self, queue: &str, attempt: NodeId, repeated: bool) -> NodeId {
        let mut state = self.0.lock();
        if let Some(&name) = state.lent.get(&attempt) {
            return name;
        }
        let free = if repeated { None } else { state.free.get_mut(queue).and_then(Vec::pop) };
        if let Some(name) = free {
            state.lent.insert(attempt, name);
        }
        free.unwrap_or(attempt)
    }

    /// The name of an attempt whose outcome is unknown.
    pub fn of(&self, attempt: NodeId) -> NodeId {
        self.0.lock().lent.get(&attempt).copied().unwrap_or(attempt)
    }

    /// The attempt's join was answered. Where it has an outcome its name is its node's, or is burnt; where it has none, whoever
    /// comes back with this attempt, to repeat or to abandon it, needs its name. What a refused try was lent is free again.
    pub fn joined(&self, queue: &str, join: &Join, answer: &Result<Joined>) {
        let over = match answer {
            Ok(_) => true,
            Err(error) => {
                // With the lease gone the request may still have been carried out, and is abandoned.
                let unknown = matches!(
                    error.kind(),
                    ErrorKind::Unknown | ErrorKind::Lost { reason: LostReason::Expired }
                );
                !join.repeated && !unknown
            }
        };
        if !over {
            return;
        }
        let lent = self.0.lock().lent.remove(&join.id);
        if let (Some(name), Ok(Joined::Refused), false) = (lent, answer, join.repeated) {
            self.free(queue, name);
        }
    }

    /// The attempt is over.
    pub fn settle(&self, attempt: NodeId) {
        self.0.lock().lent.remove(&attempt);
    }

    /// Nothing bears this name any more, and nothing on its way could make that untrue.
    pub fn free(&self, queue: &str, name: NodeId) {
        let mut state = self.0.lock();
        if !state.free.contains_key(queue) {
            if state.free.len() >= QUEUES
                && let Some(other) = state.free.keys().next().cloned()
            {
                state.free.remove(&other);
            }
            state.free.insert(queue.into(), Vec::new());
        }
        if let Some(names) = state.free.get_mut(queue)
            && names.len() < EACH
        {
            names.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::{AskedLimit, Patience};
    use crate::decide::Claim;
    use crate::{Address, Error, Kind};

    fn id(n: u8) -> NodeId {
        NodeId::from_bytes([n; 16])
    }

    #[test]
    fn a_free_name_is_lent_once_and_kept_by_its_attempt() {
        let names = Names::default();
        assert_eq!(names.lend("q/", id(1), false), id(1), "none is free");
        names.free("q/", id(1));
        assert_eq!(names.lend("other/", id(2), false), id(2), "free in another queue");
        assert_eq!(names.lend("q/", id(3), false), id(1));
        assert_eq!(names.lend("q/", id(4), false), id(4), "lent to another");
        assert_eq!((names.lend("q/", id(3), true), names.of(id(3))), (id(1), id(1)), "the same on a repeat");
        names.settle(id(3));
        assert_eq!(names.of(id(3)), id(3));
        assert_eq!(names.lend("q/", id(5), false), id(5), "settled is not free");
    }

    #[test]
    fn a_repeated_attempt_never_changes_its_name() {
        let names = Names::default();
        assert_eq!(names.lend("q/", id(1), false), id(1));
        names.free("q/", id(9));
        assert_eq!(names.lend("q/", id(1), true), id(1));
    }

    #[test]
    fn what_a_refused_try_was_lent_is_free_again_unless_it_was_repeated() {
        let queue = Address::new("n", Kind::Mutex, "q").unwrap();
        for (repeated, free) in [(false, id(1)), (true, id(3))] {
            let names = Names::default();
            names.free("q/", id(1));
            assert_eq!(names.lend("q/", id(2), false), id(1));
            let join = Join {
                queue: queue.clone(),
                id: id(2),
                claim: Claim::Exclusive,
                limit: AskedLimit::Stored,
                label: "".into(),
                patience: Patience::Try,
                repeated,
            };
            names.joined("q/", &join, &Err(Error::new(ErrorKind::Unknown, "no answer")));
            assert_eq!(names.of(id(2)), id(1), "it may come back");
            names.joined("q/", &join, &Err(Error::lost(LostReason::Expired)));
            assert_eq!(names.of(id(2)), id(1), "it is abandoned");
            names.joined("q/", &join, &Ok(Joined::Refused));
            assert_eq!((names.of(id(2)), names.lend("q/", id(3), false)), (id(2), free));
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let names = Names::default();
        for queue in 0..=QUEUES {
            names.free(&queue.to_string(), id(1));
        }
        assert_eq!(names.0.lock().free.len(), QUEUES);
        (0..=EACH).for_each(|_| names.free("q/", NodeId::random()));
        assert_eq!(names.0.lock().free["q/"].len(), EACH);
    }
}
