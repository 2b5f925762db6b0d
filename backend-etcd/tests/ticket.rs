//! Releases that are counted, on a real etcd: whose turn it is is told so, far from the head, and nobody else.

mod common;

use std::sync::Arc;

use common::{client, etcdctl, field, join, keys, proxied, revision, server, soon, still_waits, wait};
use latchwork_conformance::proxy::{Direction, Event, Proxy};
use latchwork_conformance::servers::Server;
use latchwork_core::contracts::Node;
use latchwork_core::decide::Claim;
use latchwork_core::{Coordinator, ErrorKind, Hold, Kind, LostReason};
use tokio::task::JoinHandle;

/// More than stand near the head of a queue, so that whoever joins behind them is far from it.
const NEAR: usize = 17;
const NODES: &str = "latchwork/mutex/a/";
/// Where it is told that so many releases were counted, and how many were.
const TURNS: &str = "latchwork/client/released/mutex/a/";
const COUNT: &str = "latchwork/client/released/mutex/a/count";

type Waiting = JoinHandle<latchwork_core::Result<()>>;

/// A queue whose waiters count their releases, and a client that was far from its head twice: it knows its turn from its next join on, and
/// hears of its own node's removal in order.
struct Crowd {
    server: Server,
    proxy: Proxy,
    others: Coordinator,
    client: Coordinator,
    /// The first of them is the next; none of them is near the head by its join.
    ahead: Vec<Arc<dyn Node>>,
}

impl Crowd {
    async fn new(ahead: usize) -> Self {
        let server = server().await;
        let others = client(&server, "").await;
        let (proxy, client) = proxied(&server, "").await;
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..NEAR {
            near.push(place(&others).await);
        }
        for _ in 0..ahead {
            far.push(place(&others).await);
        }
        let crowd = Self { server, proxy, others, client, ahead: far };
        let predecessor = first_node(&crowd.server, "DESCEND").await;
        let mut far = crowd.proxy.request(move |chunk| contains(chunk, &predecessor));
        let node = place(&crowd.client).await;
        let waiting = wait(&node);
        soon(far.fired()).await.unwrap();
        gives_up(node, waiting).await;
        // From now on it is told its turn.
        let (node, waiting) = crowd.waits().await;
        gives_up(node, waiting).await;
        // A new watch of its own node begins so many revisions later as nodes were ahead.
        crowd.others_go_on(ahead + NEAR).await;
        for node in near {
            node.leave().await.unwrap();
        }
        crowd
    }

    /// So many locks are taken and released elsewhere, at revisions of their own.
    async fn others_go_on(&self, times: usize) {
        let elsewhere = self.others.mutex("elsewhere").unwrap();
        for _ in 0..times {
            elsewhere.acquire().await.unwrap().release().await.unwrap();
        }
    }

    /// The client joins, and waits to be told its turn.
    async fn waits(&self) -> (Arc<dyn Node>, Waiting) {
        let mut draws = self.draws();
        let node = place(&self.client).await;
        let mut waiting = wait(&node);
        soon(draws.fired()).await.unwrap();
        still_waits(&mut waiting).await;
        (node, waiting)
    }

    /// Told when the client asks to be told its turn.
    fn draws(&self) -> Event {
        self.proxy.request(|chunk| {
            let turns =
                chunk.windows(TURNS.len() + 1).filter_map(|window| window.strip_prefix(TURNS.as_bytes()));
            turns.flatten().any(u8::is_ascii_digit)
        })
    }

    /// Told when the client asks for the queue.
    fn lists(&self) -> Event {
        // The end of the range of all keys with the prefix.
        self.asks("latchwork/mutex/a0")
    }

    /// Told when the client asks for a key.
    fn asks(&self, key: &'static str) -> Event {
        self.proxy.request(move |chunk| contains(chunk, key))
    }

    /// The client hears at once of the departure and of the count that come of this: the server tells them one after the other, and
    /// a machine that stands still in between may make the client list, as it should.
    async fn hears_at_once_of(&self, release: impl Future<Output = ()>) {
        let told = |prefix: &'static str| self.proxy.reply(move |chunk| contains(chunk, prefix));
        let (mut departed, mut counted) = (told(NODES), told(TURNS));
        self.proxy.hold(Direction::ToClient);
        let then = async {
            for event in [&mut departed, &mut counted] {
                soon(event.fired()).await.unwrap();
            }
            self.proxy.resume();
        };
        tokio::join!(release, then);
    }

    /// All ahead, but for the last, hold in turn.
    async fn all_but_the_last(&mut self) -> Arc<dyn Node> {
        let last = self.ahead.pop().unwrap();
        for node in self.ahead.drain(..) {
            hold(&node).await;
        }
        last
    }

    async fn end(self) {
        assert_eq!(keys(&self.server, "latchwork/mutex/").await, [""; 0]);
        for client in [self.others, self.client] {
            client.close().await.unwrap();
        }
        assert_eq!(keys(&self.server, "latchwork/").await, [""; 0]);
    }
}

fn contains(chunk: &[u8], text: &str) -> bool {
    chunk.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A place in the queue.
async fn place(client: &Coordinator) -> Arc<dyn Node> {
    join(client, Kind::Mutex, Claim::Exclusive, None).await.1
}

async fn gives_up(node: Arc<dyn Node>, waiting: Waiting) {
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    node.leave().await.unwrap();
}

/// Waits for its turn, holds, and releases.
async fn hold(node: &Arc<dyn Node>) {
    soon(node.admitted()).await.unwrap();
    node.leave().await.unwrap();
}

/// How many releases the server counts.
async fn counted(server: &Server) -> u64 {
    field(server, COUNT, "Version").await.unwrap_or(0)
}

#[tokio::test]
async fn whose_turn_it_is_is_told_so_and_does_not_list() {
    let mut crowd = Crowd::new(20).await;
    let (node, mut waiting) = crowd.waits().await;
    // Its node's name is new, so that it looks whether that is still there.
    let (next, mut waiting_too) = crowd.waits().await;
    let (lists, asks) = (crowd.lists(), crowd.asks(COUNT));
    let last = crowd.all_but_the_last().await;
    assert_eq!(counted(&crowd.server).await, 19);
    still_waits(&mut waiting).await;
    crowd.hears_at_once_of(hold(&last)).await;
    soon(waiting).await.unwrap().unwrap();
    assert!(!asks.has_fired(), "it asked for the count");
    still_waits(&mut waiting_too).await;
    crowd.hears_at_once_of(async { node.leave().await.unwrap() }).await;
    soon(waiting_too).await.unwrap().unwrap();
    assert!(!lists.has_fired(), "one of them looked at the queue");
    next.leave().await.unwrap();
    assert_eq!(counted(&crowd.server).await, 22, "theirs are counted too");
    crowd.end().await;
}

/// What leaves without having been admitted is not counted, nor is a hold whose node somebody else removed. Who waits lists, when its
/// predecessor leaves, and is not let in before its turn.
#[tokio::test]
async fn a_count_that_falls_short_lets_nobody_in_early() {
    for removed in [false, true] {
        let mut crowd = Crowd::new(20).await;
        let (node, mut waiting) = crowd.waits().await;
        let lists = crowd.lists();
        let gone = crowd.ahead.remove(3);
        if removed {
            let first = crowd.ahead.remove(0);
            soon(first.admitted()).await.unwrap();
            etcdctl(&crowd.server, &["del", &first_node(&crowd.server, "ASCEND").await]).await;
            assert_eq!(soon(first.state().until_lost()).await, LostReason::Revoked);
            first.leave().await.unwrap();
            assert_eq!(counted(&crowd.server).await, 0, "it had no node to release");
        }
        gone.leave().await.unwrap();
        assert_eq!(counted(&crowd.server).await, 0, "it never held");
        let last = crowd.all_but_the_last().await;
        still_waits(&mut waiting).await;
        hold(&last).await;
        soon(waiting).await.unwrap().unwrap();
        assert!(lists.has_fired());
        node.leave().await.unwrap();
        crowd.end().await;
    }
}

/// The count may go at any time, and begins anew.
#[tokio::test]
async fn a_count_that_vanishes_lets_nobody_in_early() {
    let mut crowd = Crowd::new(20).await;
    let (node, mut waiting) = crowd.waits().await;
    for node in crowd.ahead.drain(..10) {
        hold(&node).await;
    }
    etcdctl(&crowd.server, &["del", COUNT]).await;
    let last = crowd.all_but_the_last().await;
    assert_eq!(counted(&crowd.server).await, 9);
    still_waits(&mut waiting).await;
    hold(&last).await;
    soon(waiting).await.unwrap().unwrap();
    node.leave().await.unwrap();
    crowd.end().await;
}

/// It lists, and draws its ticket again: long after its join, but not in what has been compacted since, where no watch may begin.
#[tokio::test]
async fn who_reconnects_is_told_of_its_turn_all_the_same() {
    let mut crowd = Crowd::new(20).await;
    let (node, mut waiting) = crowd.waits().await;
    crowd.others_go_on(20).await;
    etcdctl(&crowd.server, &["compact", &revision(&crowd.server).await.to_string()]).await;
    let (mut lists, mut draws) = (crowd.lists(), crowd.draws());
    crowd.proxy.sever();
    soon(lists.fired()).await.unwrap();
    soon(draws.fired()).await.unwrap();
    still_waits(&mut waiting).await;
    let (lists, asks) = (crowd.lists(), crowd.asks(COUNT));
    let last = crowd.all_but_the_last().await;
    still_waits(&mut waiting).await;
    crowd.hears_at_once_of(hold(&last)).await;
    soon(waiting).await.unwrap().unwrap();
    assert!(asks.has_fired(), "its own node was not watched all the time");
    assert!(!lists.has_fired(), "it looked at the queue");
    node.leave().await.unwrap();
    crowd.end().await;
}

/// Its turn comes all the same, by the count; but its node is gone, and whoever is behind it is let in.
#[tokio::test]
async fn who_was_removed_is_not_let_in_by_the_count() {
    let mut crowd = Crowd::new(20).await;
    let (node, waiting) = crowd.waits().await;
    let own = first_node(&crowd.server, "DESCEND").await;
    let last = crowd.all_but_the_last().await;
    etcdctl(&crowd.server, &["del", &own]).await;
    hold(&last).await;
    let ended = soon(waiting).await.unwrap();
    assert_eq!(*ended.unwrap_err().kind(), ErrorKind::Lost { reason: LostReason::Revoked });
    node.leave().await.unwrap();
    crowd.end().await;
}

/// The first of the queue's keys in this order of their creation.
async fn first_node(server: &Server, order: &str) -> String {
    let order = format!("--order={order}");
    let first = ["get", "--prefix", "--keys-only", "--limit=1", "--sort-by=CREATE", &order, NODES];
    etcdctl(server, &first).await.trim().to_owned()
}
