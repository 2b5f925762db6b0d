use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::NodeId;

use crate::layout::QueueKeys;
use crate::scripts::{self, Call};
use crate::watch::Attempt;

/// Fewer cost the server more, more make other requests wait.
const QUEUES: usize = 32;
const NODES: usize = 256;

pub(super) type Batch = Vec<(QueueKeys, Vec<Arc<Attempt>>)>;

pub(super) fn batches(
    queues: HashMap<QueueKeys, Vec<Arc<Attempt>>>,
    slot: impl Fn(&QueueKeys) -> Option<u16>,
) -> Vec<Batch> {
    let deadline = |attempt: &Arc<Attempt>| attempt.state().map(|state| state.lease().deadline());
    let mut parts = Batch::new();
    for (queue, mut attempts) in queues {
        attempts.sort_by_cached_key(deadline);
        parts.extend(attempts.chunks(NODES).map(|part| (queue.clone(), part.to_vec())));
    }
    parts.sort_by_cached_key(|(_, attempts)| attempts.first().and_then(deadline));
    let mut batches: Vec<Batch> = Vec::new();
    // For each slot, the batch with room, and its number of nodes.
    let mut open: HashMap<Option<u16>, (usize, usize)> = HashMap::new();
    for (queue, part) in parts {
        let (place, nodes) = open.entry(slot(&queue)).or_insert((usize::MAX, 0));
        match batches.get_mut(*place) {
            Some(batch) if batch.len() < QUEUES && *nodes + part.len() <= NODES => {
                *nodes += part.len();
                batch.push((queue, part));
            }
            _ => {
                (*place, *nodes) = (batches.len(), part.len());
                batches.push(vec![(queue, part)]);
            }
        }
    }
    batches
}

pub(super) fn request(batch: &Batch, ttl: Duration) -> Call {
    let named = |attempt: &Arc<Attempt>| -> Option<(NodeId, u64)> {
        attempt.state().map(|state| (attempt.id, state.sequence()))
    };
    let groups = batch.iter().map(|(queue, attempts)| (queue, attempts.iter().filter_map(named).collect()));
    scripts::renew(groups, ttl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchwork_core::backend::{LeaseWriter, NodeWriter};
    use latchwork_core::{Address, Clock, Kind, Moment};

    use crate::watch::Inbox;

    #[test]
    fn batches_hold_every_node_once_and_are_bounded() {
        let mut queues = HashMap::new();
        for (name, count) in [("a", 1), ("b", 600), ("c", 1)].into_iter().chain([("d", 0)]) {
            let queue = QueueKeys::of(&Address::new("n", Kind::Mutex, name).unwrap()).unwrap();
            let attempts = (0..count).map(|_| Attempt::new(queue.clone(), NodeId::random(), false)).collect();
            queues.insert(queue, attempts);
        }
        for i in 0..70 {
            let queue = QueueKeys::of(&Address::new("n", Kind::Mutex, format!("q{i}")).unwrap()).unwrap();
            queues.insert(queue.clone(), vec![Attempt::new(queue, NodeId::random(), false)]);
        }
        let batches = batches(queues, |_| None);
        let nodes = |batch: &Batch| batch.iter().map(|(_, attempts)| attempts.len()).sum::<usize>();
        assert_eq!(batches.iter().map(nodes).sum::<usize>(), 672);
        assert!(batches.iter().all(|batch| batch.len() <= QUEUES && nodes(batch) <= NODES));
    }

    #[tokio::test(start_paused = true)]
    async fn the_node_renewed_longest_ago_is_renewed_first() {
        let (clock, ttl) = (Clock::tokio(), Duration::from_secs(10));
        let inbox = Inbox::new(clock.clone(), "n:inbox:c".to_owned());
        let mut queues: HashMap<QueueKeys, Vec<Arc<Attempt>>> = HashMap::new();
        let crowd = 2 * NODES as u64;
        for i in (0..crowd + 100).rev() {
            let key = if i < crowd { "crowd".to_owned() } else { format!("q{i}") };
            let queue = QueueKeys::of(&Address::new("n", Kind::RwLock, key).unwrap()).unwrap();
            let attempt = Attempt::new(queue.clone(), NodeId::random(), false);
            let lease = LeaseWriter::new(clock.clone(), ttl, clock.now() + Duration::from_millis(i));
            inbox.settle(&attempt, NodeWriter::new(lease, i), true, Moment::NEVER);
            queues.entry(queue).or_default().push(attempt);
        }
        let batches = batches(queues, |_| None);
        let attempts = batches.iter().flatten().flat_map(|(_, attempts)| attempts);
        let order: Vec<_> = attempts.map(|attempt| attempt.state().unwrap().sequence()).collect();
        assert_eq!(order, (0..crowd + 100).collect::<Vec<_>>());
    }
}
