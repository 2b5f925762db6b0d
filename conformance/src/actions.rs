//! What cases do with a client: by the recipes, and below them.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{ChangeWatch, EntryPage, Join, Joined, Node, NodeId, Patience, QueueEntry};
use latchwork_core::recipes::Mutex;
use latchwork_core::{Address, Claim, Limit, Operator};

use crate::adapter::Adapter;
use crate::bounds::CLEAN_UP;
use crate::exclusive::{Guard, Lock};
use crate::testbed::Client;
use crate::waits::{soon, until, within};

/// A plain mutex, in a case that is about something else too. A case about what a mutex does asks
/// the context for one.
pub(crate) fn mutex(client: &Client, key: &str) -> Lock {
    Adapter::Mutex.lock(&client.coordinator, key, None).expect("a good key")
}

pub(crate) fn reentrant(client: &Client, key: &str) -> Mutex {
    client.coordinator.mutex(key).expect("a good key")
}

/// The operator whose client this is.
pub(crate) fn operator_of(client: &Client) -> Operator {
    Operator::of(&client.coordinator).expect("connected as an operator")
}

pub(crate) async fn acquire(mutex: &Lock) -> Guard {
    soon("acquire", mutex.acquire()).await.expect("acquired")
}

pub(crate) async fn try_acquire(mutex: &Lock) -> Option<Guard> {
    soon("try_acquire", mutex.try_acquire()).await.expect("answered")
}

/// The queue of a mutex, as a listing shows it.
pub(crate) async fn listing(mutex: &Lock) -> Vec<QueueEntry> {
    soon("list", mutex.queue(1000)).await.expect("listed")
}

/// Starts an acquire in the background.
pub(crate) fn acquiring(mutex: Lock) -> Waiter {
    Waiter(tokio::spawn(async move { mutex.acquire().await }))
}

/// Starts an acquire in the background, and waits until it stands in the queue as its `place`-th
/// node (from 1).
pub(crate) async fn queue_up(mutex: &Lock, place: usize) -> Waiter {
    let waiter = acquiring(mutex.clone());
    until("the waiter stands in the queue", || async { listing(mutex).await.len() >= place }).await;
    waiter
}

/// An acquire in the background. Dropped, it is cancelled.
pub(crate) struct Waiter(tokio::task::JoinHandle<latchwork_core::Result<Guard>>);

impl Waiter {
    pub(crate) async fn outcome(mut self) -> latchwork_core::Result<Guard> {
        soon("the waiter ends", &mut self.0).await.expect("no panic")
    }

    pub(crate) async fn guard(self) -> Guard {
        self.outcome().await.expect("admitted")
    }

    /// Cancels it, and waits for its end.
    pub(crate) async fn cancel(mut self) {
        self.0.abort();
        let _cancelled = (&mut self.0).await;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A join below the recipes.
pub(crate) fn join_of(queue: &Address, claim: Claim) -> Join {
    Join {
        queue: queue.clone(),
        id: NodeId::random(),
        claim,
        limit: match claim {
            Claim::Permits(_) => Limit::Exactly(2),
            _ => Limit::Stored,
        },
        label: "conformance".into(),
        data: Default::default(),
        patience: Patience::Wait,
        repeated: false,
    }
}

/// Joins below the recipes: the answer.
pub(crate) async fn join(client: &Client, queue: &Address, claim: Claim) -> Joined {
    soon("join", client.coordinator.backend().join(&join_of(queue, claim))).await.expect("joined")
}

/// The first page of a queue below the recipes.
pub(crate) async fn entries(client: &Client, queue: &Address) -> Vec<QueueEntry> {
    let page = EntryPage::new(0, 1000);
    soon("list", client.coordinator.backend().list(queue, page)).await.expect("listed")
}

/// Joins below the recipes: whether the node is admitted, and the node.
pub(crate) async fn enters(client: &Client, queue: &Address, claim: Claim) -> (bool, Arc<dyn Node>) {
    match join(client, queue, claim).await {
        Joined::Admitted(node) => (true, node),
        Joined::Waiting(node) => (false, node),
        Joined::Refused => panic!("only a try is refused"),
    }
}

/// A try below the recipes: the node, if it is admitted.
pub(crate) async fn tries(client: &Client, join: &Join) -> Option<Arc<dyn Node>> {
    let tried = Join { patience: Patience::Try, id: NodeId::random(), ..join.clone() };
    match soon("try", client.coordinator.backend().join(&tried)).await.expect("answered") {
        Joined::Admitted(node) => Some(node),
        Joined::Refused => None,
        Joined::Waiting(_) => panic!("a try waits"),
    }
}

/// An admission that an event brings: at [`QUIET_TTL`](crate::bounds::QUIET_TTL) no look of the waiter itself comes as
/// soon.
pub(crate) async fn promptly(node: &Arc<dyn Node>) {
    within(CLEAN_UP, "the admission", node.admitted()).await.expect("admitted");
}

pub(crate) async fn leave(node: &Arc<dyn Node>) {
    soon("leave", node.leave()).await.expect("left");
}

/// Whether a node of this client still waits, after [as much time](settle) as an event takes.
pub(crate) async fn still_waits(client: &Client, node: &Arc<dyn Node>) -> bool {
    tokio::select! {
        biased;
        _ = node.admitted() => false,
        () = settle(client) => true,
    }
}

/// Whether a watch of this client reports nothing, for [as much time](settle) as an event takes.
pub(crate) async fn is_quiet(client: &Client, watch: &mut dyn ChangeWatch) -> bool {
    tokio::select! {
        biased;
        _ = watch.changed() => false,
        () = settle(client) => true,
    }
}

/// Waits until a watch reports nothing: it may answer without a change.
pub(crate) async fn until_quiet(client: &Client, watch: &mut dyn ChangeWatch) {
    soon("a quiet watch", async { while !is_quiet(client, watch).await {} }).await;
}

/// The time of an event: round trips of the client, after which earlier messages of its server have arrived, and some
/// time for events on another stream.
pub(crate) async fn settle(client: &Client) {
    let unused = client.coordinator.mutex("unused").expect("a good key");
    for _ in 0..5 {
        soon("list", unused.queue().first(1)).await.expect("listed");
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
}
