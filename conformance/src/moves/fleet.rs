//! The processes of a load, which are killed and started anew.

use std::process::Stdio;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use latchwork_core::Config;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::grant::Grant;
use super::heard::{Begun, Heard};
use super::keys::{KEYS, OWN};
use super::traffic::Traffic;
use crate::adapter::Adapter;
use crate::failover::now;
use crate::order::{Event, Order};

/// So many processes contend.
pub(super) const PROCESSES: usize = 8;
/// The environment variable that names a fault which is planted in one of two processes, as a control.
pub const PLANT: &str = "LATCHWORK_MOVES_PLANT";
/// What a busy machine may take to start eight processes, or to end them.
const PATIENCE: Duration = Duration::from_secs(60);

/// When each key was granted last.
type Latest = [u64; KEYS.len()];

/// Who hears of what a process was granted, and when.
struct Seen {
    // Each key, by any process.
    of_all: watch::Sender<Latest>,
    // What it has for itself.
    own: watch::Sender<u64>,
}

struct Worker {
    child: Child,
    orders: ChildStdin,
    hears: JoinHandle<Result<Heard, String>>,
    // When it was granted last what it has for itself.
    own: watch::Receiver<u64>,
}

/// Processes that contend for all keys.
pub(super) struct Fleet {
    config: Config,
    plant: Option<&'static str>,
    workers: Vec<Worker>,
    // How many were started up to now.
    started: u32,
    killed: Vec<JoinHandle<Result<Heard, String>>>,
    latest: watch::Sender<Latest>,
}

impl Fleet {
    /// Starts all of them, and waits until each contends. `plant`: a fault, as [`PLANT`] names it.
    pub(super) async fn start(config: Config, plant: Option<&'static str>) -> Result<Self, String> {
        let latest = watch::Sender::new(Latest::default());
        let mut fleet = Self { config, plant, workers: Vec::new(), started: 0, killed: Vec::new(), latest };
        fleet.grow().await?;
        Ok(fleet)
    }

    /// Starts those that are missing.
    async fn grow(&mut self) -> Result<(), String> {
        let mut begins = Vec::new();
        while self.workers.len() < PROCESSES {
            let (worker, begun) = self.spawn()?;
            self.workers.push(worker);
            begins.push(begun);
        }
        let begun = timeout(PATIENCE, try_join_all(begins)).await;
        let begun = begun.map_err(|_| format!("a process does not begin within {PATIENCE:?}"))?;
        begun.map(drop).map_err(|_| "a process has ended before it began".to_owned())
    }

    fn spawn(&mut self) -> Result<(Worker, oneshot::Receiver<()>), String> {
        let number = self.started;
        let traffic = Some(Traffic { process: number, adds: self.plant.is_none() });
        self.started += 1;
        let order = Order { traffic, ..Order::to_hold(&self.config, "", Adapter::Mutex) };
        let mut command = order.command().map_err(|error| error.to_string())?;
        // One in two: all of them would agree.
        if let Some(plant) = self.plant.filter(|_| number.is_multiple_of(2)) {
            command.env(PLANT, plant);
        }
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("the own executable does not run: {error}"))?;
        let orders = child.stdin.take().expect("piped");
        let (begins, begun) = oneshot::channel();
        let out = child.stdout.take().expect("piped");
        let (granted, own) = watch::channel(0);
        let hears = tokio::spawn(hear(out, Seen { of_all: self.latest.clone(), own: granted }, begins));
        Ok((Worker { child, orders, hears, own }, begun))
    }

    /// Kills so many of them at once, and starts as many anew.
    pub(super) async fn replace(&mut self, many: usize) -> Result<(), String> {
        let dying: Vec<_> = self.workers.drain(..many.min(PROCESSES)).collect();
        let killed = join_all(dying.into_iter().map(async |mut worker| {
            let killed = worker.child.kill().await;
            killed.map(|()| worker.hears).map_err(|error| format!("not killed: {error}"))
        }));
        for hears in killed.await {
            self.killed.push(hears?);
        }
        // The new ones are the last to be killed.
        self.grow().await
    }

    /// Waits until each key has been granted from now on, for so long at most.
    pub(super) async fn all_are_granted(&self, within: Duration) -> Result<(), String> {
        let since = now();
        let mut latest = self.latest.subscribe();
        let granted = latest.wait_for(|latest| latest.iter().all(|granted| *granted > since));
        if let Ok(granted) = timeout(within, granted).await {
            return granted.map(drop).map_err(|_| "the fleet is gone".to_owned());
        }
        let latest = *self.latest.borrow();
        let keys = KEYS.iter().zip(latest).filter(|(_, granted)| *granted <= since);
        let late: Vec<_> = keys.map(|((name, _), _)| *name).collect();
        Err(format!("not granted within {within:?}: {late:?}"))
    }

    /// Waits until each process has been granted from now on what it has for itself, for so long at most.
    pub(super) async fn each_goes_on(&self, within: Duration) -> Result<(), String> {
        try_join_all(self.workers.iter().map(|worker| worker.goes_on(within))).await.map(drop)
    }

    /// Lets all of them end, and answers what they and those that were killed have said.
    pub(super) async fn ends(mut self) -> Result<Heard, String> {
        for worker in &mut self.workers {
            let told = worker.orders.write_all(b"release\n").await;
            told.map_err(|error| format!("a process has ended by itself: {error}"))?;
        }
        let mut heard = Heard::default();
        // Each that was killed may have had an add under way.
        heard.adds.in_doubt += self.killed.len();
        let mut hears = self.killed;
        for Worker { mut child, orders, hears: of_worker, .. } in self.workers {
            let ended = timeout(PATIENCE, child.wait()).await;
            let status = ended.map_err(|_| format!("a process does not end within {PATIENCE:?}"))?;
            let status = status.map_err(|error| error.to_string())?;
            drop(orders);
            if !status.success() {
                return Err(format!("a process has failed: {status}"));
            }
            hears.push(of_worker);
        }
        for of_one in hears {
            heard.add(of_one.await.expect("no panic")?);
        }
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

impl Worker {
    /// Waits until it has been granted from now on what it has for itself, for so long at most.
    async fn goes_on(&self, within: Duration) -> Result<(), String> {
        let (since, mut own) = (now(), self.own.clone());
        let granted = timeout(within, own.wait_for(|granted| *granted > since)).await;
        let granted = granted.map_err(|_| format!("a process is granted nothing within {within:?}"))?;
        granted.map(drop).map_err(|_| "a process has ended by itself".to_owned())
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
