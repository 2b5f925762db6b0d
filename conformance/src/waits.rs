//! Waits with a bound.

use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use latchwork_core::{Coordinator, LeaseState};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::timeout;

use crate::bounds::{CLEAN_UP, LATE, PATIENCE};

pub(crate) async fn within<F: Future>(bound: Duration, what: &str, future: F) -> F::Output {
    match timeout(bound, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not happen within {bound:?}"),
    }
}

pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    within(PATIENCE, what, future).await
}

/// Each report of a hold has a bound, not all together: a machine may be slow.
pub(crate) async fn contend<F: Future<Output = ()> + Send + 'static>(
    tasks: usize,
    mut contender: impl FnMut(usize, UnboundedSender<()>) -> F,
) {
    let (held, mut holds) = mpsc::unbounded_channel();
    let tasks: Vec<_> = (0..tasks).map(|task| tokio::spawn(contender(task, held.clone()))).collect();
    drop(held);
    while soon("the next hold", holds.recv()).await.is_some() {}
    for task in tasks {
        task.await.expect("no panic");
    }
}

/// Polls `future` this many times, each after a wake-up, and then drops it: a case visits the await points
/// one by one.
pub(crate) async fn after_polls<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    stepping(polls, false, future).await
}

/// As [`after_polls`], and one more wake-up, whose cause is lost.
pub(crate) async fn after_polls_and_a_wake<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    stepping(polls, true, future).await
}

async fn stepping<F: Future>(polls: usize, and_a_wake: bool, future: F) -> Option<F::Output> {
    tokio::pin!(future);
    let mut left = polls;
    let stepping = std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 && !and_a_wake => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    soon("the next step", stepping).await
}

pub(crate) async fn until<F: Future<Output = bool>>(what: &str, holds: impl FnMut() -> F) {
    until_within(CLEAN_UP, what, holds).await;
}

pub(crate) async fn until_within<F: Future<Output = bool>>(
    bound: Duration,
    what: &str,
    mut holds: impl FnMut() -> F,
) {
    within(bound, what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A busy machine may have suspended it.
pub(crate) async fn is_live(coordinator: &Coordinator) {
    lease_state(coordinator, LATE, |state| state == LeaseState::Live).await;
}

pub(crate) async fn lease_state(
    coordinator: &Coordinator,
    bound: Duration,
    is: impl Fn(LeaseState) -> bool,
) -> LeaseState {
    let lease = coordinator.lease();
    within(bound, "the lease's change of state", async {
        let mut state = lease.state();
        while !is(state) {
            state = lease.changed(state).await;
        }
        state
    })
    .await
}
