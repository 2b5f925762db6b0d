//! What a client saw of a queue at one revision.

use latchwork_core::Kind;
use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::{Listed, Standing, standing};

use crate::count::{Count, Turn};
use crate::driver::Driver;
use crate::error::Answer;
use crate::keys::{NodeValue, Queue};
use crate::terms::{Found, Order, Range, Step};

/// A waiter that joins among so many watches the whole queue, and is woken promptly; others watch their
/// predecessor. So a departure wakes at most so many clients.
const NEAR_HEAD: u64 = 16;
const NEAR_HEAD_ENTRIES: i64 = 16;

/// The queue, or its part that matters to one node, in order.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) revision: u64,
    pub(crate) members: Vec<Member>,
    /// There are others before the first.
    pub(crate) more: bool,
    /// So many of them, each of which will leave before the first one does, at a revision of its own. Zero where that is not known.
    pub(crate) hidden: u64,
    /// Few enough stand in the queue.
    pub(crate) near: bool,
    /// So few that it is not about to be long again.
    pub(crate) short: bool,
    /// How to tell by a count that all ahead have left.
    pub(crate) turn: Option<Turn>,
    /// What was counted by then.
    pub(crate) count: Option<Count>,
}

/// One entry of the queue that counts.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) key: Vec<u8>,
    pub(crate) created: u64,
    pub(crate) modified: u64,
    /// Its value; made up where only keys were read.
    pub(crate) value: NodeValue,
}

/// What must be read to know where a node of this claim stands. An exclusive one needs its predecessor, and near the head
/// all before it, to know without another look that it is next.
pub(crate) fn range(queue: &Queue, claim: Claim, order: Order) -> Range {
    match claim {
        Claim::Exclusive => {
            Range { prefix: queue.prefix.clone(), order, limit: NEAR_HEAD_ENTRIES, keys_only: true }
        }
        Claim::Shared | Claim::Permits(_) => everything(queue),
    }
}

pub(crate) fn everything(queue: &Queue) -> Range {
    Range { prefix: queue.prefix.clone(), order: Order::Oldest, limit: 0, keys_only: false }
}

impl View {
    /// `None` when entries that do not count hide those that do: everything must be read.
    pub(crate) fn new(queue: &Queue, revision: u64, found: &Found) -> Option<Self> {
        let mut members: Vec<_> = found
            .entries
            .iter()
            .filter(|entry| queue.counts(&entry.key))
            .map(|entry| Member {
                key: entry.key.clone(),
                created: entry.created,
                modified: entry.modified,
                value: NodeValue::read(&entry.key, &entry.value),
            })
            .collect();
        if found.more && members.len() < found.entries.len() {
            return None;
        }
        members.sort_by_key(|member| member.created);
        let hidden =
            if queue.is_one_by_one() { found.count.saturating_sub(found.entries.len() as u64) } else { 0 };
        let (near, short) = (found.count <= NEAR_HEAD, found.count <= NEAR_HEAD / 2);
        Some(Self { revision, members, more: found.more, hidden, near, short, turn: None, count: None })
    }

    /// What a node knows that was made at this revision and looked at one key only; `None` when that is not there. Whoever is there
    /// is ahead of it.
    pub(crate) fn behind(own: &str, revision: u64, found: &Found) -> Option<Self> {
        let other = found.entries.first()?;
        let member = |key: &[u8], created, modified| Member {
            key: key.to_vec(),
            created,
            modified,
            value: NodeValue::read(key, &[]),
        };
        let members = vec![
            member(&other.key, other.created, other.modified),
            member(own.as_bytes(), revision, revision),
        ];
        Some(Self {
            revision,
            members,
            more: true,
            hidden: 0,
            near: false,
            short: false,
            turn: None,
            count: None,
        })
    }

    /// Where the node with this key stands; `None` when it is not there (RULES B1).
    pub(crate) fn standing(&self, key: &[u8], claim: Claim, limit: u32) -> Option<Standing> {
        let own = self.members.iter().position(|member| member.key == key)?;
        let mut listing = self.listing();
        // Where only keys were read, the own claim is known all the same.
        listing[own].claim = claim;
        Some(match standing(&listing, own, limit) {
            Standing::Behind { watch, sole } => Standing::Behind { watch, sole: sole && !self.more },
            other => other,
        })
    }

    /// Whether a newcomer would be admitted at once.
    pub(crate) fn admits(&self, claim: Claim, limit: u32) -> bool {
        let mut listing = self.listing();
        listing.push(Listed { claim, marked: false });
        matches!(standing(&listing, listing.len() - 1, limit), Standing::Admitted { .. })
    }

    fn listing(&self) -> Vec<Listed> {
        let listed = |member: &Member| Listed { claim: member.value.claim, marked: member.value.marked };
        self.members.iter().map(listed).collect()
    }
}

/// Reads a view, and with it the limit of a semaphore, or this counter of a mutex: one round trip, or two where foreign entries are
/// in the way.
pub(crate) async fn read(
    driver: &Driver,
    queue: &Queue,
    claim: Claim,
    order: Order,
    counter: Option<String>,
) -> Answer<(View, Option<u32>)> {
    let is_semaphore = queue.kind == Kind::Semaphore;
    let beside = if is_semaphore { Some(queue.limit.clone()) } else { counter };
    let mut range = range(queue, claim, order);
    loop {
        let (found, revision, other) = match &beside {
            Some(key) => {
                let outcome = driver.read(vec![Step::Range(range), Step::Get(key.clone().into())]).await?;
                let mut reads = outcome.reads.into_iter();
                (reads.next().unwrap_or_default(), outcome.revision, reads.next())
            }
            None => {
                let (found, revision) = driver.range(range).await?;
                (found, revision, None)
            }
        };
        if let Some(mut view) = View::new(queue, revision, &found) {
            if matches!(order, Order::NewestUpTo(_)) {
                // The server counts those behind too.
                view.hidden = 0;
            }
            let other = other.as_ref();
            if is_semaphore {
                return Ok((view, stored_limit(other)));
            }
            view.count = other.and_then(Count::read);
            return Ok((view, None));
        }
        range = everything(queue);
    }
}

/// A semaphore's limit as it stands in its cell.
pub(crate) fn stored_limit(read: Option<&Found>) -> Option<u32> {
    std::str::from_utf8(&read?.entries.first()?.value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Layout;
    use crate::terms::Entry;
    use latchwork_core::Address;
    use latchwork_core::contracts::NodeId;

    fn queue() -> Queue {
        Layout::new("n").queue(&Address::new("n", Kind::Mutex, "k").unwrap()).unwrap()
    }

    fn found(keys: &[(&str, u64)], more: bool) -> Found {
        let entries = keys.iter().map(|(key, created)| Entry {
            key: key.as_bytes().to_vec(),
            value: Vec::new(),
            created: *created,
            modified: *created,
            version: 1,
        });
        Found { entries: entries.collect(), more, count: keys.len() as u64 + u64::from(more) }
    }

    #[test]
    fn a_view_of_two_knows_that_there_are_more() {
        let queue = queue();
        let (a, b) = (queue.node(1, NodeId::random()), queue.node(2, NodeId::random()));
        for (more, sole) in [(true, false), (false, true)] {
            let view = View::new(&queue, 9, &found(&[(&b, 7), (&a, 5)], more)).unwrap();
            let standing = view.standing(b.as_bytes(), Claim::Exclusive, 0);
            assert_eq!(standing, Some(Standing::Behind { watch: 0, sole }));
        }
        let view = View::new(&queue, 9, &found(&[(&a, 5)], false)).unwrap();
        assert_eq!(view.standing(b.as_bytes(), Claim::Exclusive, 0), None, "the own node is gone");
    }

    #[test]
    fn whoever_looks_at_one_key_stands_behind_it_and_maybe_others() {
        let queue = queue();
        let (a, b) = (queue.node(1, NodeId::random()), queue.node(2, NodeId::random()));
        let view = View::behind(&b, 9, &found(&[(&a, 5)], false)).unwrap();
        let standing = view.standing(b.as_bytes(), Claim::Exclusive, 0);
        assert_eq!(standing, Some(Standing::Behind { watch: 0, sole: false }));
        assert!(View::behind(&b, 9, &found(&[], false)).is_none());
    }

    #[test]
    fn those_that_must_leave_first_are_counted_where_all_are_exclusive() {
        let rwlock = Address::new("n", Kind::RwLock, "k").unwrap();
        for (queue, hidden) in [(queue(), 18), (Layout::new("n").queue(&rwlock).unwrap(), 0)] {
            let (a, b) = (queue.node(1, NodeId::random()), queue.node(2, NodeId::random()));
            let found = Found { count: 20, ..found(&[(&b, 27), (&a, 25)], true) };
            assert_eq!(View::new(&queue, 29, &found).unwrap().hidden, hidden);
        }
    }

    #[test]
    fn foreign_entries_do_not_count_and_hide_nothing() {
        let queue = queue();
        let own = queue.node(1, NodeId::random());
        let foreign = format!("{}notes", queue.prefix);
        assert!(View::new(&queue, 9, &found(&[(&own, 7), (&foreign, 5)], true)).is_none());
        let view = View::new(&queue, 9, &found(&[(&own, 7), (&foreign, 5)], false)).unwrap();
        assert_eq!(
            view.standing(own.as_bytes(), Claim::Exclusive, 0),
            Some(Standing::Admitted { mark: false })
        );
    }

    #[test]
    fn a_newcomer_is_judged_behind_all_others() {
        let view = View::new(&queue(), 9, &Found::default()).unwrap();
        assert!(view.admits(Claim::Permits(2), 2) && !view.admits(Claim::Permits(3), 2));
    }
}
