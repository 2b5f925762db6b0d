//! Waits with a bound: a case that waits for longer fails.

use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use latchwork_core::{Coordinator, LeaseState};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::timeout;

use crate::bounds::{CLEAN_UP, LATE, PATIENCE};

/// Awaits `future` for at most `bound`.
pub(crate) async fn within<F: Future>(bound: Duration, what: &str, future: F) -> F::Output {
    match timeout(bound, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not happen within {bound:?}"),
    }
}

/// Awaits a future that must complete, with the usual bound.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    within(PATIENCE, what, future).await
}

/// Runs tasks that report each of their holds. Each report has a bound. All of them together have no bound,
/// because a slow machine takes longer.
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

/// Polls `future` this many times, each time after a wake-up, and then drops it. Returns `None` if it was not complete by then.
/// With it, a case visits the await points one by one.
pub(crate) async fn after_polls<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    stepping(polls, false, future).await
}

/// Does the same as [`after_polls`], but drops the future after one more wake-up without a poll, so that the cause of the
/// wake-up is lost with it.
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

/// Polls until a condition holds that has no event.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, holds: impl FnMut() -> F) {
    until_within(CLEAN_UP, what, holds).await;
}

/// As [`until`], for at most `bound`.
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

/// A client's lease is live, or soon again: a busy machine may have had it
/// suspended.
pub(crate) async fn is_live(coordinator: &Coordinator) {
    lease_state(coordinator, LATE, |state| state == LeaseState::Live).await;
}

/// Waits until a client's lease is in a state for which `is` holds, at most for `bound`.
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
