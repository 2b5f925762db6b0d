mod forged;

use std::sync::Arc;

use crate::common::{
    contains, etcdctl, field, join, keys, proxied, revision, served, soon, still_waits, value, wait,
};
use latchwork_conformance::actions::{in_turn, leave_all, take_a_turn};
use latchwork_conformance::proxy::{Direction, Event, Proxy};
use latchwork_conformance::servers::Server;
use latchwork_core::backend::Node;
use latchwork_core::{Claim, Coordinator, ErrorKind, Kind, LostReason};
use tokio::task::JoinHandle;

const NEAR: usize = 17;
const NODES: &str = "latchwork/mutex/a/";
const INBOX: &str = "/next/";

type Waiting = JoinHandle<latchwork_core::Result<()>>;

/// A client that watches its inboxes, because it has waited far from the head.
struct Crowd {
    server: Server,
    proxy: Proxy,
    others: Coordinator,
    client: Coordinator,
    /// All joined far from the head.
    ahead: Vec<Arc<dyn Node>>,
}

impl Crowd {
    async fn new(ahead: usize) -> Self {
        let (server, others) = served("").await;
        let (proxy, client) = proxied(&server, "").await;
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..NEAR {
            near.push(place(&others).await);
        }
        for _ in 0..ahead {
            far.push(place(&others).await);
        }
        let crowd = Self { server, proxy, others, client, ahead: far };
        let (mut watches, mut lists) = (crowd.asks(INBOX), crowd.lists());
        let node = place(&crowd.client).await;
        let waiting = wait(&node);
        soon(watches.fired()).await.unwrap();
        // The watch misses earlier notices, so the client lists.
        soon(lists.fired()).await.unwrap();
        gives_up(node, waiting).await;
        leave_all(near).await;
        crowd
    }

    async fn others_go_on(&self, times: usize) {
        let elsewhere = self.others.mutex("elsewhere").unwrap();
        for _ in 0..times {
            elsewhere.acquire().await.unwrap().release().await.unwrap();
        }
    }

    async fn waits(&self) -> (Arc<dyn Node>, Waiting) {
        let node = place(&self.client).await;
        let mut waiting = wait(&node);
        still_waits(&mut waiting).await;
        (node, waiting)
    }

    fn lists(&self) -> Event {
        let (end, descending) = (b"latchwork/mutex/a0", [0x28, 2, 0x30, 2]);
        self.proxy.request(move |chunk| {
            let ends = chunk.windows(end.len()).enumerate().filter(|(_, window)| window == end);
            let mut options = ends.map(|(at, _)| chunk[at + end.len()..].iter().take(12));
            options.any(|options| contains(&options.copied().collect::<Vec<_>>(), descending))
        })
    }

    fn asks(&self, key: &'static str) -> Event {
        self.proxy.request(move |chunk| contains(chunk, key))
    }

    /// If the machine stops between the two messages, the client lists, as intended.
    async fn delivers_at_once(&self, release: impl Future<Output = ()>) {
        let event = |prefix: &'static str| self.proxy.reply(move |chunk| contains(chunk, prefix));
        let (mut departed, mut notice) = (event(NODES), event(INBOX));
        self.proxy.hold(Direction::ToClient);
        let then = async {
            for event in [&mut departed, &mut notice] {
                soon(event.fired()).await.unwrap();
            }
            self.proxy.resume();
        };
        tokio::join!(release, then);
    }

    async fn all_but_the_last(&mut self) -> Arc<dyn Node> {
        let last = self.ahead.pop().unwrap();
        for node in self.ahead.drain(..) {
            take_a_turn(&node).await;
        }
        last
    }

    async fn admits_without_a_listing(mut self, node: Arc<dyn Node>, mut waiting: Waiting) {
        let lists = self.lists();
        let last = self.all_but_the_last().await;
        still_waits(&mut waiting).await;
        self.delivers_at_once(take_a_turn(&last)).await;
        soon(waiting).await.unwrap().unwrap();
        assert!(!lists.has_fired(), "the waiter listed the queue");
        node.leave().await.unwrap();
        self.end().await;
    }

    async fn end(self) {
        assert_eq!(keys(&self.server, "latchwork/mutex/").await, [""; 0]);
        for client in [self.others, self.client] {
            client.close().await.unwrap();
        }
        assert_eq!(keys(&self.server, "latchwork/").await, [""; 0]);
    }
}

async fn place(client: &Coordinator) -> Arc<dyn Node> {
    join(client, Kind::Mutex, Claim::Exclusive, None).await.1
}

async fn gives_up(node: Arc<dyn Node>, waiting: Waiting) {
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    node.leave().await.unwrap();
}

async fn last_inbox(server: &Server) -> (String, u64) {
    let node = first_node(server, "DESCEND").await;
    let created = field(server, &node, "CreateRevision").await.unwrap();
    let (lease, id) = node.strip_prefix(NODES).unwrap().split_once('-').unwrap();
    (format!("latchwork/client/{lease}{INBOX}{id}"), created)
}

#[tokio::test]
async fn the_next_node_is_notified_and_does_not_list() {
    let mut crowd = Crowd::new(20).await;
    let (node, mut waiting) = crowd.waits().await;
    let (next, mut waiting_too) = crowd.waits().await;
    let lists = crowd.lists();
    let last = crowd.all_but_the_last().await;
    still_waits(&mut waiting).await;
    crowd.delivers_at_once(take_a_turn(&last)).await;
    soon(waiting).await.unwrap().unwrap();
    still_waits(&mut waiting_too).await;
    crowd.delivers_at_once(async { _ = node.leave().await.unwrap() }).await;
    soon(waiting_too).await.unwrap().unwrap();
    assert!(!lists.has_fired(), "one of the waiters listed the queue");
    next.leave().await.unwrap();
    crowd.end().await;
}

#[tokio::test]
async fn node_that_gives_up_costs_its_successor_one_listing() {
    let mut crowd = Crowd::new(20).await;
    let (node, mut waiting) = crowd.waits().await;
    let mut lists = crowd.lists();
    crowd.ahead.pop().unwrap().leave().await.unwrap();
    soon(lists.fired()).await.unwrap();
    crowd.ahead.remove(3).leave().await.unwrap();
    still_waits(&mut waiting).await;
    crowd.admits_without_a_listing(node, waiting).await;
}

/// The server serves a new watch late, but the holder finds its successor.
#[tokio::test]
async fn node_that_gives_up_at_once_delays_no_waiter() {
    let mut crowd = Crowd::new(20).await;
    let leaves = crowd.ahead.pop().unwrap();
    let notice = crowd.proxy.reply(|chunk| contains(chunk, INBOX));
    let node = place(&crowd.client).await;
    leaves.leave().await.unwrap();
    let waiting = wait(&node);
    for node in crowd.ahead.drain(..) {
        take_a_turn(&node).await;
    }
    soon(waiting).await.unwrap().unwrap();
    assert!(notice.has_fired(), "the node wrote no release notice");
    node.leave().await.unwrap();
    crowd.end().await;
}

/// The nodes after it may rely only on its notice.
#[tokio::test]
async fn the_last_node_that_watches_the_queue_notifies_when_it_gives_up() {
    let crowd = Crowd::new(0).await;
    let mut near = in_turn((0..NEAR).map(async |_| place(&crowd.others).await)).await;
    let (node, mut waiting) = crowd.waits().await;
    let inbox = last_inbox(&crowd.server).await.0;
    let mut lists = crowd.lists();
    near.pop().unwrap().leave().await.unwrap();
    soon(lists.fired()).await.unwrap();
    let notice = value(&crowd.server, &inbox).await;
    assert!(notice.contains("look"), "{notice:?}");
    still_waits(&mut waiting).await;
    for node in near {
        take_a_turn(&node).await;
    }
    soon(waiting).await.unwrap().unwrap();
    node.leave().await.unwrap();
    assert_eq!(keys(&crowd.server, &inbox).await, [""; 0], "the notice is deleted with the node");
    crowd.end().await;
}

#[tokio::test]
async fn revoked_holder_and_leaving_waiter_admit_no_successor() {
    let mut crowd = Crowd::new(20).await;
    let (node, mut waiting) = crowd.waits().await;
    let first = crowd.ahead.remove(0);
    soon(first.admitted()).await.unwrap();
    etcdctl(&crowd.server, &["del", &first_node(&crowd.server, "ASCEND").await]).await;
    assert_eq!(soon(first.state().until_lost()).await, LostReason::Revoked);
    first.leave().await.unwrap();
    let second = crowd.ahead.remove(0);
    soon(second.admitted()).await.unwrap();
    leave_all(crowd.ahead.drain(..)).await;
    still_waits(&mut waiting).await;
    second.leave().await.unwrap();
    soon(waiting).await.unwrap().unwrap();
    node.leave().await.unwrap();
    crowd.end().await;
}

/// The waiter lists long after its join, when the history since is compacted.
#[tokio::test]
async fn a_waiter_that_reconnects_is_notified_all_the_same() {
    let crowd = Crowd::new(20).await;
    let (node, mut waiting) = crowd.waits().await;
    crowd.others_go_on(20).await;
    etcdctl(&crowd.server, &["compact", &revision(&crowd.server).await.to_string()]).await;
    let (mut lists, mut watches) = (crowd.lists(), crowd.asks(INBOX));
    crowd.proxy.sever();
    soon(lists.fired()).await.unwrap();
    soon(watches.fired()).await.unwrap();
    still_waits(&mut waiting).await;
    crowd.admits_without_a_listing(node, waiting).await;
}

#[tokio::test]
async fn a_removed_waiter_is_not_admitted() {
    let mut crowd = Crowd::new(20).await;
    let (node, waiting) = crowd.waits().await;
    let own = first_node(&crowd.server, "DESCEND").await;
    let last = crowd.all_but_the_last().await;
    etcdctl(&crowd.server, &["del", &own]).await;
    take_a_turn(&last).await;
    let ended = soon(waiting).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Lost(LostReason::Revoked));
    node.leave().await.unwrap();
    crowd.end().await;
}

async fn first_node(server: &Server, order: &str) -> String {
    let order = format!("--order={order}");
    let first = ["get", "--prefix", "--keys-only", "--limit=1", "--sort-by=CREATE", &order, NODES];
    etcdctl(server, &first).await.trim().to_owned()
}
