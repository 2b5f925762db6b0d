use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use latchwork_core::backend::{Backoff, Pauses, or_pending};
use latchwork_core::{Clock, Error, ErrorKind};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::own_node::OwnNode;
use super::watches::{Command, Watches};
use crate::driver::{Driver, EndReason, Op, StreamEvent, Watch, WatchEvents, WatchRequests};
use crate::error::Answer;

pub(crate) async fn run(
    driver: Driver,
    watches: Arc<Watches>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    clock: Clock,
) {
    let mut stream: Option<WatchStream> = None;
    let mut to_start: VecDeque<i64> = VecDeque::new();
    let mut logged_in = false;
    let mut backoff = Backoff::new(Pauses::OUTAGE);
    loop {
        while let Some(id) = to_start.pop_front() {
            let Some(watch) = watches.armed(id) else { continue };
            match &mut stream {
                Some(stream) => stream.start(watch),
                None => match WatchStream::open(&driver, watch).await {
                    Ok(opened) => stream = Some(opened),
                    Err(failure) => {
                        tracing::debug!(
                            ?failure,
                            "could not open a stream of watches; the client tries again"
                        );
                        (to_start, logged_in) = (watches.stream_ended(), false);
                        backoff.wait(&clock).await;
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
            event = or_pending(stream.as_mut().map(WatchStream::next)) => match event {
                Some(event) => {
                    let refused = watches.refused(&event);
                    if let Some(node) = watches.apply(event) {
                        tokio::spawn(look_for(driver.clone(), Arc::clone(&watches), node));
                    }
                    match refused {
                        // It continued with the new login, so the watch itself is forbidden.
                        Some(id) if logged_in && !watches.is_to_start(id) => {}
                        // A stream keeps its login, which etcd may have dropped.
                        Some(_) => {
                            stream = None;
                            to_start = watches.stream_ended();
                            logged_in = log_in_anew(&driver, &watches, &to_start).await;
                            backoff.wait(&clock).await;
                        }
                        None => backoff.reset(),
                    }
                }
                None => {
                    stream = None;
                    (to_start, logged_in) = (watches.stream_ended(), false);
                    backoff.wait(&clock).await;
                }
            },
            () = or_pending(watches.next_timer().map(|due| sleep_until(due.into()))) => watches.on_timer(Instant::now()),
        }
    }
}

struct WatchStream {
    requests: WatchRequests,
    events: WatchEvents,
    // The starts without an answer. Answers come in the same order.
    asked: VecDeque<i64>,
}

impl WatchStream {
    async fn open(driver: &Driver, first: Watch) -> Answer<Self> {
        let asked = VecDeque::from([first.id]);
        let (requests, events) = driver.watch(first).await?;
        Ok(Self { requests, events, asked })
    }

    fn start(&mut self, watch: Watch) {
        self.asked.push_back(watch.id);
        self.requests.start(watch);
    }

    async fn next(&mut self) -> Option<StreamEvent> {
        let event = self.events.next().await?;
        Some(match event {
            StreamEvent::Refused(why) => {
                StreamEvent::Ended { id: self.asked.pop_front()?, why: EndReason::Refused(why) }
            }
            StreamEvent::Created { .. } => {
                self.asked.pop_front();
                event
            }
            _ => event,
        })
    }
}

/// A read logs in again after an expired login. A stream does not. Returns whether the server has checked the
/// login.
async fn log_in_anew(driver: &Driver, watches: &Watches, armed: &VecDeque<i64>) -> bool {
    // Without a watch, the waiters list, and so log in.
    let Some(watch) = armed.front().and_then(|&id| watches.armed(id)) else { return false };
    match driver.read(vec![Op::Get(watch.key.to_vec())]).await.map_err(Error::from) {
        Ok(_) => true,
        Err(error) => {
            tracing::debug!(%error, "the key of a refused watch cannot be read");
            error.kind() == ErrorKind::Forbidden
        }
    }
}

/// Called when the server ended the watch: its start was compacted, or the key is forbidden.
async fn look_for(driver: Driver, watches: Arc<Watches>, node: Arc<OwnNode>) {
    let lease = node.state.lease();
    let mut backoff = Backoff::new(Pauses::of_watch(lease.ttl()));
    while watches.is_own(&node) && node.state.lost().is_none() {
        match driver.read(vec![Op::Get(node.key.to_vec())]).await {
            Ok(outcome) => {
                if outcome.reads.first().is_some_and(|read| node.is_in(read)) {
                    watches.watch_own_from(&node, outcome.revision);
                } else {
                    let why = driver.why_gone(&node.key, node.state.sequence()).await;
                    watches.removed(&node, why);
                }
                return;
            }
            Err(_) => backoff.wait(lease.clock()).await,
        }
    }
    watches.forget(&node);
}
