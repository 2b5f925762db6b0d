//! Every public type can move between tasks and has `Debug`, and a guard may be dropped anywhere.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_util::FutureExt;
use latchwork_core::backend::decide::ContactProof;
use latchwork_core::backend::decide::barrier::{Disagreement, NoPassage, Passage, Place};
use latchwork_core::backend::decide::chain::{Listed, Standing};
use latchwork_core::backend::decide::count::request::{CountOutcome, CountRequest, Decided};
use latchwork_core::backend::decide::count::{
    Change, Changed, Count, NotACount, NotThisCount, Operation, Others, Pace, Told,
};
use latchwork_core::backend::decide::gather::{Gather, Next};
use latchwork_core::backend::decide::layout::{Admission, Raise};
use latchwork_core::backend::decide::life::{
    Advance, AfterTry, By, Failure, Joining, Life, Outcome, Phase, Residue, Seen, TakeBack,
};
use latchwork_core::backend::decide::moving::evidence::{
    Contradiction, MoveId, MoveRecord, MoveVerdict, StageRead,
};
use latchwork_core::backend::decide::moving::gate::{Course, GateMarker, Who};
use latchwork_core::backend::decide::moving::obstacles::{
    Found, MarkerStanding, MemberSays, Obstacle, Repair, Stored, TakesPart, Wanted,
};
use latchwork_core::backend::decide::moving::values::{ValuesAt, WholeStage, WholeStep};
use latchwork_core::backend::decide::moving::{
    AcquireNext, Holding, MovePhase, Side, Sides, Stage, Step, Way,
};
use latchwork_core::backend::decide::queue::{Answer, Queue, QueueJoin, Slot};
use latchwork_core::backend::decide::quorum::{MajorityGather, NextStep};
use latchwork_core::backend::decide::trial::{Marker, NoMarker, Terms, Trial, Verdict};
use latchwork_core::backend::{
    self, Backend, Backoff, CellWrite, CellWritten, Cells, ChangeWatch, Close, CloseOnce, EntryPage,
    ExpectedLimit, Hosts, Incarnation, Join, Joined, KeysWith, LeaseWriter, Leave, LinkLog, NamePool, Node,
    NodeId, NodeState, NodeWriter, Patience, Pauses, Probed, QueueEntry, SequentialNodes, Stamp, StoredLimit,
    Stranger, Stream, Throttle, Transport, Unobserved, VersionedValue,
};
use latchwork_core::facts::{
    self, ClockDifference, MemoryPolicy, Persistence, Role, ServerFacts, Topology, WhenFull,
};
use latchwork_core::memory::{Link, Memory, MemoryCopy};
use latchwork_core::recipes::{
    Ask, Barrier, Compared, CountDownLatch, Counter, DoubleBarrier, Election, Group, GroupChanges,
    GroupMember, IdGenerator, Inside, Leader, Leadership, Membership, MultiGuard, MultiLock, MultiMember,
    Mutex, MutexGuard, Permit, QuorumGuard, QuorumLock, ReadGuard, RwLock, Semaphore, SharedValue, Take,
    WriteGuard,
};
use latchwork_core::seen::{Event, Metric, MetricKind, Rechecks, Requests, Span};
use latchwork_core::{
    Address, Capabilities, CellLife, Claim, ClientRecord, Clock, Config, Connector, Coordinator, Credentials,
    CredentialsProvider, Ended, Error, ErrorKind, Eviction, Expected, Hold, HoldState, Key, Kind, Lease,
    LeaseState, Limit, ListedKey, Logins, Loss, LostReason, Moment, Move, MoveAway, MoveBlocker, MoveClient,
    MoveConfig, MoveLate, MoveOutsider, MovePlan, MovePromises, MoveState, MoveStatus, Operator, Options,
    Owner, QueuePrefix, QueuesInUse, Result, Secret, TimeToIdle, Token, ValuesInUse, Version,
};
use tokio::runtime::{Builder, Runtime};

use crate::common::private;

// Examples of generic types.
type MoveProgress = latchwork_core::MoveProgress<'static>;
type Scheme = backend::Scheme<'static>;
type SingleFlight = backend::SingleFlight<Result<Lease>>;
type SharedTask = backend::SharedTask<Result<Lease>>;
type Fact = facts::Fact<String>;
type Pass = backend::Pass<'static>;
type CellStore = latchwork_core::backend::decide::CellStore<u64>;

type Page = latchwork_core::Page<ListedKey>;
type Listing = latchwork_core::Listing<ListedKey>;
type Watch = latchwork_core::recipes::Watch<Option<VersionedValue>>;
type Acquire = latchwork_core::recipes::Acquire<Option<MutexGuard>>;

/// Traits without `dyn`.
const OF_TYPES: [&str; 5] = ["Acquired", "BlockOn", "Fenced", "Guard", "Reentrant"];

fn travels<T: Send + Sync + Unpin + Debug + 'static>() {}
fn travels_unsized<T: Send + Sync + ?Sized + 'static>() {}
// Belongs to one task at a time.
fn moves_unsized<T: Send + ?Sized + 'static>() {}
fn shows_itself<T: Debug + ?Sized>() {}
fn is_send<T: Send + 'static>(value: T) -> T {
    value
}

macro_rules! each {
    ($check:ident: $($name:ident)+) => {{
        $($check::<$name>();)+
        [$(stringify!($name)),+]
    }};
    ($check:ident dyn: $($name:ident)+) => {{
        $($check::<dyn $name>();)+
        [$(stringify!($name)),+]
    }};
}

#[test]
fn every_public_type_is_send_sync_unpin_and_debug() {
    let types = each!(travels:
        Coordinator Config Secret Credentials Logins Transport Stream Capabilities Eviction Address Key Kind Clock Moment
        Hold Mutex MutexGuard Owner RwLock ReadGuard WriteGuard Semaphore Permit
        MultiLock MultiGuard QuorumLock QuorumGuard MultiMember
        SharedValue Compared Watch Counter IdGenerator CountDownLatch
        Election Leader Leadership Group GroupChanges GroupMember Membership Barrier DoubleBarrier Inside
        Passage Place Disagreement NoPassage
        Version VersionedValue Expected CellWrite CellWritten CellStore Count Operation Change Changed Told NotACount
        Acquire Token Loss Ended HoldState LostReason Error ErrorKind
        CellLife TimeToIdle QueuePrefix KeysWith ExpectedLimit Unobserved
        Lease LeaseWriter LeaseState Leave NamePool NodeWriter NodeState NodeId Join Joined QueueEntry EntryPage Patience Close SingleFlight SharedTask
        Throttle Pass LinkLog Limit StoredLimit Backoff Pauses CloseOnce Probed Stranger
        Gather Next MajorityGather NextStep Marker NoMarker Terms Trial Verdict Incarnation
        Advance AfterTry By Failure Joining Life Outcome Phase Residue Seen TakeBack
        ServerFacts Fact Topology Role ClockDifference MemoryPolicy WhenFull Persistence
        Claim ContactProof Listed Standing Slot QueueJoin Answer Queue
        Decided CountRequest CountOutcome NotThisCount Others Pace
        Event Span Metric MetricKind Requests Rechecks
        Memory Link
        Operator Options Page Ask ClientRecord ListedKey Listing Admission Raise Stamp
        Move MoveAway MoveBlocker MoveClient MoveConfig MoveLate MoveOutsider MovePlan MoveProgress MovePromises MoveState MoveStatus QueuesInUse ValuesInUse
        Scheme Hosts
        AcquireNext Course GateMarker Holding MovePhase Side Sides Stage Step ValuesAt Way WholeStage WholeStep Who
        Contradiction MoveId MoveRecord MoveVerdict StageRead
        Found MarkerStanding MemberSays MemoryCopy Obstacle Repair Stored TakesPart Wanted
    );
    let traits =
        each!(travels_unsized dyn: Backend SequentialNodes Cells Node Connector Take CredentialsProvider);
    let alone = each!(moves_unsized dyn: ChangeWatch);
    each!(shows_itself dyn: Backend ChangeWatch Node Connector);

    let mut declared = BTreeSet::new();
    declared_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src"), &mut declared);
    let looked_at = types.into_iter().chain(traits).chain(alone).chain(OF_TYPES);
    assert_eq!(declared, looked_at.map(str::to_owned).collect());
}

fn declared_in(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of this crate") {
        let path = entry.expect("read").path();
        if path.is_dir() {
            declared_in(&path, into);
            continue;
        }
        for line in fs::read_to_string(&path).expect("a source").lines() {
            let rest =
                ["pub struct ", "pub enum ", "pub trait "].iter().find_map(|word| line.strip_prefix(word));
            if let Some(name) = rest.or_else(|| guard(line)) {
                into.insert(name.chars().take_while(|char| char.is_alphanumeric()).collect());
            }
        }
    }
}

/// Returns the name in a line of core's macro `guards!`: `    MutexGuard: Reentrant Fenced;`.
fn guard(line: &str) -> Option<&str> {
    let (name, is) = line.strip_prefix("    ")?.strip_suffix(';')?.split_once(':')?;
    let words = |text: &str| text.chars().all(|char| char.is_alphanumeric() || char == ' ');
    (name.starts_with(char::is_uppercase) && words(name) && words(is)).then_some(name)
}

/// This test only has to compile.
#[test]
fn every_future_can_be_spawned() {
    let runtime = runtime();
    let _guard = runtime.enter();
    let mutex = runtime.block_on(private()).mutex("a").expect("a good key");
    drop(is_send(async move {
        drop(mutex.try_acquire().await);
        drop(mutex.acquire().within(Duration::from_secs(1)).await);
        if let Ok(guard) = mutex.acquire().await {
            drop(guard.run(async {}).await);
            drop(guard.release().await);
        }
    }));
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

#[test]
fn a_guard_dropped_on_a_thread_without_a_runtime_is_released() {
    let runtime = runtime();
    let mutex = runtime.block_on(async { private().await.mutex("a") }).expect("a good key");
    let guard = runtime.block_on(mutex.acquire()).expect("acquired");
    let first = guard.token();
    std::thread::spawn(move || drop(guard)).join().expect("no panic outside a runtime");
    let again = runtime.block_on(mutex.try_acquire()).expect("answered").expect("free");
    assert!(again.token() > first);
    runtime.block_on(again.release()).expect("released");
}

#[test]
fn a_guard_that_outlives_its_runtime_is_dropped_in_peace() {
    let runtime = runtime();
    let coordinator = runtime.block_on(private());
    let mutex = coordinator.mutex("a").expect("a good key");
    let (guard, loss) = runtime.block_on(async {
        let guard = mutex.acquire().await.expect("acquired");
        let loss = guard.lost();
        (guard, loss)
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    // The renewal has ended, and the guard is held until the deadline.
    assert!(guard.is_held());
    coordinator.lease().clock().jump(coordinator.lease().ttl());
    assert_eq!(guard.check().expect_err("lost").lost_reason(), Some(LostReason::Expired));
    assert_eq!(loss.ended(), Some(Ended::Lost(LostReason::Expired)));
    drop(guard);
    drop((loss, mutex, coordinator));
}

#[test]
fn a_dropped_acquire_outside_its_runtime_does_not_panic() {
    let runtime = runtime();
    let coordinator = runtime.block_on(private());
    let mutex = coordinator.mutex("a").expect("a good key");
    let guard = runtime.block_on(mutex.acquire()).expect("acquired");
    let mut waiting = Box::pin(mutex.acquire().into_future());
    let polled = runtime.block_on(async { (&mut waiting).now_or_never() });
    assert!(polled.is_none(), "it waits for the guard");
    std::thread::spawn(move || drop(waiting)).join().expect("no panic");
    runtime.block_on(guard.release()).expect("released");
    let again = runtime.block_on(mutex.acquire().within(Duration::from_secs(5))).expect("no waiter is ahead");
    assert_eq!(runtime.block_on(mutex.queue().first(10)).expect("listed").len(), 1);
    runtime.block_on(again.release()).expect("released");
}

#[test]
fn secrets_show_in_no_text() {
    let config = Config::from_url("redis://user:hunter2@host").expect("a good URL");
    assert_eq!(config.password.as_ref().map(Secret::expose), Some("hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(!serde_json::to_string(&config).expect("JSON").contains("hunter2"));
    let error = Config::from_url("redis://user:hunter2@host:port").expect_err("a bad port");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}
