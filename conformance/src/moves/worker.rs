//! One process of a load.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::grant::Grant;
use super::heard::{Begun, Heard};
use super::keys::{KEYS, OWN};
use crate::failover::now;
use crate::order::Event;

/// When each key was granted last.
pub(super) type Latest = [u64; KEYS.len()];

/// A process that contends for all keys.
pub(super) struct Worker {
    child: Child,
    orders: ChildStdin,
    says: Says,
    // When it was granted last what it has for itself.
    own: watch::Receiver<u64>,
}

/// What a process says, to its end.
pub(super) struct Says {
    hears: JoinHandle<Result<Heard, String>>,
    // When it was stopped.
    stops: Vec<(u64, u64)>,
}

/// Who hears of what a process was granted, and when.
struct Seen {
    // Each key, by any process.
    of_all: watch::Sender<Latest>,
    // What it has for itself.
    own: watch::Sender<u64>,
}

impl Worker {
    /// Starts it. Answers also what comes when it contends. `latest`: hears of its grants.
    pub(super) fn start(
        mut command: Command,
        latest: watch::Sender<Latest>,
    ) -> Result<(Self, oneshot::Receiver<()>), String> {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("the own executable does not run: {error}"))?;
        let orders = child.stdin.take().expect("piped");
        let out = child.stdout.take().expect("piped");
        let ((begins, begun), (granted, own)) = (oneshot::channel(), watch::channel(0));
        let hears = tokio::spawn(hear(out, Seen { of_all: latest, own: granted }, begins));
        Ok((Self { child, orders, says: Says { hears, stops: Vec::new() }, own }, begun))
    }

    /// Waits until it has been granted from now on what it has for itself, for so long at most.
    pub(super) async fn goes_on(&self, within: Duration) -> Result<(), String> {
        let (since, mut own) = (now(), self.own.clone());
        let granted = timeout(within, own.wait_for(|granted| *granted > since)).await;
        let granted = granted.map_err(|_| format!("a process is granted nothing within {within:?}"))?;
        granted.map(drop).map_err(|_| "a process has ended by itself".to_owned())
    }

    /// SIGSTOP. Answers when.
    pub(super) fn stop(&self) -> Result<u64, String> {
        let at = now();
        self.signal(Signal::STOP).map(|()| at)
    }

    /// SIGCONT, to one that was stopped at this time: it goes on within so long.
    pub(super) async fn cont(&mut self, stopped: u64, within: Duration) -> Result<(), String> {
        self.signal(Signal::CONT)?;
        let goes_on = self.goes_on(within).await;
        self.says.stops.push((stopped, now()));
        goes_on
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.ok_or("a process has ended by itself")?;
        kill_process(pid, signal).map_err(|error| format!("not signalled: {error}"))
    }

    /// SIGKILL.
    pub(super) async fn kill(mut self) -> Result<Says, String> {
        let killed = self.child.kill().await;
        killed.map(|()| self.says).map_err(|error| format!("not killed: {error}"))
    }

    /// Tells it to end.
    pub(super) async fn release(&mut self) -> Result<(), String> {
        let told = self.orders.write_all(b"release\n").await;
        told.map_err(|error| format!("a process has ended by itself: {error}"))
    }

    /// Waits for its end, for so long at most.
    pub(super) async fn ends(mut self, within: Duration) -> Result<Says, String> {
        let ended = timeout(within, self.child.wait()).await;
        let status = ended.map_err(|_| format!("a process does not end within {within:?}"))?;
        let status = status.map_err(|error| error.to_string())?;
        if status.success() { Ok(self.says) } else { Err(format!("a process has failed: {status}")) }
    }
}

impl Says {
    /// All that it has said. What it took while it was stopped to get what nobody else wants is left out: that
    /// says nothing of a change of phase.
    pub(super) async fn heard(self) -> Result<Heard, String> {
        let mut heard = self.hears.await.expect("no panic")?;
        heard.grants.retain(|grant| {
            let apart = |(from, to): &(u64, u64)| grant.held.from < *from || *to < grant.asked;
            grant.held.key != OWN || self.stops.iter().all(apart)
        });
        Ok(heard)
    }
}

impl Seen {
    fn sees(&self, Grant { held, .. }: Grant) {
        if held.key == OWN {
            self.own.send_replace(held.from);
            return;
        }
        self.of_all.send_modify(|latest| latest[held.key] = held.from.max(latest[held.key]));
    }
}

/// Reads what a process says, to its end.
async fn hear(out: ChildStdout, seen: Seen, begins: oneshot::Sender<()>) -> Result<Heard, String> {
    let (mut lines, mut heard, mut begun) = (BufReader::new(out).lines(), Heard::default(), Begun::default());
    let mut begins = Some(begins);
    while let Some(line) = lines.next_line().await.map_err(|error| error.to_string())? {
        match serde_json::from_str(&line) {
            Ok(event) => {
                if event == Event::Begun {
                    // Nobody need be waiting any more.
                    let _ = begins.take().map(|begins| begins.send(()));
                }
                if let Some(grant) = heard.take(event, &mut begun)? {
                    seen.sees(grant);
                }
            }
            // Of one that is killed, the last line may be cut off.
            Err(error) => match lines.next_line().await.map_err(|error| error.to_string())? {
                None => break,
                Some(_) => return Err(format!("{line:?} is no event: {error}")),
            },
        }
    }
    heard.ends(begun);
    Ok(heard)
}
