//! The futures of core. `tests/across/complete/futures.rs` compares this table with core's sources.

mod row;
mod site;

use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::StreamExt;
use latchwork_core::backend::{LeaseWriter, NodeWriter};
use latchwork_core::recipes::{CountDownLatch, Mutex, QuorumLock, Watch};
use latchwork_core::{Coordinator, Expected, Kind, Operator, Result, connect, connect_lazy};
use tokio::time::timeout;

pub(crate) use self::row::{Prepared, PublicFuture};
use self::row::{dropping, future, futures, verb};
pub(crate) use self::site::Site;
use crate::actions::{Waiter, acquire, mutex, operator_of, queue_up};
use crate::adapter::Adapter;
use crate::exclusive::Guard;
use crate::testbed::Client;

/// The names in the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    table().map(|future| future.name)
}

const LATE: Duration = Duration::from_secs(30);
const BRIEF: Duration = Duration::from_millis(10);

pub(crate) fn table() -> impl Iterator<Item = &'static PublicFuture> {
    VERBS.iter().copied().flatten().chain(WAITING).chain(OTHERS).chain(LONGER)
}

const VERBS: &[&[PublicFuture]] = &[
    verb!("Mutex" Mutex mutex acquire try_acquire()),
    verb!("Mutex" Reentrant mutex acquire try_acquire by owner),
    verb!("MultiLock" Multi multi acquire try_acquire()),
    verb!("MultiLock" Multi multi acquire try_acquire by owner),
    verb!("QuorumLock" Quorum quorum_of_one acquire try_acquire()),
    verb!("RwLock" Writer rwlock read try_read()),
    verb!("RwLock" Writer rwlock read try_read by owner),
    verb!("RwLock" Writer rwlock write try_write()),
    verb!("RwLock" Writer rwlock write try_write by owner),
    verb!("Semaphore" SemaphoreOfOne semaphore acquire try_acquire(1)),
    verb!("Election" Mutex election campaign try_campaign(b"it")),
];

/// These wait while another client holds.
const WAITING: &[PublicFuture] = futures! { true; |site, it|
    "MultiLock::try_acquire" Multi: site.multi_of_two() => it.try_acquire();
    "QuorumLock::acquire" Quorum: site.quorum_of(2).await => it.acquire();
    "QuorumLock::try_acquire" Quorum: site.quorum_of(2).await => it.try_acquire();
    "Listing::first" Mutex: site.mutex() => it.queue().first(10);
    "Listing::first" Writer: site.rwlock() => it.queue().first(10);
    "Listing::first" SemaphoreOfOne: site.semaphore() => it.queue().first(10);
    "Mutex::force_release" Mutex: site.mutex() => it.force_release(1);
    "RwLock::force_release" Writer: site.rwlock() => it.force_release(1);
    "Semaphore::force_release" SemaphoreOfOne: site.semaphore() => it.force_release(1);
    "Semaphore::stored_limit" SemaphoreOfOne: site.semaphore() => it.stored_limit();
    "Semaphore::set_limit" SemaphoreOfOne: site.semaphore() => it.set_limit(1);
    "connect_lazy" Mutex: lazy(site) => it.acquire();
};

const OTHERS: &[PublicFuture] = futures! { false; |site, it|
    "Hold::release" Multi: held(site.multi_of_two().acquire()).await => it.release();
    "QuorumLock::acquire" Quorum: site.quorum_of(3).await => it.acquire();
    "QuorumLock::initialize" Quorum: unmarked_quorum(site).await => it.initialize();
    "QuorumLock::reset" Quorum: site.quorum_of(2).await => it.reset();
    "Hold::release" Quorum: held(site.quorum_of(3).await.acquire()).await => it.release();
    "Election::lead" Mutex: site.election() => it.lead(b"it", |_leader| async {
        tokio::task::yield_now().await;
        ControlFlow::Break(())
    });
    "Election::leader" Mutex: site.election() => it.leader();
    "Election::watch" Mutex: site.election() => it.watch();
    "Listing::first" Mutex: site.election() => it.queue().first(10);
    "Election::force_release" Mutex: site.election() => it.force_release(1);
    "Leadership::proclaim" Mutex: held(site.election().campaign(b"it")).await => it.proclaim(b"it, again");
    "Group::join" Mutex: site.group() => it.join(b"it");
    "Membership::update" Mutex: held(site.group().join(b"it")).await => it.update(b"it, again");
    "Group::members" Mutex: site.group() => it.members();
    "Group::watch" Mutex: site.group() => it.watch();
    "Hold::release" Mutex: held(site.group().join(b"it")).await => it.release();
    "Barrier::wait" Mutex: site.barrier() => it.wait();
    "DoubleBarrier::enter" Mutex: site.double_barrier() => it.enter();
    "Inside::leave" Mutex: site.double_barrier().enter().await.expect("entered") => it.leave();
    "SharedValue::read" Mutex: site.value() => it.read();
    "SharedValue::write" Mutex: site.value() => it.write("new");
    "SharedValue::write_while" Mutex: (site.value(), held(site.mutex().acquire()).await)
        => it.0.write_while(&it.1, "new");
    "SharedValue::compare_and_set" Mutex: site.value() => it.compare_and_set(Expected::Absent, "new");
    "SharedValue::delete" Mutex: site.value() => it.delete();
    "SharedValue::watch" Mutex: site.value() => it.watch();
    "Counter::get" Mutex: site.counter() => it.get();
    "Counter::add" Mutex: site.counter() => it.add(1);
    "Counter::compare_and_set" Mutex: site.counter() => it.compare_and_set(0, 1);
    "Counter::delete" Mutex: site.counter() => it.delete();
    "IdGenerator::next_id" Mutex: site.ids() => it.next_id();
    "IdGenerator::delete" Mutex: site.ids() => it.delete();
    "CountDownLatch::count" Mutex: site.latch() => it.count();
    "CountDownLatch::count_down" Mutex: site.latch() => it.count_down();
    "CountDownLatch::wait" Mutex: open_latch(site).await => it.wait();
    "CountDownLatch::delete" Mutex: site.latch() => it.delete();
    "WriteGuard::downgrade" Writer: held(site.rwlock().write()).await => it.downgrade();
    "WriteGuard::downgrade" Writer: held(site.rwlock().write().by(&site.owner)).await => it.downgrade();
    "Hold::release" Mutex: held(site.mutex().acquire()).await => it.release();
    // `min_hold` outlasts the release and the drop.
    "Hold::release" Mutex: held(site.mutex().acquire().min_hold(BRIEF)).await => it.release();
    "Hold::release" Writer: held(site.rwlock().read()).await => it.release();
    "Hold::release" Writer: held(site.rwlock().write()).await => it.release();
    "Hold::release" SemaphoreOfOne: held(site.semaphore().acquire(1)).await => it.release();
    "Hold::release" Reentrant: held(site.mutex().acquire().by(&site.owner)).await => it.release();
    "Hold::run" Mutex: held(site.mutex().acquire()).await => it.run(tokio::time::sleep(BRIEF));
    "connect" Mutex: (site.context.testbed.connectors(), site.config()) => connect(&it.0, &it.1);
    "Listing::page" Mutex: site.client.coordinator.clients() => it.page(None, 10);
    "Listing::page" Mutex: site.client.coordinator.list(Kind::Mutex, "").expect("a prefix") => it.page(None, 10);
    "Listing::page" Mutex: site.client.coordinator.list(Kind::Counter, "").expect("a prefix") => it.page(None, 10);
    "Listing::all" Mutex: site.client.coordinator.clients() => it.all();
    "Operator::raise_layout" Mutex: operator_elsewhere(site).await => it.raise_layout();
    "Coordinator::server_facts" Mutex: site.client.coordinator.clone() => it.server_facts();
    "Operator::retire" Mutex: operator_elsewhere(site).await => it.retire("memory://elsewhere");
    "Operator::marker" Mutex: operator_elsewhere(site).await => it.marker();
    "Operator::reopen" Mutex: operator_elsewhere(site).await => it.reopen();
    "Hold::lost" Mutex: held(site.mutex().acquire()).await => is_silent(it.lost());
    "NodeState::changed" Mutex: node(site) => is_silent(it.changed(it.state()));
    "NodeState::until_lost" Mutex: node(site) => is_silent(it.until_lost());
    "Lease::changed" Mutex: site.client.coordinator.lease() => is_silent(it.changed(it.state()));
    "Lease::until_lost" Mutex: site.client.coordinator.lease() => is_silent(it.until_lost());
    "Coordinator::close" Mutex: busy(site).await => it.coordinator.close();
    "Coordinator::close_now" Mutex: busy(site).await => it.coordinator.close_now();
};

const LONGER: &[PublicFuture] = &[
    future!("Watch::changed", Mutex, false, |site| changes(site.election().watch().await)),
    future!("Watch::changed", Mutex, false, |site| changes(site.group().watch().await)),
    future!("Watch::changes", Mutex, false, |site| {
        let mut watch = site.group().watch().await.expect("watched");
        async move {
            watch.changes().await.expect("seen");
            let _another = timeout(BRIEF, watch.changes()).await;
        }
    }),
    future!("Watch::changed", Mutex, false, |site| {
        let mut watch = site.value().watch().await.expect("watched");
        async move {
            watch.changed().await.expect("seen");
            is_silent(watch.changed()).await.expect("nothing has changed");
        }
    }),
    // One task of the owner waits for another.
    future!("Mutex::acquire", Reentrant, true, |site| {
        let (lock, owner) = (site.mutex(), site.owner.clone());
        async move {
            let (one, other) = tokio::join!(lock.acquire().by(&owner), lock.acquire().by(&owner));
            drop((one.expect("acquired"), other.expect("acquired")));
        }
    }),
    future!("Hold::release", Writer, false, |site| {
        let written = held(site.rwlock().write().by(&site.owner)).await;
        let read = held(site.rwlock().read().by(&site.owner)).await;
        async move {
            written.release().await.expect("held");
            read.release().await.expect("held");
        }
    }),
    future!("Hold::states", Mutex, false, |site| {
        let guard = held(site.mutex().acquire()).await;
        async move {
            let mut states = guard.states();
            assert!(states.next().await.is_some());
            is_silent(states.next()).await.expect("it is held");
        }
    }),
    future!("Clock::sleep_until", Mutex, false, |site| {
        let clock = site.client.coordinator.lease().clock().clone();
        async move { clock.sleep_until(clock.now() + BRIEF).await }
    }),
];

async fn held<T>(acquisition: impl Future<Output = Result<T>>) -> T {
    acquisition.await.expect("acquired")
}

async fn unmarked_quorum(site: &Site<'_>) -> QuorumLock {
    let lock = site.quorum_of(2).await;
    lock.reset().await.expect("deleted");
    lock
}

async fn open_latch(site: &Site<'_>) -> CountDownLatch {
    site.latch().count_down().await.expect("counted");
    site.latch()
}

fn lazy(site: &Site<'_>) -> Mutex {
    let lazy = connect_lazy(&site.context.testbed.connectors(), &site.config());
    lazy.expect("a good configuration").mutex(site.key.as_str()).expect("a good key")
}

fn node(site: &Site<'_>) -> NodeWriter {
    let lease = site.client.coordinator.lease();
    NodeWriter::new(LeaseWriter::new(lease.clock().clone(), lease.ttl(), lease.clock().now()), 1)
}

async fn changes<T: Clone + PartialEq + Send + Sync + 'static>(watch: Result<Watch<T>>) {
    let mut watch = watch.expect("watched");
    watch.changed().await.expect("seen");
    let _another = timeout(BRIEF, watch.changed()).await;
}

async fn is_silent<T>(future: impl Future<Output = T>) -> std::result::Result<(), T> {
    timeout(BRIEF, future).await.map_or(Ok(()), Err)
}

/// The namespace may stay retired.
async fn operator_elsewhere(site: &Site<'_>) -> Operator {
    let mut config = site.context.fixture.config();
    config.namespace.push_str("-2");
    operator_of(&site.context.client_with(&config.as_operator()).await)
}

struct Busy {
    coordinator: Coordinator,
    _has: (Guard, Guard, Waiter, Client),
}

async fn busy(site: &Site<'_>) -> Busy {
    let client = site.context.client().await;
    let guard = acquire(&mutex(&client, &site.key)).await;
    let elsewhere = acquire(&mutex(&site.other, "elsewhere")).await;
    let waiter = queue_up(&mutex(&client, "elsewhere"), 2).await;
    Busy { coordinator: client.coordinator.clone(), _has: (guard, elsewhere, waiter, client) }
}
