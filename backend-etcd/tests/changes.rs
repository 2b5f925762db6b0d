//! Changes while others wait: a writer becomes a reader, the limit is set, a node is revoked.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use crate::common::{
    ask, attempt, client, etcdctl, etcdctl_running, join, keys, proxied, server, soon, still_waits,
    until_keys, wait,
};
use latchwork_conformance::servers::Server;
use latchwork_core::contracts::{Page, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::{Address, Coordinator, ErrorKind, Kind, LostReason};

const WRITER: Claim = Claim::Exclusive;
const READER: Claim = Claim::Shared;
const EVERYTHING: Page = Page::new(0, usize::MAX);

/// An event comes well before this; the re-check, which comes once a TTL, well after.
const PROMPT: Duration = Duration::from_secs(10);

async fn patient(server: &Server) -> Coordinator {
    client(server, "ttl=60s").await
}

/// Whether this is the request that rewrites a writer as a reader. The client joins as a writer
/// only.
fn is_downgrade(chunk: &[u8]) -> bool {
    chunk.windows(8).any(|window| window == br#""shared""#)
}

#[tokio::test]
async fn a_writer_that_becomes_a_reader_admits_the_readers_behind_it_and_no_writer() {
    let server = server().await;
    let (a, b) = (patient(&server).await, patient(&server).await);
    // Few readers, and many.
    for readers in [1, 24] {
        let (_, w) = join(&a, Kind::RwLock, WRITER, None).await;
        let mut first = Vec::new();
        for _ in 0..readers {
            first.push(join(&b, Kind::RwLock, READER, None).await.1);
        }
        let (_, w2) = join(&b, Kind::RwLock, WRITER, None).await;
        let (_, r2) = join(&a, Kind::RwLock, READER, None).await;
        let reading: Vec<_> = first.iter().map(wait).collect();
        let (mut write2, mut read2) = (wait(&w2), wait(&r2));
        still_waits(&mut read2).await;
        let sequence = w.state().sequence();
        let started = Instant::now();
        w.downgrade().await.unwrap();
        for read in reading {
            soon(read).await.unwrap().unwrap();
        }
        assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
        w.downgrade().await.unwrap();
        still_waits(&mut write2).await;
        still_waits(&mut read2).await;
        let queue = ask(Kind::RwLock, READER, None, Patience::Try).queue;
        let listed = a.backend().list(&queue, EVERYTHING).await.unwrap();
        assert_eq!((listed[0].sequence, listed[0].claim), (sequence, READER), "in its place");
        assert_eq!(listed.iter().filter(|entry| entry.admitted).count(), 1 + readers);
        for node in first {
            node.leave().await.unwrap();
        }
        still_waits(&mut write2).await;
        w.leave().await.unwrap();
        soon(write2).await.unwrap().unwrap();
        still_waits(&mut read2).await;
        w2.downgrade().await.unwrap();
        soon(read2).await.unwrap().unwrap();
        w2.leave().await.unwrap();
        r2.leave().await.unwrap();
        assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
    }
}

#[tokio::test]
async fn a_reader_that_joins_after_a_downgrade_is_admitted_and_a_writer_is_not() {
    let server = server().await;
    let (a, b) = (patient(&server).await, patient(&server).await);
    let (_, w) = join(&a, Kind::RwLock, WRITER, None).await;
    w.downgrade().await.unwrap();
    assert!(attempt(&b, Kind::RwLock, WRITER, None).await.is_none());
    let r = attempt(&b, Kind::RwLock, READER, None).await.expect("readers share");
    w.leave().await.unwrap();
    r.leave().await.unwrap();
}

#[tokio::test]
async fn a_downgrade_whose_reply_is_lost_is_repeated_and_left() {
    let server = server().await;
    let ((proxy, a), b) = (proxied(&server, "ttl=60s").await, patient(&server).await);
    let (_, w) = join(&a, Kind::RwLock, WRITER, None).await;
    let (_, r) = join(&b, Kind::RwLock, READER, None).await;
    let mut lost = proxy.drop_reply_to(is_downgrade);
    let unknown = w.downgrade().await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::OutcomeUnknown, "{unknown}");
    lost.fired().await.unwrap();
    soon(r.admitted()).await.unwrap();
    w.downgrade().await.unwrap();
    w.leave().await.unwrap();
    r.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
}

#[tokio::test]
async fn a_downgrade_that_lands_after_the_leave_makes_nothing() {
    let server = server().await;
    let (proxy, a) = proxied(&server, "ttl=60s").await;
    let (_, w) = join(&a, Kind::RwLock, WRITER, None).await;
    let mut parked = proxy.park_request(is_downgrade);
    let unknown = w.downgrade().await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::OutcomeUnknown, "{unknown}");
    parked.caught().await.unwrap();
    w.leave().await.unwrap();
    parked.deliver().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
    assert_eq!(w.downgrade().await.unwrap_err().lost_reason(), Some(LostReason::Revoked));
    assert_eq!(w.state().lost(), None, "the client has left, and nobody has removed the node");
}

#[tokio::test]
async fn a_downgrade_of_a_node_that_was_removed_says_so() {
    let server = server().await;
    let (a, b) = (patient(&server).await, patient(&server).await);
    let (_, w) = join(&a, Kind::RwLock, WRITER, None).await;
    let queue = ask(Kind::RwLock, WRITER, None, Patience::Wait).queue;
    assert!(b.backend().revoke(&queue, w.state().sequence()).await.unwrap());
    assert_eq!(w.downgrade().await.unwrap_err().lost_reason(), Some(LostReason::Revoked));
    assert_eq!(w.state().lost(), Some(LostReason::Revoked));
    assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
}

#[tokio::test]
async fn a_raised_limit_admits_at_once_and_a_lowered_one_revokes_nobody() {
    let server = server().await;
    let (a, b) = (patient(&server).await, patient(&server).await);
    let queue = ask(Kind::Semaphore, Claim::Permits(1), None, Patience::Wait).queue;
    assert_eq!(a.backend().limit(&queue).await.unwrap(), None);
    a.backend().set_limit(&queue, 2).await.unwrap();
    assert_eq!(b.backend().limit(&queue).await.unwrap(), Some(2));
    let (_, two) = join(&a, Kind::Semaphore, Claim::Permits(2), None).await;
    let (admitted, one) = join(&b, Kind::Semaphore, Claim::Permits(1), None).await;
    assert!(!admitted);
    let (admitted, next) = join(&a, Kind::Semaphore, Claim::Permits(1), None).await;
    assert!(!admitted);
    let (waiting, mut waiting_next) = (wait(&one), wait(&next));
    b.backend().set_limit(&queue, 3).await.unwrap();
    soon(waiting).await.unwrap().unwrap();
    still_waits(&mut waiting_next).await;

    // Three permits are held.
    b.backend().set_limit(&queue, 2).await.unwrap();
    still_waits(&mut waiting_next).await;
    assert!(two.state().lost().is_none() && one.state().lost().is_none());
    two.leave().await.unwrap();
    soon(waiting_next).await.unwrap().unwrap();
    one.leave().await.unwrap();
    next.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, ["latchwork/limit/semaphore/a"]);
}

#[tokio::test]
async fn a_waiter_that_fits_no_more_gives_up_and_those_behind_it_go_on() {
    let server = server().await;
    let (a, b) = (patient(&server).await, patient(&server).await);
    let queue = ask(Kind::Semaphore, Claim::Permits(1), None, Patience::Wait).queue;
    let (_, held) = join(&a, Kind::Semaphore, Claim::Permits(1), Some(3)).await;
    let (_, wide) = join(&b, Kind::Semaphore, Claim::Permits(3), None).await;
    let (_, wider) = join(&a, Kind::Semaphore, Claim::Permits(3), None).await;
    let (_, last) = join(&b, Kind::Semaphore, Claim::Permits(1), None).await;
    let (unfit, unfit_too, mut waiting) = (wait(&wide), wait(&wider), wait(&last));
    still_waits(&mut waiting).await;
    let started = Instant::now();
    a.backend().set_limit(&queue, 2).await.unwrap();
    for (unfit, node) in [(unfit, wide), (unfit_too, wider)] {
        let error = soon(unfit).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        node.leave().await.unwrap();
    }
    soon(waiting).await.unwrap().unwrap();
    assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
    assert!(held.state().lost().is_none());
    held.leave().await.unwrap();
    last.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, ["latchwork/limit/semaphore/a"]);
}

#[tokio::test]
async fn a_node_that_leaves_a_long_queue_out_of_turn_delays_nobody() {
    let server = server().await;
    let (a, b) = (patient(&server).await, patient(&server).await);
    let (_, holder) = join(&a, Kind::Mutex, WRITER, None).await;
    let mut ahead = vec![holder];
    for _ in 0..20 {
        ahead.push(join(&a, Kind::Mutex, WRITER, None).await.1);
    }
    let (_, last) = join(&b, Kind::Mutex, WRITER, None).await;
    let waiting = wait(&last);
    let started = Instant::now();
    // The predecessor first, at the very next revision, and then the others in order.
    ahead.pop().unwrap().leave().await.unwrap();
    for node in ahead {
        assert!(!waiting.is_finished());
        node.leave().await.unwrap();
    }
    soon(waiting).await.unwrap().unwrap();
    assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
    last.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/mutex/").await, [""; 0]);
}

#[tokio::test]
async fn a_revoked_node_is_lost_and_the_next_is_admitted() {
    let server = server().await;
    let (a, b, operator) = (patient(&server).await, patient(&server).await, patient(&server).await);
    let queue = ask(Kind::Mutex, WRITER, None, Patience::Wait).queue;
    let (_, holder) = join(&a, Kind::Mutex, WRITER, None).await;
    let (_, waiter) = join(&b, Kind::Mutex, WRITER, None).await;
    let (_, next) = join(&a, Kind::Mutex, WRITER, None).await;
    let (revoked, mut waiting) = (wait(&waiter), wait(&next));
    still_waits(&mut waiting).await;
    let started = Instant::now();
    let revoke = |sequence| operator.backend().revoke(&queue, sequence);
    assert!(revoke(waiter.state().sequence()).await.unwrap());
    assert_eq!(soon(revoked).await.unwrap().unwrap_err().lost_reason(), Some(LostReason::Revoked));
    still_waits(&mut waiting).await;
    assert!(revoke(holder.state().sequence()).await.unwrap());
    assert_eq!(soon(holder.state().until_lost()).await, LostReason::Revoked);
    soon(waiting).await.unwrap().unwrap();
    assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
    assert!(!revoke(holder.state().sequence()).await.unwrap(), "the node has left");
    assert!(!revoke(next.state().sequence() + 1).await.unwrap(), "there was no such node");
    assert!(next.state().lost().is_none());
    next.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
}

#[tokio::test]
async fn a_foreign_holder_is_revoked_at_an_exact_address_only() {
    let server = server().await;
    let client = patient(&server).await;
    let revoke_first = async |queue: &Address| {
        let listed = client.backend().list(queue, EVERYTHING).await.unwrap();
        client.backend().revoke(queue, listed[0].sequence).await.unwrap()
    };
    let queue = Address::new("latchwork", Kind::Mutex, Address::exact("jobs/x")).unwrap();
    let mutex = client.mutex(Address::exact("jobs/x")).unwrap();

    let _other = etcdctl_running(&server, &["lock", "jobs/x"]);
    until_keys(&server, "jobs/x/", 1).await;
    let acquiring = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    until_keys(&server, "jobs/x/", 2).await;
    assert!(revoke_first(&queue).await);
    let hold = soon(acquiring).await.unwrap();
    hold.release().await.unwrap();

    // A name that is no text holds as long as its lease lives.
    let granted = etcdctl(&server, &["lease", "grant", "60"]).await;
    let lease = format!("--lease={}", granted.split(' ').nth(1).unwrap());
    let put =
        [OsStr::new("put"), OsStr::new(&lease), OsStr::from_bytes(b"jobs/x/\xff"), OsStr::new("by hand")];
    etcdctl(&server, &put).await;
    assert!(revoke_first(&queue).await);
    assert_eq!(client.backend().list(&queue, EVERYTHING).await.unwrap().len(), 0);

    // In our own layout a foreign key takes no part in the queue, and stays.
    etcdctl(&server, &["put", "latchwork/mutex/a/notes", "by hand"]).await;
    let (_, node) = join(&client, Kind::Mutex, WRITER, None).await;
    let queue = ask(Kind::Mutex, WRITER, None, Patience::Wait).queue;
    assert!(!client.backend().revoke(&queue, node.state().sequence() - 1).await.unwrap());
    assert!(revoke_first(&queue).await);
    assert_eq!(keys(&server, "latchwork/").await, ["latchwork/mutex/a/notes"]);
}
