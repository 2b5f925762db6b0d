//! Every recipe once, between two coordinators, on memory and on a server of each kind.

use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use latchwork::blocking::{self, Coordinator, Member, MultiLock, QuorumLock};
use latchwork::contracts::Expected;
use latchwork::{Kind, Owner, Release, Result, Stored};
use latchwork_servers::{Kind as Server, Options, Server as Started};

use super::{PATIENCE, connect, store};

/// Nobody waits for its end.
const TTL: Duration = Duration::from_secs(30);

/// Plays every recipe between two clients of one coordinator.
fn every_recipe(url: &str) -> Result<()> {
    let join = if url.contains('?') { '&' } else { '?' };
    let namespace = format!("blocking-{}", uuid::Uuid::new_v4());
    // A server that has just started, beside many others, is slow.
    let patient = "connect_timeout=20s&request_timeout=10s";
    let options = format!("namespace={namespace}&ttl={}s&{patient}", TTL.as_secs());
    let client = |name| blocking::connect(format!("{url}{join}{options}&name={name}"));
    let (one, other) = (client("one")?, client("other")?);
    mutexes(&one, &other)?;
    read_write_locks(&one, &other)?;
    semaphores(&one, &other)?;
    several_as_one(&one, &other)?;
    elections(&one, &other)?;
    groups(&one, &other)?;
    barriers(&one, &other)?;
    counts(&one, &other)?;
    values(&one, &other)?;
    listings(&one)?;
    one.close()?;
    other.close_now()
}

fn mutexes(one: &Coordinator, other: &Coordinator) -> Result<()> {
    let hold = one.mutex("mutex")?.acquire()?;
    assert!(other.mutex("mutex")?.try_acquire()?.is_none());
    let waiting = {
        let mutex = other.mutex("mutex")?;
        thread::spawn(move || mutex.acquire_within(PATIENCE))
    };
    while one.mutex("mutex")?.queue(0, 2)?.len() < 2 {}
    let first = hold.token();
    assert_eq!(hold.release()?, Release::Released);
    let next = waiting.join().expect("no panic")?;
    assert!(next.token() > first);
    assert_eq!(next.release()?, Release::Released);
    let owner = Owner::new("owner");
    let ledger = one.reentrant_mutex("ledger")?;
    let (outer, inner) = (ledger.acquire_as(&owner)?, ledger.try_acquire_as(&owner)?.expect("its own"));
    assert_eq!((inner.release()?, outer.release()?), (Release::Released, Release::Released));
    Ok(())
}

fn read_write_locks(one: &Coordinator, other: &Coordinator) -> Result<()> {
    let writer = one.rwlock("rwlock")?.write()?;
    assert!(other.rwlock("rwlock")?.try_read()?.is_none());
    let fence = writer.token();
    let reader = writer.downgrade()?;
    assert_eq!(reader.token(), fence);
    let beside = other.rwlock("rwlock")?.read_within(PATIENCE)?;
    assert!(other.rwlock("rwlock")?.try_write()?.is_none());
    assert_eq!((reader.release()?, beside.release()?), (Release::Released, Release::Released));
    assert!(other.rwlock("rwlock")?.with_write(|hold| hold.token() > fence)?);
    Ok(())
}

fn semaphores(one: &Coordinator, other: &Coordinator) -> Result<()> {
    let mut exports = one.semaphore_or_stored("semaphore", 2)?;
    let both = exports.acquire(2)?;
    assert_eq!(both.weight(), 2);
    assert!(other.semaphore_as_stored("semaphore")?.try_acquire(1)?.is_none());
    exports.set_limit(3)?;
    assert_eq!(exports.stored_limit()?, Some(3));
    other.semaphore("semaphore", 3)?.with_permits(1, |permit| assert_ne!(permit.token(), both.token()))?;
    assert_eq!(both.release()?, Release::Released);
    Ok(())
}

fn several_as_one(one: &Coordinator, other: &Coordinator) -> Result<()> {
    let members = [
        Member::from(one.mutex("account/7")?),
        Member::write(other.rwlock("account/3")?),
        Member::permits(other.semaphore("workers", 1)?, 1),
    ];
    let all = MultiLock::new(members)?;
    let hold = all.acquire()?;
    assert_eq!((hold.tokens().len(), all.members().len()), (3, 3));
    assert!(one.rwlock("account/3")?.try_read()?.is_none());
    assert_eq!(hold.release()?, Release::Released);
    // Its two members are of one server here: what counts is that it is driven from a thread.
    let quorum = QuorumLock::new([one.mutex("quorum")?], TTL)?;
    quorum.initialize()?;
    let hold = quorum.acquire_within(PATIENCE)?;
    assert!(hold.remaining() > Duration::ZERO && hold.tokens()[0].is_some());
    assert!(other.mutex("quorum")?.try_acquire()?.is_none());
    assert_eq!(hold.release()?, Release::Released);
    quorum.delete()
}

fn elections(one: &Coordinator, other: &Coordinator) -> Result<()> {
    let election = one.election("election")?;
    let mut observer = other.election("election")?.observe()?;
    assert_eq!(observer.changed_within(PATIENCE)?, None);
    let mut turns = 0;
    let term = election.lead(b"one", |leader| {
        turns += 1;
        leader.proclaim(b"one, at work").expect("it leads");
        if turns < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(leader.term()) }
    })?;
    let leader = other.election("election")?.campaign(b"other")?;
    assert!(leader.term() > term);
    let seen = loop {
        match observer.changed_within(PATIENCE)? {
            Some(leading) if leading.term == leader.term() => break leading,
            _ => {}
        }
    };
    assert_eq!(&*seen.data, b"other");
    assert_eq!(election.leader()?, Some(seen));
    assert_eq!(leader.resign()?, Release::Released);
    Ok(())
}

fn groups(one: &Coordinator, other: &Coordinator) -> Result<()> {
    let mut changes = other.group("group")?.watch()?.into_changes();
    let membership = one.group("group")?.join(b"10.0.0.7:80")?;
    let joined = changes.find_map(|change| change.map(|change| change.joined.first().cloned()).transpose());
    assert_eq!(joined.expect("it goes on")?.number, membership.number());
    membership.update(b"draining")?;
    let changed = changes.find_map(|change| change.map(|change| change.changed.first().cloned()).transpose());
    assert_eq!(&*changed.expect("it goes on")?.data, b"draining");
    assert_eq!(other.group("group")?.members()?.len(), 1);
    assert_eq!(membership.release()?, Release::Released);
    let left = changes.find_map(|change| change.map(|change| change.left.first().cloned()).transpose());
    assert_eq!(left.expect("it goes on")?.number, membership.number());
    Ok(())
}

fn barriers(one: &Coordinator, other: &Coordinator) -> Result<()> {
    for round in 0..2 {
        let barrier = other.barrier("barrier", 2)?;
        let beside = thread::spawn(move || barrier.wait_within(PATIENCE));
        one.barrier("barrier", 2)?.wait_within(PATIENCE)?;
        beside.join().expect("no panic")?;
        let work = |coordinator: &Coordinator| {
            coordinator.double_barrier("double", 2)?.enter_within(PATIENCE)?.leave_within(PATIENCE)
        };
        thread::scope(|scope| {
            let beside = scope.spawn(|| work(other));
            work(one).unwrap_or_else(|error| panic!("round {round}: {error}"));
            beside.join().expect("no panic")
        })?;
    }
    Ok(())
}

fn counts(one: &Coordinator, other: &Coordinator) -> Result<()> {
    assert_eq!((one.counter("counter")?.add(3)?, other.counter("counter")?.add(-1)?), (3, 2));
    assert!(one.counter("counter")?.compare_and_set(2, 10)?);
    assert_eq!(other.counter("counter")?.get()?, 10);
    let (ids, beside) = (one.id_generator("ids")?.with_block(2)?, other.id_generator("ids")?);
    let mut given = [ids.next_id()?, ids.next_id()?, ids.next_id()?, beside.next_id()?];
    given.sort_unstable();
    assert!(given.windows(2).all(|two| two[0] < two[1]), "{given:?}");
    let latch = one.count_down_latch("latch", 1)?;
    let waiting = thread::spawn(move || latch.wait_within(PATIENCE));
    assert_eq!(other.count_down_latch("latch", 1)?.count_down()?, 0);
    waiting.join().expect("no panic")?;
    Ok(())
}

fn values(one: &Coordinator, other: &Coordinator) -> Result<()> {
    let value = one.shared_value("value")?;
    let mut watch = other.shared_value("value")?.watch()?.into_iter();
    assert_eq!(watch.next().expect("it goes on")?, None);
    let version = value.write("a")?;
    assert!(matches!(value.compare_and_set(Expected::Version(version), "b")?, Stored::Version(_)));
    assert!(matches!(value.compare_and_set(Expected::Version(version), "c")?, Stored::Differs(Some(_))));
    let hold = one.mutex("value")?.acquire()?;
    value.write_while(&hold, "d")?;
    let seen = watch.find(|seen| matches!(seen, Ok(Some(cell)) if &*cell.value == b"d"));
    assert!(seen.is_some(), "it goes on");
    assert_eq!(hold.release()?, Release::Released);
    value.write_while(&hold, "e").expect_err("not held");
    assert_eq!(&*value.read()?.expect("written").value, b"d");
    assert!(value.delete()?);
    Ok(())
}

fn listings(one: &Coordinator) -> Result<()> {
    let clients: Result<Vec<_>> = one.clients().into_iter().collect();
    assert_eq!(clients?.len(), 2);
    let hold = one.mutex("listed/7")?.acquire()?;
    let queues: Result<Vec<_>> = one.queues(Kind::Mutex, "listed/")?.into_iter().collect();
    assert_eq!(queues?[0].name(), "listed/7");
    let counter = one.counter("listed/8")?;
    counter.add(1)?;
    let values: Result<Vec<_>> = one.values(Kind::Counter, "listed/")?.into_iter().collect();
    assert_eq!(values?[0].cell.name(), "listed/8");
    assert!(counter.delete()?);
    assert_eq!(hold.release()?, Release::Released);
    Ok(())
}

#[test]
fn every_recipe_on_memory() {
    let url = store();
    every_recipe(&url).unwrap_or_else(|error| panic!("{error}"));
    connect(&url).close().expect("closed");
}

/// Where the environment names servers, it names all that are to be played.
fn on_a_server(kind: Server) {
    let named = |kind: Server| std::env::var(kind.url_variable()).is_ok_and(|url| !url.is_empty());
    if !latchwork::compiled_backends().contains(&kind.name()) {
        return eprintln!("left out: this is a build without the feature {kind}");
    }
    if Server::ALL.into_iter().any(named) && !named(kind) {
        return eprintln!("left out: the environment names servers, and none of {kind}");
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server =
        runtime.block_on(Started::start(kind, Options::default())).unwrap_or_else(|error| panic!("{error}"));
    every_recipe(server.url()).unwrap_or_else(|error| panic!("{kind}: {error}"));
    // A server of ours is killed by a task of its runtime.
    runtime.block_on(async move { drop(server) });
}

#[test]
fn every_recipe_on_redis() {
    on_a_server(Server::Redis);
}

#[test]
fn every_recipe_on_zookeeper() {
    on_a_server(Server::Zookeeper);
}

#[test]
fn every_recipe_on_etcd() {
    on_a_server(Server::Etcd);
}

/// Three stores are three servers: a quorum proper.
#[test]
fn a_quorum_of_three_goes_on_without_one() {
    let members: Vec<_> = ["east", "north", "west"]
        .map(|name| connect(&format!("{}?name={name}&ttl={}s", store(), TTL.as_secs())))
        .into_iter()
        .collect();
    let lock = || QuorumLock::new(members.iter().map(|member| member.mutex("quorum").expect("a key")), TTL);
    lock().expect("three members").initialize().expect("new");
    members[1].close().expect("closed");
    let hold = lock().expect("three members").acquire_within(PATIENCE).expect("a majority is there");
    assert_eq!(hold.tokens().iter().flatten().count(), 2);
    assert_eq!(hold.release().expect("held"), Release::Released);
    for member in [&members[0], &members[2]] {
        member.close().expect("closed");
    }
}
