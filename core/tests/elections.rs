use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Clients, Plant, clients, connected_to, fails, planted};
use async_trait::async_trait;
use futures_util::FutureExt;
use latchwork_core::backend::QueueEntry;
use latchwork_core::memory::Memory;
use latchwork_core::recipes::{GroupMember, Leader};
use latchwork_core::{Clock, Config, Error, ErrorKind, LostReason, Result};

fn data(leading: Option<Leader>) -> Option<Vec<u8>> {
    leading.map(|leading| leading.data.to_vec())
}

#[tokio::test(start_paused = true)]
async fn news_of_a_leader_that_are_lost_are_read_within_a_ttl() {
    let Clients { client, link, other, .. } = clients();
    let (observed, stands) = (client.election("a").unwrap(), other.election("a").unwrap());
    let mut observer = observed.watch().await.unwrap();
    assert_eq!(observer.changed().await.unwrap(), None);
    link.drop_next_news(observed.address());
    let leader = stands.campaign(b"unheard").await.unwrap();
    let early = tokio::time::timeout(Duration::from_secs(1), observer.changed()).await;
    assert!(early.is_err(), "the event was not lost: {early:?}");
    let seen = tokio::time::timeout(client.lease().ttl(), observer.changed()).await.expect("within a TTL");
    assert_eq!(data(seen.unwrap()), Some(b"unheard".to_vec()));
    drop(leader);
}

#[tokio::test(start_paused = true)]
async fn observers_share_a_watch_that_goes_with_the_last_of_them() {
    let store = Memory::new(Clock::tokio());
    let (client, _) = connected_to(&store);
    let (election, group) = (client.election("a").unwrap(), client.group("a").unwrap());
    let watches = || store.contents().iter().filter(|line| line.ends_with("watched")).count();
    let (one, mut other) = (election.watch().await.unwrap(), election.watch().await.unwrap());
    let (first, mut second) = (group.watch().await.unwrap(), group.watch().await.unwrap());
    assert_eq!(watches(), 2, "one for the election, one for the group");
    drop((one, first));
    let (leader, member) = (election.campaign(b"it").await.unwrap(), group.join(b"it").await.unwrap());
    while data(other.changed().await.unwrap()).as_deref() != Some(b"it") {}
    while second.changed().await.unwrap().len() != 1 {}
    drop((other, second, leader, member));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(store.contents(), Vec::<String>::new());
}

/// Listings show lower sequence numbers, as after a restore of older data.
#[derive(Debug, Default)]
struct Restored(AtomicU64);

impl Plant for Restored {
    fn list(&self, entries: Vec<QueueEntry>) -> Vec<QueueEntry> {
        let lower = self.0.load(Ordering::Relaxed);
        let restored = |entry: QueueEntry| QueueEntry { sequence: entry.sequence - lower, ..entry };
        entries.into_iter().map(restored).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn term_decrease_ends_observers_and_new_observers_work() {
    let plant = Arc::new(Restored::default());
    let (client, _link) = planted(&Memory::new(Clock::tokio()), &Config::new("memory"), &plant);
    let (election, group) = (client.election("a").unwrap(), client.group("a").unwrap());
    let mut observer = election.watch().await.unwrap();
    let mut watch = group.watch().await.unwrap();
    for _ in 0..3 {
        let (leader, member) = (election.campaign(b"it").await.unwrap(), group.join(b"it").await.unwrap());
        while observer.changed().await.unwrap().is_none() {}
        while watch.changed().await.unwrap().is_empty() {}
        let _ = (leader.release().await.unwrap(), member.release().await.unwrap());
    }
    while observer.changed().await.unwrap().is_some() {}
    while !watch.changed().await.unwrap().is_empty() {}
    plant.0.store(2, Ordering::Relaxed);
    let (leader, member) = (election.campaign(b"anew").await.unwrap(), group.join(b"anew").await.unwrap());
    let error = observer.changed().await.expect_err("an older term");
    assert_eq!(error.lost_reason(), Some(LostReason::Forgotten), "{error}");
    assert!(observer.latest().is_err() && !observer.is_current());
    let error = watch.changed().await.expect_err("an older number");
    assert_eq!(error.lost_reason(), Some(LostReason::Forgotten), "{error}");
    let mut anew = election.watch().await.unwrap();
    assert_eq!(data(anew.changed().await.unwrap()), Some(b"anew".to_vec()));
    let members = group.watch().await.unwrap().changed().await.unwrap();
    assert!(matches!(members.as_slice(), [GroupMember { data, .. }] if **data == *b"anew"), "{members:?}");
    drop((leader, member));
}

#[tokio::test(start_paused = true)]
async fn lead_campaigns_again_after_an_outage() {
    let Clients { client, link, other, .. } = clients();
    let (election, others) = (client.election("a").unwrap(), other.election("a").unwrap());
    let mut terms = Vec::new();
    let leading = election.lead(b"it", |leader| {
        terms.push(leader.token());
        let first = terms.len() == 1;
        if first {
            link.cut();
        }
        async move { if first { std::future::pending().await } else { ControlFlow::Break(()) } }
    });
    let outage = async {
        // Longer than a campaign waits for an answer.
        tokio::time::sleep(5 * client.lease().ttl()).await;
        assert_eq!(others.leader().await.unwrap(), None, "the server has ended the lease");
        link.heal();
    };
    let (led, ()) = tokio::join!(leading, outage);
    led.expect("it leads again");
    assert!(terms.len() == 2 && terms[0] < terms[1], "{terms:?}");
}

/// The server refuses data, and cells while the flag is set.
#[derive(Debug, Default)]
struct Full(AtomicU64, AtomicBool);

#[async_trait]
impl Plant for Full {
    fn refuses_cells(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    async fn before_write_data(&self) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(Error::new(ErrorKind::Unavailable, "the memory is full"))
    }
}

#[tokio::test(start_paused = true)]
async fn data_that_the_server_refuses_for_a_ttl_are_unavailable() {
    let (store, plant) = (Memory::new(Clock::tokio()), Arc::new(Full::default()));
    let (client, _) = planted(&store, &Config::new("memory"), &plant);
    let leader = client.election("a").unwrap().campaign(b"it").await.unwrap();
    let member = client.group("a").unwrap().join(b"it").await.unwrap();
    let patience = 2 * client.lease().ttl();
    for refused in [leader.proclaim(b"no").boxed(), member.update(b"no").boxed()] {
        let refused = tokio::time::timeout(patience, refused).await.expect("it ends");
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::Unavailable);
    }
    leader.check().expect("it leads");
    assert!(plant.0.load(Ordering::Relaxed) > 4, "it tries several times");
}

/// Loses the reply to the first write of data, and refuses the next one.
#[derive(Debug, Default)]
struct LostThenForbidden(AtomicBool);

#[async_trait]
impl Plant for LostThenForbidden {
    async fn before_write_data(&self) -> Result<()> {
        Err(match self.0.swap(true, Ordering::Relaxed) {
            false => Error::new(ErrorKind::OutcomeUnknown, "the reply was lost"),
            true => Error::new(ErrorKind::Forbidden, "the login may not write"),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn data_refused_after_a_lost_reply_have_an_unknown_outcome() {
    let (store, plant) = (Memory::new(Clock::tokio()), Arc::new(LostThenForbidden::default()));
    let (client, _) = planted(&store, &Config::new("memory"), &plant);
    let leader = client.election("a").unwrap().campaign(b"it").await.unwrap();
    let error = fails(leader.proclaim(b"new").await, ErrorKind::OutcomeUnknown, "one may be written");
    assert!(error.to_string().contains("the login may not write"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn leave_of_a_double_barrier_on_a_full_server_ends_as_unavailable() {
    let (store, plant) = (Memory::new(Clock::tokio()), Arc::new(Full::default()));
    let (client, _) = planted(&store, &Config::new("memory"), &plant);
    let barrier = client.double_barrier("a", 2).unwrap();
    let (one, two) = tokio::join!(barrier.enter(), barrier.enter());
    let (one, two) = (one.unwrap(), two.unwrap());
    plant.1.store(true, Ordering::Relaxed);
    let patience = 2 * client.lease().ttl();
    let left = async { tokio::join!(one.leave(), two.leave()) };
    let left = tokio::time::timeout(patience, left).await.expect("it ends");
    for left in [left.0, left.1] {
        assert_eq!(left.expect_err("refused").kind(), ErrorKind::Unavailable);
    }
}
