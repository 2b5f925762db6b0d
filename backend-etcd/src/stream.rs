//! The task that owns the stream of watches: opens it, opens it anew, and passes on what the server says.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use latchwork_core::{Error, ErrorKind};
use tokio::sync::mpsc;

use crate::backoff::Backoff;
use crate::driver::{Driver, WatchEvents, WatchRequests};
use crate::error::Answer;
use crate::terms::{Ended, Notice, Step, Watch};
use crate::watch::{Command, Own, Watches};

/// How long an own node is not looked for at most, where it can be neither watched nor read: there may be thousands.
const SELDOM: Duration = Duration::from_secs(10);

/// Runs until it is aborted, or the client's [`Watches`] are dropped.
pub(crate) async fn run(
    driver: Driver,
    watches: Arc<Watches>,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let mut stream: Option<Stream> = None;
    let mut to_start: VecDeque<i64> = VecDeque::new();
    // The stream began with a log-in that is new.
    let mut logged_in = false;
    let mut backoff = Backoff::new();
    loop {
        while let Some(id) = to_start.pop_front() {
            let Some(watch) = watches.armed(id) else { continue };
            match &mut stream {
                Some(stream) => stream.start(watch),
                None => match Stream::open(&driver, watch).await {
                    Ok(opened) => stream = Some(opened),
                    Err(failure) => {
                        tracing::debug!(?failure, "no stream of watches");
                        (to_start, logged_in) = (watches.stream_ended(), false);
                        backoff.pause().await;
                    }
                },
            }
        }
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Start(id)) if watches.is_to_start(id) => to_start.push_back(id),
                Some(Command::Stop(id)) => {
                    if let Some(stream) = &stream {
                        stream.requests.stop(id);
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
                    match refused {
                        // One that went on with the new log-in is forbidden itself.
                        Some(id) if logged_in && !watches.is_to_start(id) => {}
                        // It may be the stream's fault, which keeps the log-in that it was opened with, and on etcd those run out.
                        Some(_) => {
                            stream = None;
                            to_start = watches.stream_ended();
                            logged_in = log_in_anew(&driver, &watches, &to_start).await;
                            backoff.pause().await;
                        }
                        None => backoff.reset(),
                    }
                }
                None => {
                    stream = None;
                    (to_start, logged_in) = (watches.stream_ended(), false);
                    backoff.pause().await;
                }
            },
            () = sleep_until(watches.next_timer()) => watches.on_timer(Instant::now()),
        }
    }
}

/// A stream of watches that is open.
struct Stream {
    requests: WatchRequests,
    events: WatchEvents,
    // Those that it was asked for, without an answer yet. Answers come in the same order.
    asked: VecDeque<i64>,
}

impl Stream {
    async fn open(driver: &Driver, first: Watch) -> Answer<Self> {
        let asked = VecDeque::from([first.id]);
        let (requests, events) = driver.watch(first).await?;
        Ok(Self { requests, events, asked })
    }

    fn start(&mut self, watch: Watch) {
        self.asked.push_back(watch.id);
        self.requests.start(watch);
    }

    async fn next(&mut self) -> Option<Notice> {
        let notice = self.events.next().await?;
        Some(match notice {
            Notice::Refused(why) => Notice::Ended { id: self.asked.pop_front()?, why: Ended::Refused(why) },
            Notice::Created { .. } => {
                self.asked.pop_front();
                notice
            }
            _ => notice,
        })
    }
}

async fn next(stream: &mut Option<Stream>) -> Option<Notice> {
    match stream {
        Some(stream) => stream.next().await,
        None => pending().await,
    }
}

/// A read with a log-in that ran out makes the client crate log in anew; a stream does not. Answers whether the server
/// has looked at the log-in.
async fn log_in_anew(driver: &Driver, watches: &Watches, armed: &VecDeque<i64>) -> bool {
    // Where nothing is left to be watched, those who wait list again, and log in by that.
    let Some(watch) = armed.front().and_then(|&id| watches.armed(id)) else { return false };
    match driver.read(vec![Step::Get(watch.key.to_vec())]).await.map_err(Error::from) {
        Ok(_) => true,
        Err(error) => {
            tracing::debug!(%error, "what a refused stream of watches is for cannot be read");
            matches!(error.kind(), ErrorKind::Forbidden { .. })
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => pending().await,
    }
}

/// The server ended the watch of an own node (its start was compacted away, or it is forbidden): looks whether the node is still
/// there.
async fn look_for(driver: Driver, watches: Arc<Watches>, node: Arc<Own>) {
    let mut backoff = Backoff::up_to(SELDOM.min(node.state.lease().ttl() / 2));
    while watches.is_own(&node) && node.state.lost().is_none() {
        match driver.read(vec![Step::Get(node.key.to_vec())]).await {
            Ok(outcome) => {
                if outcome.reads.first().is_some_and(|read| node.is_in(read)) {
                    watches.watch_own_from(&node, outcome.revision);
                } else {
                    let why = driver.why_gone(&node.key, node.state.sequence()).await;
                    watches.removed(&node, why);
                }
                return;
            }
            Err(_) => backoff.pause().await,
        }
    }
    watches.forget(&node);
}
