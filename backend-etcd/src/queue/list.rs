use latchwork_core::backend::StoredLimit;
use latchwork_core::backend::decide::chain::{Listed, Standing, standing};
use latchwork_core::{Claim, Kind};

use super::limit::stored_limit;
use crate::driver::{Driver, Found, Op, Order, Range, StoredKey, end_of};
use crate::error::Answer;
use crate::layout::Queue;

/// The keys that an exclusive node reads. The first two decide, the others save a listing near the head.
const EXCLUSIVE_READ: i64 = 17;
/// The 1,000 nodes of the longest queue, and as many foreign keys.
const PAGE: i64 = 2000;
/// As [`PAGE`], for foreign values: the largest values that etcd accepts, 1.5 MiB each, fit into the longest
/// reply that the client reads.
const PAGE_OF_VALUES: i64 = 40;

/// A queue in order, or the part that decides about one node.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) revision: u64,
    pub(crate) members: Vec<Member>,
    /// Whether other keys are before the first.
    pub(crate) more: bool,
    /// Including keys in the range that were not read.
    pub(crate) count: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) key: Vec<u8>,
    pub(crate) created: u64,
    pub(crate) modified: u64,
    pub(crate) claim: Claim,
    pub(crate) lease: i64,
    pub(crate) marked: bool,
}

/// The read that shows the position of a node. An exclusive node needs its predecessor, others need the whole
/// queue, of which this is the first page.
pub(crate) fn range(queue: &Queue, claim: Claim, order: Order) -> Range {
    match claim {
        Claim::Exclusive => nodes(queue, order, EXCLUSIVE_READ),
        Claim::Shared | Claim::Permits(_) => nodes(queue, Order::ByKey, page(queue)),
    }
}

/// The read of the number of nodes. It reads one name.
pub(crate) fn count(queue: &Queue) -> Range {
    nodes(queue, Order::ByKey, 1)
}

/// Reads names alone, except at an exact address. There the lease of a key decides, and since etcd 3.7 a read
/// of names does not return it.
pub(crate) fn nodes(queue: &Queue, order: Order, limit: i64) -> Range {
    Range { prefix: queue.prefix.clone(), order, limit, keys_only: !queue.exact }
}

fn page(queue: &Queue) -> i64 {
    if queue.exact { PAGE_OF_VALUES } else { PAGE }
}

impl Listing {
    /// The result of a [`range`]. `None`: the [`whole`] queue must be read, because foreign keys hide others,
    /// or there are more pages.
    pub(crate) fn new(queue: &Queue, claim: Claim, revision: u64, found: &Found) -> Option<Self> {
        let mut members: Vec<_> =
            found.keys.iter().filter_map(|stored| Member::read(queue, stored)).collect();
        if found.more && (claim != Claim::Exclusive || members.len() < found.keys.len()) {
            return None;
        }
        members.sort_by_key(|member| member.created);
        Some(Self { revision, members, more: found.more, count: found.count })
    }

    /// `None`: the node is not in the queue (CHAIN-OWN-NODE-AND-DEADLINE).
    pub(crate) fn standing(&self, key: &[u8], limit: u32) -> Option<Standing> {
        let own = self.position(key)?;
        Some(match standing(&self.listing(), own, limit) {
            Standing::Behind { watch, sole } => Standing::Behind { watch, sole: sole && !self.more },
            other => other,
        })
    }

    /// `None`: not in the queue.
    pub(crate) fn position(&self, key: &[u8]) -> Option<usize> {
        self.members.iter().position(|member| member.key == key)
    }

    /// Whether a new node would be admitted.
    pub(crate) fn admits(&self, claim: Claim, limit: u32) -> bool {
        let mut listing = self.listing();
        listing.push(Listed { claim, marked: false });
        matches!(standing(&listing, listing.len() - 1, limit), Standing::Admitted { .. })
    }

    fn listing(&self) -> Vec<Listed> {
        let listed = |member: &Member| Listed { claim: member.claim, marked: member.marked };
        self.members.iter().map(listed).collect()
    }
}

impl Member {
    fn read(queue: &Queue, stored: &StoredKey) -> Option<Self> {
        let (claim, marked) = queue.claim(stored)?;
        let StoredKey { key, created, modified, lease, .. } = stored;
        Some(Self { key: key.clone(), created: *created, modified: *modified, claim, lease: *lease, marked })
    }
}

/// Reads all keys that count at this revision, page by page. `first`: the first page, if already read.
pub(crate) async fn whole(
    driver: &Driver,
    queue: &Queue,
    first: Option<Found>,
    revision: u64,
) -> Answer<Found> {
    let page_after = async |last: &[u8]| {
        let (start, end) = ([last, b"\0"].concat(), end_of(&queue.prefix));
        driver.page(&start, end, revision, page(queue), !queue.exact).await
    };
    let mut page = match first {
        Some(first) => first,
        None => page_after(queue.prefix.as_bytes()).await?,
    };
    let mut keys = Vec::new();
    loop {
        let last = page.keys.last().map(|stored| stored.key.clone());
        // There may be any number of other keys.
        keys.extend(page.keys.into_iter().filter(|stored| queue.claim(stored).is_some()));
        match last.filter(|_| page.more) {
            Some(last) => page = page_after(&last).await?,
            None => return Ok(Found { count: keys.len() as u64, keys, more: false }),
        }
    }
}

/// Lists a queue with the limit of a semaphore in one round trip, or two if foreign keys hide nodes.
pub(crate) async fn read(
    driver: &Driver,
    queue: &Queue,
    claim: Claim,
    order: Order,
) -> Answer<(Listing, StoredLimit)> {
    let range = range(queue, claim, order);
    let (found, revision, limit) = if queue.kind == Kind::Semaphore {
        let read = driver.read(vec![Op::Range(range), Op::Get(queue.limit.clone().into())]).await?;
        let mut reads = read.reads.into_iter();
        (reads.next().unwrap_or_default(), read.revision, stored_limit(reads.next().as_ref()))
    } else {
        let (found, revision) = driver.range(range).await?;
        (found, revision, StoredLimit::Absent)
    };
    let listing = match Listing::new(queue, claim, revision, &found) {
        Some(listing) => Some(listing),
        None => {
            let first = (claim != Claim::Exclusive).then_some(found);
            Listing::new(queue, claim, revision, &whole(driver, queue, first, revision).await?)
        }
    };
    Ok((listing.expect("the whole queue is enough"), limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use latchwork_core::Address;
    use latchwork_core::backend::NodeId;

    fn queue() -> Queue {
        Layout::new("n").queue(&Address::new("n", Kind::Mutex, "k").unwrap()).unwrap()
    }

    fn found(keys: &[(&str, u64)], more: bool) -> Found {
        let stored = keys.iter().map(|(key, created)| StoredKey {
            key: key.as_bytes().to_vec(),
            value: Vec::new(),
            created: *created,
            modified: *created,
            version: 1,
            lease: 1,
        });
        Found { keys: stored.collect(), more, count: keys.len() as u64 + u64::from(more) }
    }

    #[test]
    fn a_listing_of_two_knows_that_there_are_more() {
        let queue = queue();
        let (a, b) = (
            queue.node(1, NodeId::random(), Claim::Exclusive),
            queue.node(2, NodeId::random(), Claim::Exclusive),
        );
        for (more, sole) in [(true, false), (false, true)] {
            let listing =
                Listing::new(&queue, Claim::Exclusive, 9, &found(&[(&b, 7), (&a, 5)], more)).unwrap();
            let standing = listing.standing(b.as_bytes(), 0);
            assert_eq!(standing, Some(Standing::Behind { watch: 0, sole }));
        }
        let listing = Listing::new(&queue, Claim::Exclusive, 9, &found(&[(&a, 5)], false)).unwrap();
        assert_eq!(listing.standing(b.as_bytes(), 0), None, "the own node is gone");
    }

    #[test]
    fn foreign_keys_do_not_count_and_hide_nothing() {
        let queue = queue();
        let own = queue.node(1, NodeId::random(), Claim::Exclusive);
        let foreign = format!("{}notes", queue.prefix);
        assert!(
            Listing::new(&queue, Claim::Exclusive, 9, &found(&[(&own, 7), (&foreign, 5)], true)).is_none()
        );
        let listing =
            Listing::new(&queue, Claim::Exclusive, 9, &found(&[(&own, 7), (&foreign, 5)], false)).unwrap();
        assert_eq!(listing.standing(own.as_bytes(), 0), Some(Standing::Admitted { mark: false }));
    }

    #[test]
    fn empty_queue_admits_a_new_node_within_the_limit() {
        let listing = Listing::new(&queue(), Claim::Exclusive, 9, &Found::default()).unwrap();
        assert!(listing.admits(Claim::Permits(2), 2) && !listing.admits(Claim::Permits(3), 2));
    }
}
