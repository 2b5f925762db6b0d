use std::time::{Duration, Instant};

use crate::common::{
    as_root, ask, at, cell, client, command, config, etcdctl, join, keys, login_config, metric, proxied,
    renewed, revision, server_with_users, signed_tokens, soon, started, write_cell,
};
use futures_util::future::join_all;
use latchwork_conformance::actions::{in_turn, leave_all, take_a_turn};
use latchwork_conformance::cell_actions::{deletion, put, written};
use latchwork_conformance::errors::fails;
use latchwork_conformance::mistakes::says;
use latchwork_conformance::proxy::Direction;
use latchwork_conformance::servers::{Options, Server};
use latchwork_core::backend::{CellWritten, Join, Joined, Leave, Patience};
use latchwork_core::{Claim, Coordinator, Ended, ErrorKind, Expected, Key, Kind as Lock, LostReason};

#[tokio::test]
async fn a_server_that_grants_more_than_was_asked_is_believed() {
    // An election takes four seconds, and a lease at least one and a half times as long.
    let clocks = ["--heartbeat-interval=400", "--election-timeout=4000"];
    let server = started(Options::new().args(clocks)).await;
    let client = client(&server, "ttl=1s").await;
    assert_eq!(client.lease().ttl(), Duration::from_secs(6));
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    renewed(&client.lease()).await;
    assert!(hold.is_held());
    client.close().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
}

pub(crate) async fn with_quota(bytes: &str, options: &str) -> (Server, Coordinator) {
    let server = started(Options::new().args(["--quota-backend-bytes", bytes])).await;
    let client = client(&server, options).await;
    (server, client)
}

pub(crate) async fn fill(server: &Server) {
    let big = "x".repeat(100_000);
    let full = async {
        loop {
            let put = command(server, &["put", "filler", &big]).output().await.unwrap();
            let refusal = String::from_utf8(put.stderr).unwrap();
            if refusal.contains("database space exceeded") {
                break;
            }
            // A busy server refuses some writes for lack of time.
            print!("{refusal}");
        }
    };
    soon(full).await;
    assert!(etcdctl(server, &["alarm", "list"]).await.contains("NOSPACE"));
}

pub(crate) async fn make_space(server: &Server) {
    etcdctl(server, &["compact", &revision(server).await.to_string()]).await;
    etcdctl(server, &["defrag"]).await;
    etcdctl(server, &["alarm", "disarm"]).await;
}

#[tokio::test]
async fn a_full_server_takes_nothing_from_holders_and_waiters() {
    let (server, a) = with_quota("3000000", "ttl=6s").await;
    let b = client(&server, "ttl=6s").await;
    let (mutex, rwlock, semaphore) =
        (a.mutex("m").unwrap(), a.rwlock("rw").unwrap(), a.semaphore("s", 2).unwrap());
    let held =
        (mutex.acquire().await.unwrap(), rwlock.write().await.unwrap(), semaphore.acquire(2).await.unwrap());
    let waiting = tokio::spawn({
        let (mutex, rwlock, semaphore) =
            (b.mutex("m").unwrap(), b.rwlock("rw").unwrap(), b.semaphore("s", 2).unwrap());
        async move { tokio::join!(mutex.acquire(), rwlock.read(), semaphore.acquire(1)) }
    });
    let queued = async {
        while mutex.queue().first(9).await.unwrap().len()
            + rwlock.queue().first(9).await.unwrap().len()
            + semaphore.queue().first(9).await.unwrap().len()
            < 6
        {}
    };
    soon(queued).await;
    fill(&server).await;

    let fresh = b.mutex("fresh").unwrap();
    for error in [
        fresh.acquire().within(Duration::from_secs(10)).await.map(drop).unwrap_err(),
        soon(fresh.acquire()).await.map(drop).unwrap_err(),
        fresh.try_acquire().await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        says(&error, &["space exceeded", "fresh"]);
    }
    let answer = b.semaphore("s", 2).unwrap().set_limit(3).await;
    let error = fails(answer, ErrorKind::OutcomeUnknown, "the database is full");
    says(&error, &["space exceeded"]);
    let error = fails(at(&config(&server, "")).await, ErrorKind::Misconfigured, "the database is full");
    says(&error, &["connect", "space exceeded"]);
    renewed(&a.lease()).await;
    assert!(held.0.is_held() && held.1.is_held() && held.2.is_held());
    assert!(!waiting.is_finished());

    assert!(b.mutex("m").unwrap().force_release(held.0.token().sequence()).await.unwrap());
    assert_eq!(soon(held.0.lost()).await, Ended::Lost(LostReason::Revoked));
    held.1.release().await.unwrap();
    held.2.release().await.unwrap();
    let (mutex, reader, permit) = soon(waiting).await.unwrap();
    let next = (mutex.unwrap(), reader.unwrap(), permit.unwrap());
    renewed(&b.lease()).await;
    assert!(next.0.is_held() && next.1.is_held() && next.2.is_held());
    next.0.release().await.unwrap();
    next.1.release().await.unwrap();
    next.2.release().await.unwrap();
    for queue in ["latchwork/mutex/", "latchwork/rwlock/"] {
        assert_eq!(keys(&server, queue).await, [""; 0], "a key remains");
    }
    make_space(&server).await;
    soon(fresh.acquire()).await.unwrap().release().await.unwrap();
}

/// The node is deleted at once, and gets its tombstone when there is space.
#[tokio::test]
async fn a_full_server_deletes_a_node_that_it_takes_no_tombstone_for() {
    let (server, client) = with_quota("2000000", "").await;
    let repeated = Join { repeated: true, ..ask(Lock::Mutex, Claim::Exclusive, None, Patience::Wait) };
    let Ok(Joined::Admitted(held)) = client.backend().join(&repeated).await else { panic!("it is free") };
    let unknown = ask(Lock::Mutex, Claim::Exclusive, None, Patience::Wait);
    let Ok(Joined::Waiting(_)) = client.backend().join(&unknown).await else { panic!("two hold") };
    fill(&server).await;
    for refused in [held.leave().await.map(drop), client.backend().abandon(&unknown).await] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Misconfigured, "no tombstone");
    }
    assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
    make_space(&server).await;
    held.leave().await.unwrap();
    client.backend().abandon(&unknown).await.unwrap();
    assert_eq!(keys(&server, "latchwork/client/").await.len(), 2, "their tombstones");
    client.close().await.unwrap();
}

/// A server that becomes full may store a write that it refuses. A client cannot distinguish it from a server
/// that was full before.
#[tokio::test]
async fn a_full_server_leaves_the_write_of_a_cell_unknown_and_deletes_one() {
    let (server, client) = with_quota("2000000", "").await;
    let cell = cell("a");
    let before = written(write_cell(&client, &cell, &put(Expected::Any, "before")).await);
    fill(&server).await;
    let answer = write_cell(&client, &cell, &put(Expected::Any, "after")).await;
    let error = fails(answer, ErrorKind::OutcomeUnknown, "the database is full");
    says(&error, &["etcdctl alarm disarm"]);
    let read = client.backend().read_cell(&cell).await.unwrap().unwrap();
    assert_eq!((read.version, &*read.value), (before, &b"before"[..]));
    let deleted = write_cell(&client, &cell, &deletion(Expected::Version(before))).await.unwrap();
    assert_eq!(deleted, CellWritten::Deleted { was_there: true });
    make_space(&server).await;
    written(write_cell(&client, &cell, &put(Expected::Any, "after")).await);
    client.close().await.unwrap();
}

/// A leave with a release notice writes. On a full server it only deletes.
#[tokio::test]
async fn a_full_server_deletes_a_node_that_it_takes_no_release_notice_for() {
    let (server, client) = with_quota("2000000", "").await;
    let mut queue =
        in_turn((0..20).map(async |_| join(&client, Lock::Mutex, Claim::Exclusive, None).await.1)).await;
    let (last, first) = (queue.pop().unwrap(), queue.pop().unwrap());
    let removed = queue.pop().unwrap();
    leave_all(queue).await;
    soon(removed.admitted()).await.unwrap();
    fill(&server).await;
    // Without an order, the server takes the first names up to the limit, and sorts only these.
    let oldest = [
        "get",
        "--prefix",
        "--keys-only",
        "--limit=1",
        "--sort-by=CREATE",
        "--order=ASCEND",
        "latchwork/mutex/",
    ];
    etcdctl(&server, &["del", etcdctl(&server, &oldest).await.trim()]).await;
    etcdctl(&server, &["del", "--prefix", "latchwork/client/"]).await;
    // The refused leave may have removed the node, so the second leave cannot report its removal as its own.
    assert_eq!(removed.leave().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert!(matches!(removed.leave().await.unwrap(), Leave::Absent(_)));
    take_a_turn(&first).await;
    take_a_turn(&last).await;
    assert_eq!(keys(&server, "latchwork/mutex/").await, [""; 0]);
    assert_eq!(keys(&server, "latchwork/client/").await, [""; 0], "a full server has no release notice");
    make_space(&server).await;
    client.close().await.unwrap();
}

/// etcd checks its quota before it proposes a write, and again when it applies it: it writes, and returns a
/// refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_a_server_refuses_as_it_becomes_full_leaves_no_node() {
    let (server, client) = with_quota("1000000", "").await;
    // With locks alone it would take long to fill the server. Its reported size is a few writes old.
    let some = "x".repeat(20_000);
    let most = async {
        for number in 0.. {
            if metric(&server, "etcd_mvcc_db_total_size_in_bytes ").await > 600_000 {
                break;
            }
            etcdctl(&server, &["put", &format!("filler{number}"), &some]).await;
        }
    };
    soon(most).await;
    let until_full = (0..64).map(|number| {
        let mutex = client.mutex(format!("m{number}")).unwrap();
        async move {
            loop {
                match mutex.acquire().await {
                    Ok(hold) => hold.release().await.unwrap(),
                    Err(error) => return error,
                }
            }
        }
    });
    for error in soon(join_all(until_full)).await {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    }
    assert_eq!(keys(&server, "latchwork/mutex/").await, [""; 0], "a refused join left its node");
}

#[tokio::test]
async fn permissions_that_are_revoked_are_reported_and_held_locks_are_kept_until_they_are_granted_again() {
    let server = server_with_users(Options::new()).await;
    let client = at(&login_config(&server, "app:hunter2", "ttl=6s")).await.unwrap();
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    as_root(&server, &["user", "revoke-role", "app", "locks"]).await;
    let answer = client.mutex("b").unwrap().acquire().within(Duration::from_secs(5)).await;
    let error = fails(answer, ErrorKind::Forbidden, "the role is revoked");
    assert_eq!(error.key(), Some("b"));
    says(&error, &["permission denied"]);
    renewed(&client.lease()).await;
    assert!(hold.is_held());
    as_root(&server, &["user", "grant-role", "app", "locks"]).await;
    soon(client.mutex("b").unwrap().acquire()).await.unwrap().release().await.unwrap();
    hold.release().await.unwrap();
    client.close().await.unwrap();
}

/// The server refuses the watch of one hold, and the watch of another continues.
#[tokio::test]
async fn a_hold_of_a_revoked_role_costs_others_no_watch() {
    let server = server_with_users(Options::new()).await;
    for role in ["one", "two"] {
        as_root(&server, &["role", "add", role]).await;
        let all = format!("{role}/");
        as_root(&server, &["role", "grant-permission", role, "--prefix=true", "readwrite", &all]).await;
        as_root(&server, &["user", "grant-role", "app", role]).await;
    }
    let client = at(&login_config(&server, "app:hunter2", "")).await.unwrap();
    let hold = async |role: &str| {
        let mutex = client.mutex(Key::exact(format!("{role}/lock"))).unwrap();
        mutex.acquire().await.unwrap()
    };
    let (one, two) = (hold("one").await, hold("two").await);
    as_root(&server, &["user", "revoke-role", "app", "one"]).await;
    server.kill().await.unwrap();
    server.launch().await.unwrap();
    let removed = Instant::now();
    as_root(&server, &["del", "--prefix", "two/"]).await;
    assert_eq!(soon(two.lost()).await, Ended::Lost(LostReason::Revoked));
    assert!(removed.elapsed() < client.lease().ttl(), "noticed within one TTL");
    assert!(one.is_held());
    as_root(&server, &["user", "grant-role", "app", "one"]).await;
    as_root(&server, &["del", "--prefix", "one/"]).await;
    assert_eq!(soon(one.lost()).await, Ended::Lost(LostReason::Revoked));
    client.close().await.unwrap();
}

/// A signed token names a version of the users and roles, and is refused when any of them has changed.
#[tokio::test]
async fn a_log_in_from_before_a_change_of_any_role_is_renewed() {
    let (_secret, signed) = signed_tokens("10m");
    let server = server_with_users(Options::new().args(signed)).await;
    let client = at(&login_config(&server, "app:hunter2", "")).await.unwrap();
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    as_root(&server, &["user", "add", "another:secret"]).await;
    soon(hold.release()).await.unwrap();
    as_root(&server, &["user", "delete", "another"]).await;
    soon(client.mutex("b").unwrap().acquire()).await.unwrap().release().await.unwrap();
    client.close().await.unwrap();
}

/// Each acquire needs a lease. None waits until all earlier ones have failed.
#[tokio::test]
async fn many_acquires_that_need_a_lease_from_a_silent_server_fail_soon() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    const ACQUIRES: u32 = 20;
    let server = started(Options::new()).await;
    let (proxy, client) = proxied(&server, "ttl=2s&request_timeout=2s").await;
    proxy.hold(Direction::ToServer);
    soon(client.lease().until_lost()).await;
    let asked = Instant::now();
    let all = (0..ACQUIRES).map(|number| {
        let mutex = client.mutex(format!("m{number}")).unwrap();
        async move { mutex.acquire().await.map(drop) }
    });
    for answer in soon(join_all(all)).await {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    // Half of the time that they take one after another. Together they take a TTL, and then a last try may
    // wait for its turn and its answer.
    assert!(asked.elapsed() < TIMEOUT * ACQUIRES / 2, "after {:?}", asked.elapsed());
    proxy.resume();
    soon(client.mutex("m0").unwrap().acquire()).await.unwrap().release().await.unwrap();
    client.close().await.unwrap();
}
