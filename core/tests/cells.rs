use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Clients, Plant, clients, connected, connected_to, fails, planted};
use async_trait::async_trait;
use latchwork_core::backend::decide::count::WRITERS;
use latchwork_core::backend::{Incarnation, VersionedValue};
use latchwork_core::memory::Memory;
use latchwork_core::recipes::{Compared, Counter};
use latchwork_core::{Clock, Config, Coordinator, ErrorKind, LostReason, Version};
use parking_lot::Mutex;
use tokio::time::Instant;

const TRIP: Duration = Duration::from_millis(100);
const INVALID: ErrorKind = ErrorKind::InvalidArgument { name: "expected" };

fn text(cell: Option<VersionedValue>) -> Option<String> {
    cell.map(|cell| String::from_utf8(cell.value.to_vec()).expect("text"))
}

/// The watch waits between two tries, so no request reports the close.
#[tokio::test(start_paused = true)]
async fn a_close_in_an_outage_ends_a_watch_at_once() {
    let (client, link) = connected();
    let value = client.shared_value("a").unwrap();
    let mut watch = value.watch().await.unwrap();
    assert_eq!(watch.changed().await.unwrap(), None);
    link.cut();
    tokio::time::sleep(4 * client.lease().ttl()).await;
    assert!(!watch.is_current());
    client.close().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_millis(10), watch.changed()).await;
    fails(ended.expect("at once"), ErrorKind::Closed, "closed");
    assert!(watch.latest().is_err());
    assert_eq!(value.watch().await.expect_err("closed").kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn news_that_are_lost_are_read_within_a_ttl() {
    let Clients { client, link, other, .. } = clients();
    let (watched, written) = (client.shared_value("a").unwrap(), other.shared_value("a").unwrap());
    let mut watch = watched.watch().await.unwrap();
    assert_eq!(watch.changed().await.unwrap(), None);
    link.drop_next_news(watched.address());
    written.write("unheard").await.unwrap();
    let early = tokio::time::timeout(Duration::from_secs(1), watch.changed()).await;
    assert!(early.is_err(), "the event was not lost: {early:?}");
    let ttl = client.lease().ttl();
    let seen = tokio::time::timeout(ttl, watch.changed()).await.expect("within a TTL").unwrap();
    assert_eq!(text(seen).as_deref(), Some("unheard"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_dropped_leaves_nothing_and_one_that_stays_goes_on() {
    let store = Memory::new(Clock::tokio());
    let (client, _) = connected_to(&store);
    let value = client.shared_value("a").unwrap();
    let (one, mut other) = (value.watch().await.unwrap(), value.watch().await.unwrap());
    let watches = || store.contents().iter().filter(|line| line.ends_with("watched")).count();
    assert_eq!(watches(), 1, "two views share one watch");
    drop(one);
    value.write("still").await.unwrap();
    while text(other.changed().await.unwrap()).as_deref() != Some("still") {}
    drop(other);
    value.delete().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(store.contents(), Vec::<String>::new());
}

/// Cells show versions that count down, as after a restore of older data.
#[derive(Debug)]
struct Restored(AtomicU64);

impl Plant for Restored {
    fn read(&self, cell: Option<VersionedValue>) -> Option<VersionedValue> {
        let number = self.0.load(Ordering::Relaxed);
        cell.map(|cell| VersionedValue { version: Version::new(number, number), ..cell })
    }
}

#[tokio::test(start_paused = true)]
async fn version_decrease_ends_the_watch_and_a_new_watch_works() {
    let plant = Arc::new(Restored(AtomicU64::new(9)));
    let (client, _link) = planted(&Memory::new(Clock::tokio()), &Config::new("memory"), &plant);
    let value = client.shared_value("a").unwrap();
    value.write("newer").await.unwrap();
    let mut watch = value.watch().await.unwrap();
    assert_eq!(text(watch.changed().await.unwrap()).as_deref(), Some("newer"));
    plant.0.store(3, Ordering::Relaxed);
    value.write("restored").await.unwrap();
    let error = watch.changed().await.expect_err("an older version");
    assert_eq!(error.lost_reason(), Some(LostReason::Forgotten), "{error}");
    assert!(watch.latest().is_err());
    let mut anew = value.watch().await.unwrap();
    assert_eq!(text(anew.changed().await.unwrap()).as_deref(), Some("restored"));
}

/// A deletion by another handle looks like a server that has lost the count.
#[tokio::test(start_paused = true)]
async fn ids_of_a_count_that_fell_are_forgotten_until_they_are_new_to_the_handle() {
    let Clients { client, other, .. } = clients();
    let ids = |of: &Coordinator| of.id_generator("a").unwrap().with_block(1).unwrap();
    let (ids, theirs) = (ids(&client), ids(&other));
    assert_eq!((ids.next_id().await.unwrap(), ids.next_id().await.unwrap()), (1, 2));
    assert!(theirs.delete().await.unwrap());
    for _ in 0..2 {
        let error = ids.next_id().await.expect_err("this handle has already returned the id");
        assert_eq!(error.lost_reason(), Some(LostReason::Forgotten), "{error}");
    }
    assert_eq!(ids.next_id().await.unwrap(), 3);
    assert!(ids.delete().await.unwrap());
    assert_eq!(ids.next_id().await.unwrap(), 1, "an own deletion is not a loss");
}

#[tokio::test(start_paused = true)]
async fn block_reserved_during_a_deletion_is_not_used() {
    let (client, link) = connected();
    let ids = client.id_generator("a").unwrap();
    link.delay(TRIP);
    let reserving = tokio::spawn({
        let ids = ids.clone();
        async move { ids.next_id().await }
    });
    tokio::time::sleep(TRIP / 4).await;
    assert!(ids.delete().await.unwrap());
    assert_eq!(reserving.await.unwrap().unwrap(), 1);
    assert_eq!(ids.next_id().await.unwrap(), 1, "the count starts again");
}

#[tokio::test(start_paused = true)]
async fn clone_with_another_setting_reserves_blocks_of_its_own() {
    let (client, _) = connected();
    let ids = client.id_generator("a").unwrap();
    let time = 3 * client.lease().ttl();
    let ends = ids.clone().with_time_to_idle(time).unwrap();
    let (first, second) = tokio::join!(ids.next_id(), ends.next_id());
    assert_eq!((first.unwrap(), second.unwrap()), (1, 101));
    tokio::time::sleep(2 * time).await;
    assert_eq!(ends.next_id().await.unwrap(), 1, "the server has deleted the generator");
}

/// The server only compares. Before each write, another client changes the count.
#[derive(Debug)]
struct Contended {
    other: Counter,
    writes: Mutex<Vec<Instant>>,
}

#[async_trait]
impl Plant for Contended {
    fn changes_counts(&self) -> bool {
        false
    }

    async fn before_change(&self) {
        self.writes.lock().push(Instant::now());
        self.other.add(1).await.expect("added");
    }
}

#[tokio::test(start_paused = true)]
async fn add_that_others_overtake_sends_no_write_after_one_ttl() {
    let store = Memory::new(Clock::tokio());
    let other = connected_to(&store).0.counter("a").unwrap();
    let plant = Arc::new(Contended { other, writes: Mutex::default() });
    let (client, link) = planted(&store, &Config::new("memory"), &plant);
    link.delay(TRIP);
    let counter = client.counter("a").unwrap();
    for _ in 0..9 {
        plant.writes.lock().clear();
        fails(counter.add(1).await, ErrorKind::Timeout, "overtaken");
        let writes = plant.writes.lock().clone();
        let sent_for = *writes.last().expect("several") - writes[0];
        assert!(sent_for <= client.lease().ttl(), "{sent_for:?}");
    }
}

/// The cell's server is replaced at some instant, and the new one does not have the cell.
#[derive(Debug, Default)]
struct Replaced(AtomicBool);

impl Plant for Replaced {
    fn read(&self, cell: Option<VersionedValue>) -> Option<VersionedValue> {
        cell.filter(|_| !self.0.load(Ordering::Relaxed))
    }

    fn incarnation(&self, _real: Incarnation) -> Incarnation {
        let is_another = self.0.load(Ordering::Relaxed);
        Incarnation::Started(if is_another { "two" } else { "one" }.to_owned())
    }
}

#[tokio::test(start_paused = true)]
async fn cell_that_a_replaced_server_lacks_ends_watches_and_latches_as_forgotten() {
    let plant = Arc::new(Replaced::default());
    let (client, _link) = planted(&Memory::new(Clock::tokio()), &Config::new("memory"), &plant);
    let latch = client.count_down_latch("a", 2).unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 1);
    let value = client.shared_value("a").unwrap();
    value.write("a").await.unwrap();
    let mut watch = value.watch().await.unwrap();
    watch.changed().await.unwrap();
    let mut waiting = std::pin::pin!(latch.wait());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut waiting).await.is_err(), "one is missing");
    plant.0.store(true, Ordering::Relaxed);
    for error in [waiting.await.expect_err("forgotten"), watch.changed().await.expect_err("forgotten")] {
        assert_eq!(error.lost_reason(), Some(LostReason::Forgotten), "{error}");
    }
}

/// The control: a deletion on the same server.
#[tokio::test(start_paused = true)]
async fn deleted_cell_is_not_a_forgotten_cell() {
    let plant = Arc::new(Replaced::default());
    let (client, _link) = planted(&Memory::new(Clock::tokio()), &Config::new("memory"), &plant);
    let value = client.shared_value("a").unwrap();
    value.write("a").await.unwrap();
    let mut watch = value.watch().await.unwrap();
    watch.changed().await.unwrap();
    value.delete().await.unwrap();
    assert_eq!(watch.changed().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn an_add_that_was_surely_not_applied_says_so_after_one_ttl() {
    let Clients { client, link, other, .. } = clients();
    let counter = client.counter("a").unwrap();
    counter.add(1).await.unwrap();
    link.cut();
    let begun = Instant::now();
    fails(counter.add(1).await, ErrorKind::Unavailable, "cut off");
    assert!(begun.elapsed() <= client.lease().ttl(), "{:?}", begun.elapsed());
    assert_eq!(other.counter("a").unwrap().get().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn add_followed_by_too_many_others_has_unknown_outcome() {
    let store = Memory::new(Clock::tokio());
    for (others, known) in [(WRITERS - 1, true), (WRITERS, false)] {
        let (client, link) = connected_to(&store);
        let counter = client.counter("a").unwrap();
        counter.add(1).await.unwrap();
        link.drop_next_reply();
        let adding = tokio::spawn({
            let counter = counter.clone();
            async move { counter.add(1).await }
        });
        link.reply_dropped().await;
        link.cut();
        for _ in 0..others {
            connected_to(&store).0.counter("a").unwrap().add(1).await.unwrap();
        }
        link.heal();
        let added = adding.await.unwrap();
        match known {
            true => assert_eq!(added.unwrap(), 2, "with the sum at that time"),
            false => assert_eq!(added.expect_err("unknown outcome").kind(), ErrorKind::OutcomeUnknown),
        }
        counter.delete().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn watched_values_and_latches_stay_although_the_watching_client_has_a_longer_ttl() {
    let store = Memory::new(Clock::tokio());
    let of = |ttl| {
        let mut config = Config::new("memory");
        config.ttl = Duration::from_secs(ttl);
        store.connect(&config).expect("connected").0
    };
    let (short, long) = (of(1), of(20));
    let time = Duration::from_secs(2);
    let value = short.shared_value("a").unwrap().with_time_to_idle(time).unwrap();
    let latch = short.count_down_latch("a", 2).unwrap().with_time_to_idle(time).unwrap();
    value.write("here").await.unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 1);
    let mut watch = long.shared_value("a").unwrap().watch().await.unwrap();
    assert_eq!(text(watch.changed().await.unwrap()).as_deref(), Some("here"));
    let waits = long.count_down_latch("a", 2).unwrap();
    let waiting = tokio::spawn(async move { waits.wait().await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(text(watch.latest().unwrap()).as_deref(), Some("here"));
    assert_eq!(latch.count_down().await.unwrap(), 0, "the latch was deleted under its waiter");
    waiting.await.unwrap().expect("open");
    drop(watch);
    tokio::time::sleep(2 * time).await;
    assert_eq!(value.read().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn compare_and_set_refuses_a_version_of_another_value() {
    let (client, _) = connected();
    let (here, there) = (client.shared_value("a").unwrap(), client.shared_value("b").unwrap());
    let (written, others) = (here.write("1").await.unwrap(), there.write("1").await.unwrap());
    let read = there.read().await.unwrap().expect("written");
    let watched = there.watch().await.unwrap().latest().unwrap().expect("written");
    let Compared::Stored(stored) = there.compare_and_set(read.version, "2").await.unwrap() else {
        panic!("equal")
    };
    let Compared::Differs(Some(differs)) = there.compare_and_set(read.version, "3").await.unwrap() else {
        panic!("another version")
    };
    for version in [others, read.version, watched.version, stored, differs.version] {
        let refused = fails(here.compare_and_set(version, "no").await, INVALID, "of another value");
        assert_eq!((refused.key(), refused.operation()), (Some("a"), Some("compare_and_set")));
    }
    let stored = here.compare_and_set(written, "4").await.unwrap();
    assert!(matches!(stored, Compared::Stored(_)), "{stored:?}");
    // A version of unknown origin, as a backend returns it.
    let plain = Version::new(written.number(), written.condition());
    assert!(matches!(here.compare_and_set(plain, "no").await.unwrap(), Compared::Differs(Some(_))));
}
