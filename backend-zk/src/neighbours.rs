//! Who stands before this client in queues that go round.
//!
//! *Why.* Where the same clients take turns and use their names again, a client's predecessor is the same one each time. It can
//! be watched by its name then, and need not be looked for in a listing, which costs the more the longer the queue is.
//!
//! *Why it is safe.* A node that is there and has the counter before ours is ahead of us, and nobody can come between. When
//! it has left the queue is listed as ever (RULES B2). Where it is not there the queue is listed at once: a wrong guess costs a
//! request and two trips, and is not made again until the predecessor was the same twice.

use std::collections::HashMap;

use parking_lot::Mutex;

/// For so many queues is it remembered: those that go round now.
const QUEUES: usize = 64;

/// A session's neighbours.
#[derive(Debug, Default)]
pub(crate) struct Neighbours(Mutex<HashMap<Box<str>, Neighbour>>);

#[derive(Debug)]
struct Neighbour {
    // Its name up to the counter.
    prefix: Box<str>,
    // It was there the last two times.
    again: bool,
}

impl Neighbours {
    /// The predecessor's name up to the counter, as far as it can be told.
    pub(crate) fn expected(&self, queue: &str) -> Option<String> {
        self.0
            .lock()
            .get(queue)
            .filter(|neighbour| neighbour.again)
            .map(|neighbour| neighbour.prefix.to_string())
    }

    /// This one was the predecessor, far from the head.
    pub(crate) fn seen(&self, queue: &str, prefix: &str) {
        let mut neighbours = self.0.lock();
        if let Some(known) = neighbours.get_mut(queue) {
            known.again = *known.prefix == *prefix;
            if !known.again {
                known.prefix = prefix.into();
            }
            return;
        }
        if neighbours.len() >= QUEUES
            && let Some(other) = neighbours.keys().next().cloned()
        {
            neighbours.remove(&other);
        }
        neighbours.insert(queue.into(), Neighbour { prefix: prefix.into(), again: false });
    }

    /// It was not there, or this client is near the head now.
    pub(crate) fn forget(&self, queue: &str) {
        self.0.lock().remove(queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_there_twice_is_expected_until_it_was_not() {
        let neighbours = Neighbours::default();
        assert_eq!(neighbours.expected("q"), None);
        neighbours.seen("q", "a-");
        assert_eq!(neighbours.expected("q"), None, "seen once");
        neighbours.seen("q", "a-");
        assert_eq!((neighbours.expected("q").as_deref(), neighbours.expected("other")), (Some("a-"), None));
        neighbours.seen("q", "b-");
        assert_eq!(neighbours.expected("q"), None);
        neighbours.seen("q", "b-");
        assert_eq!(neighbours.expected("q").as_deref(), Some("b-"));
        neighbours.forget("q");
        assert_eq!(neighbours.expected("q"), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let neighbours = Neighbours::default();
        (0..=QUEUES).for_each(|queue| neighbours.seen(&queue.to_string(), "a-"));
        assert_eq!(neighbours.0.lock().len(), QUEUES);
    }
}
