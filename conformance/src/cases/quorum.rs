//! The QuorumLock over three namespaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::recipes::{QuorumGuard, QuorumLock};
use latchwork_core::{Address, Config, Ended, ErrorKind, HoldState, Kind, LostReason};
use tokio::time::Instant;

use crate::actions::{
    Waiter, acquire, acquire_and_release, listing, mutex, reentrant, release, release_all, try_acquire,
};
use crate::bounds::{LONG_TTL, NOISE, QUIET_TTL, SHORT_TTL};
use crate::case::cases;
use crate::cell_actions::{self};
use crate::context::Context;
use crate::errors::{fails, fails_for, is_lost};
use crate::testbed::{Client, Fault};
use crate::waits::{soon, until, within};

#[derive(Debug)]
pub(super) struct Quorum {
    pub(super) clients: Vec<Client>,
}

impl Quorum {
    /// The names and members differ in order.
    pub(super) async fn open(context: &Context, ttl: Duration) -> Self {
        Self::open_with(context, &context.config(ttl)).await
    }

    async fn open_with(context: &Context, config: &Config) -> Self {
        let mut clients = Vec::new();
        for (suffix, name) in [("", "c"), ("-2", "a"), ("-3", "b")] {
            let mut config = config.clone();
            config.namespace.push_str(suffix);
            config.name = Some(name.to_owned());
            clients.push(context.client_with(&config).await);
        }
        Self { clients }
    }

    pub(super) fn lock_of(&self, members: usize, key: &str) -> QuorumLock {
        self.lock_with(members, key, self.ttl())
    }

    fn lock_with(&self, members: usize, key: &str, longest_ttl: Duration) -> QuorumLock {
        let of = self.clients.iter().take(members).map(|client| client.coordinator.clone());
        QuorumLock::on_one_server(key, of, longest_ttl).expect("good members")
    }

    fn lock(&self) -> QuorumLock {
        self.lock_of(self.clients.len(), KEY)
    }

    fn ttl(&self) -> Duration {
        self.clients.iter().map(Client::ttl).max().expect("members")
    }

    async fn initialized(context: &Context, ttl: Duration) -> Self {
        Self::open(context, ttl).await.counting().await
    }

    async fn counting(self) -> Self {
        soon("initialize", self.lock().initialize()).await.expect("initialized");
        self
    }

    pub(super) async fn clear(&self) {
        soon("reset", self.lock().reset()).await.expect("deleted");
    }

    async fn forget(&self, member: usize) {
        let client = &self.clients[member];
        for entry in listing(&mutex(client, KEY)).await {
            let released = mutex(client, KEY).force_release(entry.sequence).await;
            assert!(released.expect("answered"), "it was there");
        }
        let mutex = reentrant(client, KEY);
        let namespace = mutex.address().namespace().expect("a key of ours");
        let marker = Address::new(namespace, Kind::Quorum, "members").expect("a good key");
        cell_actions::delete(client, &marker).await;
    }
}

fn width(guard: &QuorumGuard) -> usize {
    guard.sequences().iter().flatten().count()
}

cases! {
    "QUORUM-MAJORITY" =>
    /// members that are namespaces of one server are refused by name
    async fn quorum_refuses_two_members_on_one_server(context) {
        let members = Quorum::open(context, LONG_TTL).await;
        let of = members.clients.iter().map(|client| client.coordinator.clone());
        let lock = QuorumLock::new(KEY, of, members.ttl()).expect("three names");
        for error in [soon("acquire", lock.acquire()).await.err(), soon("try", lock.try_acquire()).await.err()] {
            let error = error.expect("they are one server");
            assert_eq!(error.argument(), Some("members"), "{error}");
        }
    }

    "QUORUM-MAJORITY" =>
    /// a free majority is acquired, although other members are held; without a majority nothing is acquired
    async fn quorum_holds_a_majority_or_nothing(context) {
        let (one, two) = (Quorum::initialized(context, LONG_TTL).await, Quorum::open(context, LONG_TTL).await);
        let first = acquire(&mutex(&two.clients[1], KEY)).await;
        let guard = soon("acquire", one.lock().acquire()).await.expect("two are free");
        assert_eq!(guard.sequences().iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
        assert!(soon("try", two.lock().try_acquire()).await.expect("answered").is_none());
        let late = within(WITHIN + context.late(), "the deadline", two.lock().acquire().within(WITHIN)).await;
        fails_for(late, ErrorKind::Timeout, KEY, "it is held");
        soon("release", guard.release()).await.expect("released");

        let second = acquire(&mutex(&two.clients[2], KEY)).await;
        assert!(soon("try", one.lock().try_acquire()).await.expect("answered").is_none());
        acquire_and_release(&mutex(&two.clients[0], KEY)).await;
        let waiting = Waiter::of(one.lock().acquire());
        until("it waits", || async { listing(&mutex(&two.clients[1], KEY)).await.len() == 2 }).await;
        first.release().await.expect("released");
        let guard = waiting.guard().await;
        assert!(guard.is_held() && width(&guard) == 2);
        drop(guard);
        second.release().await.expect("released");
        for member in 0..3 {
            acquire_and_release(&mutex(&two.clients[member], KEY)).await;
        }
        one.clear().await;
    }

    "QUORUM-MAJORITY" =>
    /// an acquisition returns with a majority, without waiting for the slowest member, which joins later
    async fn quorum_does_not_wait_for_a_minority(context) {
        // The slow link must be in time.
        let mut config = context.config(QUIET_TTL);
        config.request_timeout = 2 * SLOW;
        let quorum = Quorum::open_with(context, &config).await.counting().await;
        // All have read their markers then.
        let guard = soon("acquire", quorum.lock().acquire()).await.expect("acquired");
        until("all join", || async { width(&guard) == 3 }).await;
        soon("release", guard.release()).await.expect("released");
        let theirs = mutex(&quorum.clients[0], KEY);
        until("the last member is released", || async { listing(&theirs).await.is_empty() }).await;
        quorum.clients[0].link.delay(SLOW);
        let guard = within(SLOW / 2, "the majority", quorum.lock().acquire()).await.expect("acquired");
        assert_eq!(width(&guard), 2);
        quorum.clients[0].link.heal();
        until("the slow member joins later", || async { width(&guard) == 3 }).await;
        quorum.clients[0].link.delay(SLOW);
        within(SLOW / 2, "the release", guard.release()).await.expect("released");
        quorum.clients[0].link.heal();
        quorum.clear().await;
    }

    "QUORUM-MAJORITY" =>
    /// the loss of a minority does not end the hold; the loss of the majority does, and the rest is released
    async fn quorum_is_lost_with_the_majority(context) {
        let (one, two) = (Quorum::initialized(context, LONG_TTL).await, Quorum::open(context, LONG_TTL).await);
        let guard = soon("acquire", one.lock().acquire()).await.expect("acquired");
        until("all join", || async { width(&guard) == 3 }).await;
        let mut taken = Vec::new();
        for member in [0, 1] {
            assert!(guard.is_held());
            let theirs = mutex(&two.clients[member], KEY);
            let entry = listing(&theirs).await[0].sequence;
            assert!(soon("force", theirs.force_release(entry)).await.expect("answered"));
            taken.push(acquire(&theirs).await);
            until("it is heard", || async { guard.sequences()[member].is_none() }).await;
        }
        assert_eq!(within(NOISE, "the loss", guard.lost()).await, Ended::Lost(LostReason::Revoked));
        assert!(!guard.is_held() && guard.remaining().is_zero());
        assert_eq!(is_lost(guard.check(), LostReason::Revoked).key(), Some(KEY));
        acquire_and_release(&mutex(&two.clients[2], KEY)).await;
        is_lost(soon("release", guard.release()).await, LostReason::Revoked);
        release_all(taken).await;
        one.clear().await;
    }

    "QUORUM-VALIDITY" clock =>
    /// a hold is valid as long as a majority of its members, and lost from then on
    async fn quorum_is_valid_as_long_as_a_majority(context) {
        if !context.can(Fault::Cut) {
            return context.leave_out("the fixture cannot cut links");
        }
        let (one, two) = (Quorum::initialized(context, SHORT_TTL).await, Quorum::open(context, SHORT_TTL).await);
        let guard = soon("acquire", one.lock().acquire()).await.expect("acquired");
        until("all join", || async { width(&guard) == 3 }).await;
        one.clients[0].link.cut();
        until("the member is lost", || async { width(&guard) == 2 }).await;
        assert!(guard.is_held());
        until("it is live", || async { guard.state() == HoldState::Held }).await;
        let (lost, from) = (guard.lost(), Instant::now());
        one.clients[1].link.cut();
        let left = guard.remaining();
        assert!(!left.is_zero() && left < one.ttl(), "{left:?}");
        let bound = left + context.late();
        assert_eq!(within(bound, "the loss", lost).await, Ended::Lost(LostReason::Expired));
        assert!(from.elapsed() <= bound && guard.remaining().is_zero(), "{:?}", from.elapsed());
        one.clients.iter().for_each(|client| client.link.heal());
        let bound = context.recovery(&one.clients[0]) + NOISE;
        release(within(bound, "the next", two.lock().acquire()).await.expect("acquired")).await;
        drop(guard);
        two.clear().await;
    }

    "QUORUM-AMNESIA" clock =>
    /// a server that has lost its data does not count before the longest TTL is over, and neither does a new server
    /// that was not declared new
    async fn quorum_leaves_out_a_server_that_forgot(context) {
        let (one, two) = (Quorum::open(context, SHORT_TTL).await, Quorum::open(context, SHORT_TTL).await);
        let ttl = one.ttl();
        let from = Instant::now();
        fails(soon("try", one.lock().try_acquire()).await, ErrorKind::Unavailable, "no server counts");
        let guard = soon("acquire", one.lock().acquire()).await.expect("acquired");
        assert!(from.elapsed() >= ttl, "after {:?}", from.elapsed());
        until("all join", || async { width(&guard) == 3 }).await;

        two.forget(0).await;
        two.forget(2).await;
        let from = Instant::now();
        fails(soon("try", two.lock().try_acquire()).await, ErrorKind::Unavailable, "two do not count");
        fails(soon("within", two.lock().acquire().within(ttl / 6)).await, ErrorKind::Unavailable, "two do not count");
        drop(guard);
        let guard = soon("acquire", two.lock().acquire()).await.expect("they count again");
        assert!(from.elapsed() >= ttl, "after {:?}", from.elapsed());
        soon("release", guard.release()).await.expect("released");
        one.clear().await;
    }

    "QUORUM-AMNESIA" =>
    /// clients with another longest TTL or other members are refused
    async fn quorum_other_terms_are_a_conflict(context) {
        let one = Quorum::initialized(context, LONG_TTL).await;
        let longer = one.lock_with(3, KEY, 2 * one.ttl());
        for other in [longer, one.lock_of(2, KEY)] {
            fails_for(soon("acquire", other.acquire()).await, ErrorKind::Conflict, KEY, "other terms");
        }
        for member in 0..3 {
            assert!(try_acquire(&mutex(&one.clients[member], KEY)).await.is_some(), "nothing stays");
        }
        one.clear().await;
    }

    "QUORUM-ORDER" =>
    /// contenders hold one at a time, and none waits forever
    async fn quorum_contenders_never_deadlock(context) {
        let inside = Arc::new(AtomicBool::new(false));
        let first = Quorum::initialized(context, LONG_TTL).await;
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let (quorum, inside) = (Quorum::open(context, LONG_TTL).await, Arc::clone(&inside));
            tasks.push(tokio::spawn(async move {
                for _ in 0..6 {
                    let guard = quorum.lock().acquire().await.expect("acquired");
                    assert!(!inside.swap(true, Ordering::AcqRel), "two hold");
                    tokio::task::yield_now().await;
                    assert!(guard.is_held());
                    inside.store(false, Ordering::Release);
                    guard.release().await.expect("released");
                }
            }));
        }
        for task in soon("the tasks", join_all(tasks)).await {
            task.expect("no panic");
        }
        first.clear().await;
    }
}

const KEY: &str = "a";
/// A timeout is reported only after answers of a majority.
const WITHIN: Duration = NOISE.saturating_mul(2);
/// A machine needs less than half of it for the others.
const SLOW: Duration = Duration::from_secs(6);
