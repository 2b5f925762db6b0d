//! Actions of cases with a client.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use latchwork_core::backend::{ChangeWatch, EntryPage, Join, Joined, Node, NodeId, Patience, QueueEntry};
use latchwork_core::recipes::Mutex;
use latchwork_core::{Address, Claim, Hold, Limit, Listing, Operator, Result};
use tokio::task::JoinHandle;

use crate::adapter::Adapter;
use crate::bounds::CLEAN_UP;
use crate::exclusive::{Guard, Lock};
use crate::testbed::{Armed, Client};
use crate::waits::{soon, until, within};

/// Cases about the behaviour of mutexes use their context's mutex.
pub(crate) fn mutex(client: &Client, key: &str) -> Lock {
    Adapter::Mutex.lock(&client.coordinator, key, None).expect("a good key")
}

pub(crate) fn reentrant(client: &Client, key: &str) -> Mutex {
    client.coordinator.mutex(key).expect("a good key")
}

pub(crate) fn operator_of(client: &Client) -> Operator {
    Operator::of(&client.coordinator).expect("connected as an operator")
}

pub(crate) async fn acquire(mutex: &Lock) -> Guard {
    soon("acquire", mutex.acquire()).await.expect("acquired")
}

pub(crate) async fn acquire_many(
    client: &Client,
    keys: impl IntoIterator<Item = String>,
    at_a_time: usize,
) -> Vec<Guard> {
    let acquiring = keys.into_iter().map(|key| async move { acquire(&mutex(client, &key)).await });
    stream::iter(acquiring).buffer_unordered(at_a_time).collect().await
}

pub(crate) async fn try_acquire(mutex: &Lock) -> Option<Guard> {
    soon("try_acquire", mutex.try_acquire()).await.expect("answered")
}

pub(crate) async fn listing(mutex: &Lock) -> Vec<QueueEntry> {
    soon("list", mutex.queue(1000)).await.expect("listed")
}

pub(crate) async fn acquire_and_release(mutex: &Lock) {
    release(acquire(mutex).await).await;
}

pub(crate) async fn release(hold: impl Into<Hold>) {
    soon("release", hold.into().release()).await.expect("released");
}

pub(crate) async fn release_all<H: Into<Hold>>(holds: impl IntoIterator<Item = H>) {
    for hold in holds {
        release(hold).await;
    }
}

pub(crate) async fn close(client: &Client) {
    soon("close", client.coordinator.close()).await.expect("closed");
}

pub(crate) async fn until_standing(queue: Listing<QueueEntry>, nodes: usize) {
    let listed = || async { soon("list", queue.first(100)).await.expect("listed").len() == nodes };
    until("the queue has its nodes", listed).await;
}

pub(crate) async fn queue_up(mutex: &Lock, place: usize) -> Waiter {
    let waiter = Waiter::of(mutex.acquire());
    until("the waiter is in the queue", || async { listing(mutex).await.len() >= place }).await;
    waiter
}

pub(crate) async fn queued<G: Send + 'static>(
    acquisition: impl Future<Output = Result<G>> + Send + 'static,
    queue: Listing<QueueEntry>,
    place: usize,
) -> Waiter<G> {
    let waiter = Waiter::of(acquisition);
    until_standing(queue, place).await;
    waiter
}

/// A drop cancels it.
pub(crate) struct Waiter<G = Guard>(JoinHandle<Result<G>>);

impl<G: Send + 'static> Waiter<G> {
    pub(crate) fn of(acquisition: impl Future<Output = Result<G>> + Send + 'static) -> Self {
        Self(tokio::spawn(acquisition))
    }

    pub(crate) async fn outcome(mut self) -> Result<G> {
        soon("the waiter ends", &mut self.0).await.expect("no panic")
    }

    pub(crate) async fn guard(self) -> G {
        self.outcome().await.expect("admitted")
    }

    pub(crate) async fn cancel(mut self) {
        self.0.abort();
        let _cancelled = (&mut self.0).await;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<G> Drop for Waiter<G> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Awaits the futures one after the other, and returns their outputs.
pub async fn in_turn<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    stream::iter(futures).then(|future| future).collect().await
}

/// Creates a join.
pub fn join_of(queue: &Address, claim: Claim) -> Join {
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

pub(crate) async fn admitted(client: &Client, queue: &Address, claim: Claim) -> Arc<dyn Node> {
    match enters(client, queue, claim).await {
        (true, node) => node,
        (false, _) => panic!("{queue} is not free"),
    }
}

pub(crate) async fn waiting(client: &Client, queue: &Address, claim: Claim) -> Arc<dyn Node> {
    match enters(client, queue, claim).await {
        (true, _) => panic!("{queue} is not taken"),
        (false, node) => node,
    }
}

pub(crate) async fn entries(client: &Client, queue: &Address) -> Vec<QueueEntry> {
    let page = EntryPage::new(0, 1000);
    soon("list", client.coordinator.backend().list(queue, page)).await.expect("listed")
}

pub(crate) async fn enters(client: &Client, queue: &Address, claim: Claim) -> (bool, Arc<dyn Node>) {
    enters_by(client, &join_of(queue, claim)).await
}

pub(crate) async fn enters_by(client: &Client, join: &Join) -> (bool, Arc<dyn Node>) {
    entered(soon("join", client.coordinator.backend().join(join)).await)
}

/// Returns whether the node of a join is admitted, and the node.
pub fn entered(joined: Result<Joined>) -> (bool, Arc<dyn Node>) {
    match joined.expect("joined") {
        Joined::Admitted(node) => (true, node),
        Joined::Waiting(node) => (false, node),
        Joined::Refused => panic!("a join that may wait was refused"),
    }
}

/// Returns the admitted node of a join.
#[track_caller]
pub fn admitted_node(joined: Result<Joined>) -> Arc<dyn Node> {
    match entered(joined) {
        (true, node) => node,
        (false, node) => panic!("it waits: {node:?}"),
    }
}

/// Returns the waiting node of a join.
#[track_caller]
pub fn waiting_node(joined: Result<Joined>) -> Arc<dyn Node> {
    match entered(joined) {
        (true, node) => panic!("it is admitted: {node:?}"),
        (false, node) => node,
    }
}

pub(crate) async fn tries(client: &Client, join: &Join) -> Option<Arc<dyn Node>> {
    let tried = Join { patience: Patience::Try, id: NodeId::random(), ..join.clone() };
    match soon("try", client.coordinator.backend().join(&tried)).await.expect("answered") {
        Joined::Admitted(node) => Some(node),
        Joined::Refused => None,
        Joined::Waiting(_) => panic!("a try waits"),
    }
}

/// At [`QUIET_TTL`](crate::bounds::QUIET_TTL) only an event comes this early.
pub(crate) async fn promptly(node: &Arc<dyn Node>) {
    within(CLEAN_UP, "the admission", node.admitted()).await.expect("admitted");
}

pub(crate) async fn leave(node: &Arc<dyn Node>) {
    soon("leave", node.leave()).await.expect("left");
}

/// Awaits the admission of a node, and lets it leave.
pub async fn take_a_turn(node: &Arc<dyn Node>) {
    soon("the admission", node.admitted()).await.expect("admitted");
    leave(node).await;
}

/// Lets the nodes leave in turn.
pub async fn leave_all(nodes: impl IntoIterator<Item = impl Borrow<Arc<dyn Node>>>) {
    for node in nodes {
        leave(node.borrow()).await;
    }
}

/// Retries, as core does.
pub(crate) async fn leave_in_the_end(node: &Arc<dyn Node>) {
    in_the_end(|| node.leave()).await.expect("left");
}

pub(crate) async fn in_the_end<T, F: Future<Output = Result<T>>>(request: impl Fn() -> F) -> Result<T> {
    soon("the answer", async {
        loop {
            match request().await {
                Err(error) if error.may_pass() => tokio::task::yield_now().await,
                answer => return answer,
            }
        }
    })
    .await
}

pub(crate) async fn caught<T>(fault: &mut dyn Armed, request: impl Future<Output = T>) -> T {
    let (answer, caught) = tokio::join!(soon("the answer", request), soon("the fault", fault.caught()));
    caught.expect("caught");
    answer
}

pub(crate) async fn without_reply<T>(client: &Client, key: &str, request: impl Future<Output = T>) -> T {
    caught(&mut *client.link.drop_reply(key), request).await
}

pub(crate) async fn still_waits(client: &Client, node: &Arc<dyn Node>) -> bool {
    tokio::select! {
        biased;
        _ = node.admitted() => false,
        () = settle(client) => true,
    }
}

pub(crate) async fn is_quiet(client: &Client, watch: &mut dyn ChangeWatch) -> bool {
    tokio::select! {
        biased;
        _ = watch.changed() => false,
        () = settle(client) => true,
    }
}

/// A watch may answer without a change.
pub(crate) async fn until_quiet(client: &Client, watch: &mut dyn ChangeWatch) {
    soon("a quiet watch", async { while !is_quiet(client, watch).await {} }).await;
}

/// Round trips bring the server's earlier messages. The pause is for events on another stream.
pub(crate) async fn settle(client: &Client) {
    let unused = client.coordinator.mutex("unused").expect("a good key");
    for _ in 0..5 {
        soon("list", unused.queue().first(1)).await.expect("listed");
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
}
