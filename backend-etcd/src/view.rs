//! What a client saw of a queue at one revision.

use latchwork_core::Kind;
use latchwork_core::contracts::StoredLimit;
use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::{Listed, Standing, standing};

use crate::driver::Driver;
use crate::error::Answer;
use crate::keys::Queue;
use crate::terms::{Entry, Found, Order, Range, Step};

/// Whoever joins behind at most so many watches the whole queue, and is woken promptly; others are spoken to, or watch their
/// predecessor. So a departure wakes at most so many clients.
pub(crate) const MANY: u64 = 16;
const NEAR_HEAD_ENTRIES: i64 = 17;
/// So many keys are read at once, where all must be: a queue of the design's size, and as many that are nobody's.
const PAGE: i64 = 2000;

/// The queue, or its part that matters to one node, in order.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) revision: u64,
    pub(crate) members: Vec<Member>,
    /// There are others before the first.
    pub(crate) more: bool,
    /// Few enough stand in the queue.
    pub(crate) near: bool,
    /// Whoever joins next will be behind more than [`MANY`].
    pub(crate) many: bool,
    /// So many that the queue will not be short again at once.
    pub(crate) long: bool,
}

/// One entry of the queue that counts.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) key: Vec<u8>,
    pub(crate) created: u64,
    pub(crate) modified: u64,
    pub(crate) claim: Claim,
    /// It was admitted, and says so.
    pub(crate) marked: bool,
}

/// What must be read to know where a node of this claim stands. An exclusive one needs its predecessor, and near the head
/// all before it, to know without another look that it is next. Others need the whole queue, whose first page this is.
pub(crate) fn range(queue: &Queue, claim: Claim, order: Order) -> Range {
    let prefix = queue.prefix.clone();
    match claim {
        Claim::Exclusive => Range { prefix, order, limit: NEAR_HEAD_ENTRIES, keys_only: true },
        Claim::Shared | Claim::Permits(_) => {
            Range { prefix, order: Order::ByKey, limit: PAGE, keys_only: true }
        }
    }
}

impl View {
    /// Of what was read for this claim. `None` when entries that do not count hide those that do, or more than one page
    /// must be read: then everything is.
    pub(crate) fn new(queue: &Queue, claim: Claim, revision: u64, found: &Found) -> Option<Self> {
        let mut members: Vec<_> =
            found.entries.iter().filter_map(|entry| Member::read(queue, entry)).collect();
        if found.more && (claim != Claim::Exclusive || members.len() < found.entries.len()) {
            return None;
        }
        members.sort_by_key(|member| member.created);
        let (near, many, long) = (found.count <= MANY + 1, found.count > MANY, found.count > 2 * MANY);
        Some(Self { revision, members, more: found.more, near, many, long })
    }

    /// Where the node with this key stands; `None` when it is not there (RULES B1).
    pub(crate) fn standing(&self, key: &[u8], limit: u32) -> Option<Standing> {
        let own = self.members.iter().position(|member| member.key == key)?;
        Some(match standing(&self.listing(), own, limit) {
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
        let listed = |member: &Member| Listed { claim: member.claim, marked: member.marked };
        self.members.iter().map(listed).collect()
    }
}

impl Member {
    /// `None` for an entry that takes no part in the queue.
    fn read(queue: &Queue, entry: &Entry) -> Option<Self> {
        let (claim, marked) = queue.claim(entry)?;
        let Entry { key, created, modified, .. } = entry;
        Some(Self { key: key.clone(), created: *created, modified: *modified, claim, marked })
    }
}

/// All that takes part in a queue at this revision, read page by page: behind those that were found first, where these are the first
/// page.
pub(crate) async fn whole(
    driver: &Driver,
    queue: &Queue,
    first: Option<Found>,
    revision: u64,
) -> Answer<Found> {
    let mut page = match first {
        Some(first) => first,
        None => driver.page(&queue.prefix, queue.prefix.as_bytes(), revision, PAGE).await?,
    };
    let mut entries = Vec::new();
    loop {
        let last = page.entries.last().map(|entry| entry.key.clone());
        // What is nobody's is not kept: there may be any number.
        entries.extend(page.entries.into_iter().filter(|entry| queue.claim(entry).is_some()));
        match last.filter(|_| page.more) {
            Some(last) => page = driver.page(&queue.prefix, &last, revision, PAGE).await?,
            None => return Ok(Found { count: entries.len() as u64, entries, more: false }),
        }
    }
}

/// Reads a view, and with it the limit of a semaphore: one round trip, or two where foreign entries are in the way.
pub(crate) async fn read(
    driver: &Driver,
    queue: &Queue,
    claim: Claim,
    order: Order,
) -> Answer<(View, StoredLimit)> {
    let range = range(queue, claim, order);
    let (found, revision, limit) = if queue.kind == Kind::Semaphore {
        let steps = vec![Step::Range(range), Step::Get(queue.limit.clone().into())];
        let outcome = driver.read(steps).await?;
        let mut reads = outcome.reads.into_iter();
        (reads.next().unwrap_or_default(), outcome.revision, stored_limit(reads.next().as_ref()))
    } else {
        let (found, revision) = driver.range(range).await?;
        (found, revision, StoredLimit::Absent)
    };
    let view = match View::new(queue, claim, revision, &found) {
        Some(view) => Some(view),
        None => {
            let first = (claim != Claim::Exclusive).then_some(found);
            View::new(queue, claim, revision, &whole(driver, queue, first, revision).await?)
        }
    };
    Ok((view.expect("there is no more than the whole"), limit))
}

/// What stands in a semaphore's cell.
pub(crate) fn stored_limit(read: Option<&Found>) -> StoredLimit {
    let entry = read.and_then(|found| found.entries.first());
    StoredLimit::read(entry.map(|entry| &*entry.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Layout;
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
            lease: 1,
        });
        Found { entries: entries.collect(), more, count: keys.len() as u64 + u64::from(more) }
    }

    #[test]
    fn a_view_of_two_knows_that_there_are_more() {
        let queue = queue();
        let (a, b) = (
            queue.node(1, NodeId::random(), Claim::Exclusive),
            queue.node(2, NodeId::random(), Claim::Exclusive),
        );
        for (more, sole) in [(true, false), (false, true)] {
            let view = View::new(&queue, Claim::Exclusive, 9, &found(&[(&b, 7), (&a, 5)], more)).unwrap();
            let standing = view.standing(b.as_bytes(), 0);
            assert_eq!(standing, Some(Standing::Behind { watch: 0, sole }));
        }
        let view = View::new(&queue, Claim::Exclusive, 9, &found(&[(&a, 5)], false)).unwrap();
        assert_eq!(view.standing(b.as_bytes(), 0), None, "the own node is gone");
    }

    /// Whoever is behind so many relies on the one before it, which was behind all of them but itself.
    #[test]
    fn whoever_is_not_near_stands_behind_one_that_saw_many() {
        let queue = queue();
        let own = queue.node(1, NodeId::random(), Claim::Exclusive);
        let view = |count| {
            let found = Found { count, ..found(&[(&own, 7)], true) };
            View::new(&queue, Claim::Exclusive, 9, &found).unwrap()
        };
        let first_far = (1..40).find(|count| !view(*count).near).unwrap();
        assert_eq!(first_far, MANY + 2);
        assert!(view(first_far - 1).many && !view(first_far - 2).many);
    }

    #[test]
    fn foreign_entries_do_not_count_and_hide_nothing() {
        let queue = queue();
        let own = queue.node(1, NodeId::random(), Claim::Exclusive);
        let foreign = format!("{}notes", queue.prefix);
        assert!(View::new(&queue, Claim::Exclusive, 9, &found(&[(&own, 7), (&foreign, 5)], true)).is_none());
        let view =
            View::new(&queue, Claim::Exclusive, 9, &found(&[(&own, 7), (&foreign, 5)], false)).unwrap();
        assert_eq!(view.standing(own.as_bytes(), 0), Some(Standing::Admitted { mark: false }));
    }

    #[test]
    fn a_newcomer_is_judged_behind_all_others() {
        let view = View::new(&queue(), Claim::Exclusive, 9, &Found::default()).unwrap();
        assert!(view.admits(Claim::Permits(2), 2) && !view.admits(Claim::Permits(3), 2));
    }
}
