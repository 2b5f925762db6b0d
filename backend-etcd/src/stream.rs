//! The task that owns the stream of watches: opens it, opens it anew, and passes on what the server says.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use latchwork_core::LostReason;
use tokio::sync::mpsc;

use crate::backoff::Backoff;
use crate::driver::{Driver, WatchEvents, WatchRequests};
use crate::terms::{Notice, Step};
use crate::watch::{Command, Own, Watches};

/// Runs until it is aborted, or the client's [`Watches`] are dropped.
pub(crate) async fn run(
    driver: Driver,
    watches: Arc<Watches>,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let mut stream: Option<(WatchRequests, WatchEvents)> = None;
    let mut to_start: VecDeque<i64> = VecDeque::new();
    let mut backoff = Backoff::new();
    loop {
        while let Some(id) = to_start.pop_front() {
            let Some(watch) = watches.armed(id) else { continue };
            match &stream {
                Some((requests, _)) => requests.start(watch),
                None => match driver.watch(watch).await {
                    Ok(opened) => stream = Some(opened),
                    Err(failure) => {
                        tracing::debug!(?failure, "no stream of watches");
                        to_start = watches.stream_ended();
                        backoff.pause().await;
                    }
                },
            }
        }
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Start(id)) if watches.is_to_start(id) => to_start.push_back(id),
                Some(Command::Stop(id)) => {
                    if let Some((requests, _)) = &stream {
                        requests.stop(id);
                    }
                }
                Some(Command::Start(_) | Command::Timer) => {}
                None => return,
            },
            notice = next(&mut stream) => match notice {
                Some(notice) => {
                    let refused = watches.refused(&notice);
                    if let Some(node) = watches.apply(notice) {
                        tokio::spawn(look_for(driver.clone(), Arc::clone(&watches), node));
                    }
                    if refused {
                        stream = None;
                        to_start = watches.stream_ended();
                        log_in_anew(&driver, &watches, &to_start).await;
                        backoff.pause().await;
                    } else {
                        backoff.reset();
                    }
                }
                None => {
                    stream = None;
                    to_start = watches.stream_ended();
                    backoff.pause().await;
                }
            },
            () = sleep_until(watches.next_timer()) => watches.on_timer(Instant::now()),
        }
    }
}

async fn next(stream: &mut Option<(WatchRequests, WatchEvents)>) -> Option<Notice> {
    match stream {
        Some((_, events)) => events.next().await,
        None => pending().await,
    }
}

/// A read with a log-in that ran out makes the client crate log in anew; a stream does not.
async fn log_in_anew(driver: &Driver, watches: &Watches, armed: &VecDeque<i64>) {
    // Where nothing is left to be watched, those who wait list again, and log in by that.
    let Some(watch) = armed.front().and_then(|&id| watches.armed(id)) else { return };
    if let Err(failure) = driver.read(vec![Step::Get(watch.key.to_vec())]).await {
        tracing::debug!(?failure, "a refused stream of watches could not log in anew yet");
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => pending().await,
    }
}

/// The server ended the watch of an own node (its start was compacted away): looks whether the node is still there.
async fn look_for(driver: Driver, watches: Arc<Watches>, node: Arc<Own>) {
    let mut backoff = Backoff::new();
    while watches.is_own(&node) && node.state.lost().is_none() {
        match driver.read(vec![Step::Get(node.key.to_vec())]).await {
            Ok(outcome) => {
                let created =
                    outcome.reads.first().and_then(|read| read.entries.first()).map(|entry| entry.created);
                if created == Some(node.state.sequence()) {
                    watches.watch_own_from(&node, outcome.revision);
                } else {
                    node.state.gone(LostReason::Revoked);
                    break;
                }
                return;
            }
            Err(_) => backoff.pause().await,
        }
    }
    watches.forget(&node);
}
