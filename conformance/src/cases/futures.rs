//! Every future of core that a user can await: the table that the cases
//! `node_cancel_every_future_of_…` go through. `tests/complete.rs` compares it with core's sources,
//! so that none is forgotten.

mod row;
mod site;

use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::StreamExt;
use latchwork_core::backend::{LeaseWriter, NodeWriter};
use latchwork_core::{Coordinator, Expected, Kind, Operator, connect, connect_lazy};

pub(crate) use self::row::{Prepared, PublicFuture};
use self::row::{dropping, future, verb};
pub(crate) use self::site::Site;
use crate::actions::{Waiter, acquire, operator_of, queue_up};
use crate::adapter::Adapter;
use crate::exclusive::{Guard, Lock};
use crate::testbed::Client;

/// The names in the table, as `Type::function`, or as the function.
pub fn names() -> impl Iterator<Item = &'static str> {
    table().map(|future| future.name)
}

/// A deadline that is not to come.
const LATE: Duration = Duration::from_secs(30);
/// So long is waited for what does not come.
const BRIEF: Duration = Duration::from_millis(10);

/// Every row.
pub(crate) fn table() -> impl Iterator<Item = &'static PublicFuture> {
    VERBS.iter().copied().flatten().chain(OTHERS)
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

const OTHERS: &[PublicFuture] = &[
    future!("MultiLock::try_acquire", Multi, true, |site| dropping!(site.multi_of_two(), |it| it
        .try_acquire())),
    future!("Hold::release", Multi, false, |site| {
        dropping!(site.multi_of_two().acquire().await.expect("acquired"), |guard| guard.release())
    }),
    future!("QuorumLock::acquire", Quorum, true, |site| dropping!(site.quorum_of(2).await, |it| it
        .acquire())),
    future!("QuorumLock::acquire", Quorum, false, |site| dropping!(site.quorum_of(3).await, |it| it
        .acquire())),
    future!("QuorumLock::try_acquire", Quorum, true, |site| dropping!(site.quorum_of(2).await, |it| it
        .try_acquire())),
    future!("QuorumLock::initialize", Quorum, false, |site| {
        let lock = site.quorum_of(2).await;
        lock.reset().await.expect("deleted");
        async move { lock.initialize().await.expect("initialized") }
    }),
    future!("QuorumLock::reset", Quorum, false, |site| dropping!(site.quorum_of(2).await, |it| it.reset())),
    future!("Hold::release", Quorum, false, |site| {
        dropping!(site.quorum_of(3).await.acquire().await.expect("acquired"), |guard| guard.release())
    }),
    future!("Election::lead", Mutex, false, |site| {
        dropping!(site.election(), |it| it.lead(b"it", |_leader| async {
            tokio::task::yield_now().await;
            ControlFlow::Break(())
        }))
    }),
    future!("Election::leader", Mutex, false, |site| dropping!(site.election(), |it| it.leader())),
    future!("Election::watch", Mutex, false, |site| dropping!(site.election(), |it| it.watch())),
    future!("Listing::first", Mutex, false, |site| dropping!(site.election(), |it| it.queue().first(10))),
    future!("Election::force_release", Mutex, false, |site| {
        dropping!(site.election(), |it| it.force_release(1))
    }),
    future!("Leadership::proclaim", Mutex, false, |site| {
        dropping!(site.election().campaign(b"it").await.expect("leads"), |leader| leader
            .proclaim(b"it, again"))
    }),
    future!("Watch::changed", Mutex, false, |site| {
        let mut observer = site.election().watch().await.expect("observed");
        async move {
            observer.changed().await.expect("seen");
            let _another = tokio::time::timeout(BRIEF, observer.changed()).await;
        }
    }),
    future!("Group::join", Mutex, false, |site| dropping!(site.group(), |it| it.join(b"it"))),
    future!("Membership::update", Mutex, false, |site| {
        dropping!(site.group().join(b"it").await.expect("joined"), |member| member.update(b"it, again"))
    }),
    future!("Group::members", Mutex, false, |site| dropping!(site.group(), |it| it.members())),
    future!("Group::watch", Mutex, false, |site| dropping!(site.group(), |it| it.watch())),
    future!("Watch::changed", Mutex, false, |site| {
        let mut watch = site.group().watch().await.expect("watched");
        async move {
            watch.changed().await.expect("seen");
            let _another = tokio::time::timeout(BRIEF, watch.changed()).await;
        }
    }),
    future!("Watch::changes", Mutex, false, |site| {
        let mut watch = site.group().watch().await.expect("watched");
        async move {
            watch.changes().await.expect("seen");
            let _another = tokio::time::timeout(BRIEF, watch.changes()).await;
        }
    }),
    future!("Hold::release", Mutex, false, |site| {
        dropping!(site.group().join(b"it").await.expect("joined"), |member| member.release())
    }),
    future!("Barrier::wait", Mutex, false, |site| dropping!(site.barrier(), |it| it.wait())),
    future!("DoubleBarrier::enter", Mutex, false, |site| dropping!(site.double_barrier(), |it| it.enter())),
    future!("Inside::leave", Mutex, false, |site| {
        let inside = site.double_barrier().enter().await.expect("entered");
        async move { inside.leave().await.expect("left") }
    }),
    future!("SharedValue::read", Mutex, false, |site| dropping!(site.value(), |it| it.read())),
    future!("SharedValue::write", Mutex, false, |site| dropping!(site.value(), |it| it.write("new"))),
    future!("SharedValue::write_while", Mutex, false, |site| {
        let guard = site.mutex().acquire().await.expect("acquired");
        dropping!(site.value(), |it| it.write_while(&guard, "new"))
    }),
    future!("SharedValue::compare_and_set", Mutex, false, |site| {
        dropping!(site.value(), |it| it.compare_and_set(Expected::Absent, "new"))
    }),
    future!("SharedValue::delete", Mutex, false, |site| dropping!(site.value(), |it| it.delete())),
    future!("SharedValue::watch", Mutex, false, |site| dropping!(site.value(), |it| it.watch())),
    future!("Watch::changed", Mutex, false, |site| {
        let mut watch = site.value().watch().await.expect("watched");
        async move {
            watch.changed().await.expect("seen");
            let another = tokio::time::timeout(BRIEF, watch.changed()).await;
            assert!(another.is_err(), "{another:?}");
        }
    }),
    future!("Counter::get", Mutex, false, |site| dropping!(site.counter(), |it| it.get())),
    future!("Counter::add", Mutex, false, |site| dropping!(site.counter(), |it| it.add(1))),
    future!("Counter::compare_and_set", Mutex, false, |site| {
        dropping!(site.counter(), |it| it.compare_and_set(0, 1))
    }),
    future!("Counter::delete", Mutex, false, |site| dropping!(site.counter(), |it| it.delete())),
    future!("IdGenerator::next_id", Mutex, false, |site| dropping!(site.ids(), |it| it.next_id())),
    future!("IdGenerator::delete", Mutex, false, |site| dropping!(site.ids(), |it| it.delete())),
    future!("CountDownLatch::count", Mutex, false, |site| dropping!(site.latch(), |it| it.count())),
    future!("CountDownLatch::count_down", Mutex, false, |site| dropping!(site.latch(), |it| it.count_down())),
    future!("CountDownLatch::wait", Mutex, false, |site| {
        site.latch().count_down().await.expect("counted");
        dropping!(site.latch(), |it| it.wait())
    }),
    future!("CountDownLatch::delete", Mutex, false, |site| dropping!(site.latch(), |it| it.delete())),
    future!("Listing::first", Mutex, true, |site| dropping!(site.mutex(), |it| it.queue().first(10))),
    future!("Listing::first", Writer, true, |site| dropping!(site.rwlock(), |it| it.queue().first(10))),
    future!("Listing::first", SemaphoreOfOne, true, |site| dropping!(site.semaphore(), |it| it
        .queue()
        .first(10))),
    // A task of the owner that waits for another of its tasks, in every order of their ends.
    future!("Mutex::acquire", Reentrant, true, |site| {
        let (lock, owner) = (site.mutex(), site.owner.clone());
        async move {
            let (one, other) = tokio::join!(lock.acquire().by(&owner), lock.acquire().by(&owner));
            drop((one.expect("acquired"), other.expect("acquired")));
        }
    }),
    future!("Hold::release", Writer, false, |site| {
        let (lock, owner) = (site.rwlock(), site.owner.clone());
        let written = lock.write().by(&owner).await.expect("acquired");
        let read = lock.read().by(&owner).await.expect("again");
        async move {
            written.release().await.expect("held");
            read.release().await.expect("held");
        }
    }),
    future!("WriteGuard::downgrade", Writer, false, |site| {
        dropping!(site.rwlock().write().await.expect("acquired"), |guard| guard.downgrade())
    }),
    future!("WriteGuard::downgrade", Writer, false, |site| {
        let (lock, owner) = (site.rwlock(), site.owner.clone());
        dropping!(lock.write().by(&owner).await.expect("acquired"), |guard| guard.downgrade())
    }),
    future!("Mutex::force_release", Mutex, true, |site| dropping!(site.mutex(), |it| it.force_release(1))),
    future!("RwLock::force_release", Writer, true, |site| dropping!(site.rwlock(), |it| it.force_release(1))),
    future!("Semaphore::force_release", SemaphoreOfOne, true, |site| {
        dropping!(site.semaphore(), |it| it.force_release(1))
    }),
    future!("Semaphore::stored_limit", SemaphoreOfOne, true, |site| {
        dropping!(site.semaphore(), |it| it.stored_limit())
    }),
    future!("Semaphore::set_limit", SemaphoreOfOne, true, |site| {
        let semaphore = site.semaphore();
        async move { semaphore.set_limit(1).await.expect("set") }
    }),
    // A hold that is kept for a least time, and given back by hand or by a drop before it is over.
    future!("Hold::release", Mutex, false, |site| {
        dropping!(site.mutex().acquire().min_hold(BRIEF).await.expect("acquired"), |guard| guard.release())
    }),
    future!("Hold::release", Mutex, false, |site| {
        dropping!(site.mutex().acquire().await.expect("acquired"), |guard| guard.release())
    }),
    future!("Hold::release", Writer, false, |site| {
        dropping!(site.rwlock().read().await.expect("acquired"), |guard| guard.release())
    }),
    future!("Hold::release", Writer, false, |site| {
        dropping!(site.rwlock().write().await.expect("acquired"), |guard| guard.release())
    }),
    future!("Hold::release", SemaphoreOfOne, false, |site| {
        dropping!(site.semaphore().acquire(1).await.expect("acquired"), |permit| permit.release())
    }),
    future!("Hold::release", Reentrant, false, |site| {
        let (lock, owner) = (site.mutex(), site.owner.clone());
        dropping!(lock.acquire().by(&owner).await.expect("acquired"), |guard| guard.release())
    }),
    future!("Hold::run", Mutex, false, |site| {
        dropping!(site.mutex().acquire().await.expect("acquired"), |guard| guard
            .run(tokio::time::sleep(BRIEF)))
    }),
    future!("Hold::lost", Mutex, false, |site| {
        let guard = site.mutex().acquire().await.expect("acquired");
        async move {
            let lost = tokio::time::timeout(BRIEF, guard.lost()).await;
            assert!(lost.is_err(), "{lost:?}");
        }
    }),
    future!("Hold::states", Mutex, false, |site| {
        let guard = site.mutex().acquire().await.expect("acquired");
        async move {
            let mut states = guard.states();
            assert!(states.next().await.is_some());
            let another = tokio::time::timeout(BRIEF, states.next()).await;
            assert!(another.is_err(), "{another:?}");
        }
    }),
    future!("NodeState::changed", Mutex, false, |site| {
        let lease = site.client.coordinator.lease();
        let lease = LeaseWriter::new(lease.clock().clone(), lease.ttl(), lease.clock().now());
        let node = NodeWriter::new(lease, 1);
        async move { assert!(tokio::time::timeout(BRIEF, node.changed(node.state())).await.is_err()) }
    }),
    future!("NodeState::until_lost", Mutex, false, |site| {
        let lease = site.client.coordinator.lease();
        let lease = LeaseWriter::new(lease.clock().clone(), lease.ttl(), lease.clock().now());
        let node = NodeWriter::new(lease, 1);
        async move { assert!(tokio::time::timeout(BRIEF, node.until_lost()).await.is_err()) }
    }),
    future!("Lease::changed", Mutex, false, |site| {
        let lease = site.client.coordinator.lease();
        async move { assert!(tokio::time::timeout(BRIEF, lease.changed(lease.state())).await.is_err()) }
    }),
    future!("Lease::until_lost", Mutex, false, |site| {
        let lease = site.client.coordinator.lease();
        async move { assert!(tokio::time::timeout(BRIEF, lease.until_lost()).await.is_err()) }
    }),
    future!("Clock::sleep_until", Mutex, false, |site| {
        let clock = site.client.coordinator.lease().clock().clone();
        async move { clock.sleep_until(clock.now() + BRIEF).await }
    }),
    future!("connect", Mutex, false, |site| {
        let (connectors, config) = (site.context.testbed.connectors(), site.config());
        async move {
            let coordinator = connect(&connectors, &config).await.expect("connected");
            drop(coordinator);
        }
    }),
    future!("connect_lazy", Mutex, true, |site| {
        let lazy =
            connect_lazy(&site.context.testbed.connectors(), &site.config()).expect("a good configuration");
        dropping!(lazy.mutex(site.key.as_str()).expect("a good key"), |it| it.acquire())
    }),
    future!("Listing::page", Mutex, false, |site| {
        dropping!(site.client.coordinator.clients(), |it| it.page(None, 10))
    }),
    future!("Listing::page", Mutex, false, |site| {
        dropping!(site.client.coordinator.list(Kind::Mutex, "").expect("a good prefix"), |it| it
            .page(None, 10))
    }),
    future!("Listing::page", Mutex, false, |site| {
        dropping!(site.client.coordinator.list(Kind::Counter, "").expect("a good prefix"), |it| it
            .page(None, 10))
    }),
    future!("Listing::all", Mutex, false, |site| dropping!(site.client.coordinator.clients(), |it| it.all())),
    future!("Operator::raise_layout", Mutex, false, |site| {
        dropping!(operator_elsewhere(site).await, |it| it.raise_layout())
    }),
    future!("Coordinator::server_facts", Mutex, false, |site| {
        dropping!(site.client.coordinator.clone(), |it| it.server_facts())
    }),
    future!("Operator::retire", Mutex, false, |site| {
        dropping!(operator_elsewhere(site).await, |it| it.retire("memory://elsewhere"))
    }),
    future!("Operator::marker", Mutex, false, |site| {
        dropping!(operator_elsewhere(site).await, |it| it.marker())
    }),
    future!("Operator::reopen", Mutex, false, |site| {
        dropping!(operator_elsewhere(site).await, |it| it.reopen())
    }),
    future!("Coordinator::close", Mutex, false, |site| {
        dropping!(busy(site).await, |it| it.coordinator.close())
    }),
    future!("Coordinator::close_now", Mutex, false, |site| {
        dropping!(busy(site).await, |it| it.coordinator.close_now())
    }),
];

/// An operator of a namespace in which nobody else is: it may stay retired.
async fn operator_elsewhere(site: &Site<'_>) -> Operator {
    let mut config = site.context.fixture.config();
    // The testbed knows that a stamp stays there.
    config.namespace.push_str("-2");
    operator_of(&site.context.client_with(&config.as_operator()).await)
}

/// A client that holds one thing and waits for another.
struct Busy {
    coordinator: Coordinator,
    _has: (Guard, Guard, Waiter, Client),
}

async fn busy(site: &Site<'_>) -> Busy {
    let client = site.context.client().await;
    let lock = |client: &Client, key: &str| Lock::Mutex(client.coordinator.mutex(key).expect("a good key"));
    let guard = acquire(&lock(&client, &site.key)).await;
    let elsewhere = acquire(&lock(&site.other, "elsewhere")).await;
    let waiter = queue_up(&lock(&client, "elsewhere"), 2).await;
    Busy { coordinator: client.coordinator.clone(), _has: (guard, elsewhere, waiter, client) }
}
