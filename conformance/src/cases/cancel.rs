//! NODE-CANCEL: futures dropped at random instants and at each await point.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use latchwork_core::Owner;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::Notify;

use super::contender::{BOUND, Contender, Inside, all_locks};
use super::futures::{Prepared, PublicFuture, Site, table};
use super::is_long;
use crate::actions::{acquire, listing, release};
use crate::adapter::Adapter;
use crate::bounds::QUIET_TTL;
use crate::case::cases;
use crate::context::{Context, SEED};
use crate::recorder::Recorder;
use crate::waits::{after_polls, after_polls_and_a_wake, soon, until, within};

const DROPS: usize = 10_000;
/// A server needs processor time for each.
const FEWER: usize = 2_500;
// Many: a join waits for its client's own departures.
const CLIENTS: usize = 16;
const TASKS: usize = 48;

cases! {
    "NODE-CANCEL" =>
    /// contending clients and owners drop thousands of acquisitions of each recipe at random instants: holds never
    /// overlap, and no node and no stuck waiter remains
    async fn node_cancel_thousands_at_random_instants(context) {
        let seed = context.seed();
        let drops = if context.testbed.is_paused() || is_long() { DROPS } else { FEWER };
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            // A slow answer to a try must not fail the case.
            let client = context.client_by(QUIET_TTL, |config| config.request_timeout = BOUND).await;
            if context.testbed.is_paused() {
                client.link.delay(Duration::from_millis(number as u64 % 4 + 2));
            }
            clients.push(client);
        }
        // With a shared owner, one task takes over when another is dropped.
        let owners = [(); CLIENTS].map(|()| ["one", "other"].map(Owner::new));
        let inside = Arc::new(Inside::default());
        let dropped = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| {
                let mut contender = Contender {
                    client: clients[number % CLIENTS].clone(),
                    owners: owners[number % CLIENTS].clone(),
                    chance: StdRng::seed_from_u64(u64::wrapping_add(seed, number as u64)),
                    inside: Arc::clone(&inside),
                    dropped: Arc::clone(&dropped),
                };
                tokio::spawn(async move {
                    while contender.dropped.load(Ordering::Acquire) < drops {
                        contender.contend().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap_or_else(|error| panic!("{SEED}={seed}: {error}"));
        }
        if context.testbed.is_paused() {
            let requests = context.requests().await;
            assert!(requests >= 2 * drops as u64, "{requests} requests: most acquisitions were dropped before they were sent");
        }
        for client in &clients {
            for lock in all_locks(client) {
                release(within(BOUND, "the next admission", lock.acquire()).await.expect("acquired")).await;
            }
        }
        // All clients live, so no end of a lease removes nodes.
        for lock in all_locks(&clients[0]) {
            until("the queue is empty", || async { listing(&lock).await.is_empty() }).await;
        }
    }

    "NODE-CANCEL" =>
    /// each future of a mutex, and each future without a recipe, is dropped at each of its await points: no node stays,
    /// and the next acquisition succeeds at once
    async fn node_cancel_every_future_of_a_mutex(context) {
        every_future(context, Adapter::Mutex).await;
    }

    "NODE-CANCEL" client_code =>
    /// each future of a MultiLock is dropped at each of its await points: no node stays, and the next acquisition
    /// succeeds at once
    async fn node_cancel_every_future_of_a_multi_lock(context) {
        every_future(context, Adapter::Multi).await;
    }

    "NODE-CANCEL" client_code =>
    /// each future of a QuorumLock is dropped at each of its await points: no node stays, and the next acquisition
    /// succeeds at once
    async fn node_cancel_every_future_of_a_quorum_lock(context) {
        every_future(context, Adapter::Quorum).await;
    }

    "NODE-CANCEL" client_code =>
    /// each future of a reentrant mutex is dropped at each of its await points: no node stays, and the next acquisition
    /// succeeds at once
    async fn node_cancel_every_future_of_a_reentrant_mutex(context) {
        every_future(context, Adapter::Reentrant).await;
    }

    "NODE-CANCEL" =>
    /// each future of a read/write lock is dropped at each of its await points: no node stays, and the next acquisition
    /// succeeds at once
    async fn node_cancel_every_future_of_a_rwlock(context) {
        every_future(context, Adapter::Writer).await;
    }

    "NODE-CANCEL" =>
    /// each future of a semaphore is dropped at each of its await points: no node stays, and the next acquisition
    /// succeeds at once
    async fn node_cancel_every_future_of_a_semaphore(context) {
        every_future(context, Adapter::SemaphoreOfOne).await;
    }
}

async fn every_future(context: &Context, adapter: Adapter) {
    let (mut points, mut futures) = (0, 0);
    for (number, future) in table().enumerate().filter(|(_, future)| future.adapter == adapter) {
        let key = format!("future-{number}");
        let recorder = Recorder::new();
        let site = recorder.scope(Site::open(context, future.adapter, key)).await;
        if context.testbed.is_paused() {
            site.client.link.delay(Duration::from_millis(20));
        }
        for (contended, woken) in [(false, false), (true, false), (false, true), (true, true)] {
            // On a real server half of them are enough.
            if (future.waits || !contended) && (context.testbed.is_paused() || !woken) {
                points += recorder.scope(at_every_await_point(&site, future, Way { contended, woken })).await;
            }
        }
        for gauge in ["latchwork_waiters", "latchwork_holders"] {
            let counted = !cfg!(feature = "metrics") || recorder.sum(gauge, &[]) == 0.0;
            assert!(counted, "{gauge} of {}: {recorder:?}", future.name);
        }
        site.client.link.heal();
        soon("the end of a site", site.clear()).await;
        futures += 1;
    }
    let delayed = !context.testbed.is_paused() || points >= 4 * futures;
    assert!(futures > 0 && delayed, "{points} await points in {futures} futures: Link::delay has no effect");
}

#[derive(Clone, Copy)]
struct Way {
    contended: bool,
    /// After a wake, before a poll.
    woken: bool,
}

/// Drops it after one poll, two polls, and so on. Returns the number of drops.
async fn at_every_await_point(site: &Site<'_>, public: &PublicFuture, way: Way) -> usize {
    let Way { contended, woken } = way;
    let name = public.name;
    for polls in 1..200 {
        let held = if contended { Some(acquire(&site.theirs).await) } else { None };
        let Prepared(future) = soon("the preparation", (public.prepare)(site)).await;
        let over = Arc::new(Notify::new());
        let stepping = tokio::spawn({
            let over = Arc::clone(&over);
            async move {
                let done = match woken {
                    true => after_polls_and_a_wake(polls, future).await,
                    false => after_polls(polls, future).await,
                };
                over.notify_one();
                done.is_some()
            }
        });
        if let Some(held) = held {
            tokio::select! {
                () = until("the waiter is in the queue", || async { listing(&site.theirs).await.len() == 2 }) => {}
                () = over.notified() => {}
            }
            held.release().await.expect("released");
        }
        let done = stepping.await.expect("no panic");
        let how = format!("{name}, {}, after {polls} polls", if contended { "contended" } else { "free" });
        let how = if woken { format!("{how} and a wake") } else { how };
        let who = format!("{how}: the next admission");
        for lock in [&site.theirs, &site.own] {
            within(BOUND, &who, lock.acquire()).await.expect("acquired").release().await.expect("released");
        }
        let left = format!("{how}: nothing stays");
        until(&left, || async { listing(&site.theirs).await.is_empty() }).await;
        if done {
            return polls - 1;
        }
    }
    panic!("{name} has more await points than expected");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_future_has_a_case() {
        use Adapter::{Multi, Mutex, Quorum, Reentrant, SemaphoreOfOne, Writer};
        let played = [Mutex, Multi, Quorum, Reentrant, Writer, SemaphoreOfOne];
        let forgotten: Vec<_> =
            table().filter(|it| !played.contains(&it.adapter)).map(|it| it.name).collect();
        assert_eq!(forgotten, [""; 0]);
    }
}
