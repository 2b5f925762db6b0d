//! *Why names are used again.* etcd's index keeps every key until it is compacted, and a range walks over all
//! of them. With fresh names, each use of a queue would make its joins slower. By its reused name a waiter
//! also knows the node ahead without a listing.
//!
//! *Why it is safe.* No request for a free name is on its way (CHAIN-FRESH-NAME; the chain model checks it as
//! `reuses`).

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::contracts::{Join, Joined, NodeId};
use crate::{ErrorKind, LostReason, Result};

/// The bounds on queues and on free names of a queue. Further attempts use their own ids.
const QUEUES: usize = 1024;
const EACH: usize = 256;

/// The names of a client's nodes, which it uses again.
#[derive(Debug, Default)]
pub struct NamePool(Mutex<PoolState>);

#[derive(Debug, Default)]
struct PoolState {
    free: HashMap<Box<str>, Vec<NodeId>>,
    // The names of current attempts that are not the attempt's own id.
    lent: HashMap<NodeId, NodeId>,
}

impl NamePool {
    /// Returns the name for an attempt: the name of its earlier request, a free name, or its id.
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

    /// Returns the name of an attempt with an unknown outcome.
    pub fn of(&self, attempt: NodeId) -> NodeId {
        self.0.lock().lent.get(&attempt).copied().unwrap_or(attempt)
    }

    /// Records the answer to a join. With an unknown outcome, the attempt keeps its name to repeat or abandon
    /// the join. A refused try frees its name.
    pub fn joined(&self, queue: &str, join: &Join, answer: &Result<Joined>) {
        let over = match answer {
            Ok(_) => true,
            Err(error) => {
                // If the lease is lost, the server may have made the node.
                let unknown =
                    matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::Lost(LostReason::Expired));
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

    /// Ends an attempt.
    pub fn settle(&self, attempt: NodeId) {
        self.0.lock().lent.remove(&attempt);
    }

    /// Frees a name, which no node has and no request in flight can create.
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
    use crate::contracts::{Limit, Patience};
    use crate::decide::Claim;
    use crate::{Address, Error, Kind};

    fn id(n: u8) -> NodeId {
        NodeId::from_bytes([n; 16])
    }

    #[test]
    fn a_free_name_is_lent_once_and_kept_by_its_attempt() {
        let names = NamePool::default();
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
        let names = NamePool::default();
        assert_eq!(names.lend("q/", id(1), false), id(1));
        names.free("q/", id(9));
        assert_eq!(names.lend("q/", id(1), true), id(1));
    }

    #[test]
    fn name_of_a_refused_try_is_freed_unless_the_try_repeated() {
        let queue = Address::new("n", Kind::Mutex, "q").unwrap();
        for (repeated, free) in [(false, id(1)), (true, id(3))] {
            let names = NamePool::default();
            names.free("q/", id(1));
            assert_eq!(names.lend("q/", id(2), false), id(1));
            let join = Join {
                data: Default::default(),
                queue: queue.clone(),
                id: id(2),
                claim: Claim::Exclusive,
                limit: Limit::Stored,
                label: "".into(),
                patience: Patience::Try,
                repeated,
            };
            names.joined("q/", &join, &Err(Error::new(ErrorKind::OutcomeUnknown, "no answer")));
            assert_eq!(names.of(id(2)), id(1), "it may come back");
            names.joined("q/", &join, &Err(Error::lost(LostReason::Expired)));
            assert_eq!(names.of(id(2)), id(1), "it is abandoned");
            names.joined("q/", &join, &Ok(Joined::Refused));
            assert_eq!((names.of(id(2)), names.lend("q/", id(3), false)), (id(2), free));
        }
    }

    #[test]
    fn number_of_kept_names_is_bounded() {
        let names = NamePool::default();
        for queue in 0..=QUEUES {
            names.free(&queue.to_string(), id(1));
        }
        assert_eq!(names.0.lock().free.len(), QUEUES);
        (0..=EACH).for_each(|_| names.free("q/", NodeId::random()));
        assert_eq!(names.0.lock().free["q/"].len(), EACH);
    }
}
