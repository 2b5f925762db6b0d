pub(crate) mod java;

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    ALL, acquiring_behind, address, admitted, backend, config, coordinator, join, plant, server, soon,
    still_waits, stranger, waiting,
};
use latchwork_conformance::actions::take_a_turn;
use latchwork_conformance::child::Child;
use latchwork_core::Claim::{Exclusive, Shared};
use latchwork_core::backend::{Backend, Join, QueueEntry};
use latchwork_core::{Address, ErrorKind, Key, Kind};
use zookeeper_client::CreateMode;

const TURNS: usize = 25;

struct Curator(Child<String>);

impl Curator {
    async fn start(server: &str, kind: &str, path: &str) -> Self {
        Self::running("Contender.java", &[server, kind, path]).await
    }

    async fn latch(server: &str, id: &str, path: &str) -> Self {
        Self::running("Latch.java", &[server, id, path]).await
    }

    async fn running(source: &str, arguments: &[&str]) -> Self {
        let mut command = java::command(source, arguments);
        command.stdin(Stdio::piped());
        let mut curator = Self(Child::of_text(command));
        curator.says("ready").await;
        curator
    }

    async fn order(&mut self, order: &str) {
        self.0.process.write_line(order).await;
    }

    async fn says(&mut self, word: &str) {
        assert_eq!(soon(self.0.events.next()).await.as_deref(), Some(word));
    }

    /// Much longer than a turn of Curator.
    async fn has_said_anything(&mut self) -> bool {
        tokio::time::timeout(Duration::from_secs(1), self.0.events.next()).await.is_ok()
    }

    async fn does(&mut self, order: &str, answer: &str) {
        self.order(order).await;
        self.says(answer).await;
    }
}

async fn shared(kind: Kind) -> (&'static str, String, Arc<dyn Backend>, Address) {
    let addr = server().await.addr();
    let config = config(addr);
    let path = format!("/{}-app/shared", config.namespace);
    let queue = address(&config, kind, Key::exact(path.as_str()));
    (addr, path, backend(&config).await, queue)
}

#[tokio::test]
async fn curator_and_our_mutex_take_turns() {
    let addr = server().await.addr();
    let config = config(addr);
    let path = format!("/{}-app/invoices", config.namespace);
    let (coordinator, stranger) = (coordinator(&config).await, stranger(addr).await);
    let mutex = coordinator.mutex(Key::exact(path.as_str())).unwrap();
    let mut curator = Curator::start(addr, "mutex", &path).await;

    curator.does("acquire", "acquired").await;
    plant(&stranger, &format!("{path}/note"), CreateMode::Persistent).await;
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let waits = acquiring_behind(&mutex).await;
    curator.does("release", "released").await;
    let guard = soon(waits).await.unwrap().unwrap();

    curator.does("try", "refused").await;
    curator.order("acquire").await;
    soon(async { while mutex.queue().first(10).await.unwrap().len() < 2 {} }).await;
    guard.release().await.unwrap();
    curator.says("acquired").await;
    curator.does("release", "released").await;

    let inside = format!("{path}-inside");
    curator.order(&format!("turns {TURNS}")).await;
    let mut last = guard.token();
    for _ in 0..TURNS {
        let guard = soon(mutex.acquire()).await.unwrap();
        assert!(guard.token() > last);
        last = guard.token();
        plant(&stranger, &inside, CreateMode::Ephemeral).await;
        stranger.delete(&inside, None).await.unwrap();
        guard.release().await.unwrap();
    }
    curator.says("done").await;
    coordinator.close().await.unwrap();
}

#[tokio::test]
async fn curator_and_our_read_write_locks_respect_each_other() {
    let (addr, path, backend, queue) = shared(Kind::RwLock).await;
    let mut reads = Curator::start(addr, "read", &path).await;
    let mut writes = Curator::start(addr, "write", &path).await;

    reads.does("acquire", "acquired").await;
    let reader = admitted(backend.join(&join(&queue, Shared)).await);
    let writer = waiting(backend.join(&join(&queue, Exclusive)).await);
    writes.does("try", "refused").await;
    reader.leave().await.unwrap();
    assert!(still_waits(&backend, &queue, writer.admitted()).await);
    reads.does("release", "released").await;
    soon(writer.admitted()).await.unwrap();
    reads.does("try", "refused").await;
    writer.leave().await.unwrap();

    writes.does("acquire", "acquired").await;
    let reader = waiting(backend.join(&join(&queue, Shared)).await);
    assert!(still_waits(&backend, &queue, reader.admitted()).await);
    writes.does("release", "released").await;
    take_a_turn(&reader).await;
}

#[tokio::test]
async fn our_downgrade_admits_curator_readers_but_no_curator_writers() {
    let (addr, path, backend, queue) = shared(Kind::RwLock).await;
    let mut reads = Curator::start(addr, "read", &path).await;
    let mut writes = Curator::start(addr, "write", &path).await;
    let joins = async |count| {
        soon(async { while backend.list(&queue, ALL).await.unwrap().len() < count {} }).await;
    };

    let writer = admitted(backend.join(&join(&queue, Exclusive)).await);
    reads.order("acquire").await;
    joins(2).await;
    writes.order("acquire").await;
    joins(3).await;
    writer.downgrade().await.unwrap();
    reads.says("acquired").await;
    // Curator's writer, and our reader after it, see two readers.
    let behind = waiting(backend.join(&join(&queue, Shared)).await);
    reads.does("release", "released").await;
    assert!(still_waits(&backend, &queue, behind.admitted()).await);
    assert!(!writes.has_said_anything().await);
    writer.leave().await.unwrap();
    writes.says("acquired").await;
    assert!(still_waits(&backend, &queue, behind.admitted()).await);
    writes.does("release", "released").await;
    take_a_turn(&behind).await;

    writes.does("acquire", "acquired").await;
    let next = waiting(backend.join(&join(&queue, Exclusive)).await);
    let foreign = backend.list(&queue, ALL).await.unwrap()[0].sequence;
    assert!(foreign < next.state().sequence());
    assert!(backend.revoke(&queue, foreign).await.unwrap());
    soon(next.admitted()).await.unwrap();
    assert!(!backend.revoke(&queue, foreign).await.unwrap());
    next.leave().await.unwrap();
}

#[tokio::test]
async fn curators_leader_latch_and_our_candidates_lead_in_turn_and_show_each_others_ids() {
    let (addr, path, backend, queue) = shared(Kind::Election).await;
    let candidate = |data: &str| Join { data: data.as_bytes().into(), ..join(&queue, Exclusive) };
    let shown = async || {
        let entries = backend.list(&queue, ALL).await.unwrap();
        let shown = |entry: &QueueEntry| {
            assert_eq!(*entry.data, *entry.label.as_bytes());
            format!("{}{}", entry.label, if entry.admitted { "*" } else { "" })
        };
        entries.iter().map(shown).collect::<Vec<_>>().join(" ")
    };
    let all = async |expected: &str| soon(async { while shown().await != expected {} }).await;
    let mut watch = backend.watch_queue(&queue);
    soon(watch.changed()).await.unwrap();
    let mut curator = Curator::latch(addr, "java-1", &path).await;

    curator.does("start", "started").await;
    curator.does("await", "leads").await;
    soon(watch.changed()).await.unwrap();
    all("java-1*").await;
    let ours = waiting(backend.join(&candidate("ours-1")).await);
    all("java-1* ours-1").await;
    assert!(still_waits(&backend, &queue, ours.admitted()).await);
    curator.does("leader", "java-1").await;
    curator.does("all", "java-1* ours-1").await;
    curator.does("close", "closed").await;
    soon(ours.admitted()).await.unwrap();

    curator.does("leader", "ours-1").await;
    curator.does("start", "started").await;
    all("ours-1* java-1").await;
    let next = waiting(backend.join(&candidate("ours-2")).await);
    curator.does("leads", "no").await;
    curator.does("leader", "ours-1").await;
    curator.does("all", "ours-1* java-1 ours-2").await;
    // Curator watches our node for one event, which must be its end.
    let error = ours.write_data(&b"renamed"[..].into()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
    curator.order("await").await;
    assert!(!curator.has_said_anything().await);
    ours.leave().await.unwrap();
    curator.says("leads").await;
    assert!(still_waits(&backend, &queue, next.admitted()).await);

    let foreign = backend.list(&queue, ALL).await.unwrap()[0].sequence;
    assert!(foreign < next.state().sequence());
    curator.does("close", "closed").await;
    soon(next.admitted()).await.unwrap();
    assert!(!backend.revoke(&queue, foreign).await.unwrap());
    next.leave().await.unwrap();
    all("").await;
}

#[tokio::test]
async fn a_leader_latch_does_not_meet_a_mutex_of_its_path() {
    let (addr, path, backend, mutex) = shared(Kind::Mutex).await;
    let election = Address::new("", Kind::Election, Key::exact(path.as_str())).unwrap();
    let mut curator = Curator::latch(addr, "java-1", &path).await;
    let lock = admitted(backend.join(&join(&mutex, Exclusive)).await);
    curator.does("start", "started").await;
    curator.does("await", "leads").await;
    let ours = waiting(backend.join(&join(&election, Exclusive)).await);
    curator.does("close", "closed").await;
    soon(ours.admitted()).await.unwrap();
    assert_eq!(backend.list(&mutex, ALL).await.unwrap().len(), 1);
    lock.leave().await.unwrap();
    ours.leave().await.unwrap();
}
