//! The processes of a load, which are killed, stopped and started anew.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use latchwork_core::Config;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::heard::Heard;
use super::keys::KEYS;
use super::traffic::Traffic;
use super::worker::{Latest, Says, Worker};
use crate::adapter::Adapter;
use crate::failover::now;
use crate::order::Order;

/// So many processes contend.
pub(super) const PROCESSES: usize = 8;
/// The environment variable that names a fault which is planted in one of two processes, as a control.
pub const PLANT: &str = "LATCHWORK_MOVES_PLANT";
/// What a busy machine may take to start eight processes, or to end them.
const PATIENCE: Duration = Duration::from_secs(60);

/// Processes that contend for all keys.
pub(super) struct Fleet {
    config: Config,
    plant: Option<&'static str>,
    workers: Vec<Worker>,
    // The one that is stopped, and since when.
    stopped: Option<(Worker, u64)>,
    // How many were started up to now.
    started: u32,
    killed: Vec<Says>,
    latest: watch::Sender<Latest>,
}

impl Fleet {
    /// Starts all of them, and waits until each contends. `plant`: a fault, as [`PLANT`] names it.
    pub(super) async fn start(config: Config, plant: Option<&'static str>) -> Result<Self, String> {
        let latest = watch::Sender::new(Latest::default());
        let (workers, killed) = (Vec::new(), Vec::new());
        let mut fleet = Self { config, plant, workers, stopped: None, started: 0, killed, latest };
        fleet.grow().await?;
        Ok(fleet)
    }

    /// Starts those that are missing.
    async fn grow(&mut self) -> Result<(), String> {
        let mut begins = Vec::new();
        while self.workers.len() + usize::from(self.stopped.is_some()) < PROCESSES {
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
        Worker::start(command, self.latest.clone())
    }

    /// Kills so many of them at once, and starts as many anew.
    pub(super) async fn replace(&mut self, many: usize) -> Result<(), String> {
        let dying: Vec<_> = self.workers.drain(..many.min(self.workers.len())).collect();
        for says in join_all(dying.into_iter().map(Worker::kill)).await {
            self.killed.push(says?);
        }
        // The new ones are the last to be killed.
        self.grow().await
    }

    /// Stops one of them, which is not killed before it [goes on](Self::cont).
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let worker = self.workers.remove(0);
        let at = worker.stop()?;
        self.stopped = Some((worker, at));
        Ok(())
    }

    /// Lets the one that was stopped go on, and waits until it has been granted what it has for itself, for so
    /// long at most. Answers when it was stopped.
    pub(super) async fn cont(&mut self, within: Duration) -> Result<u64, String> {
        let (mut worker, at) = self.stopped.take().ok_or("none was stopped")?;
        worker.cont(at, within).await?;
        self.workers.push(worker);
        Ok(at)
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
            worker.release().await?;
        }
        let mut heard = Heard::default();
        // Each that was killed may have had an add under way.
        heard.adds.in_doubt += self.killed.len();
        let mut says = self.killed;
        for worker in self.workers {
            says.push(worker.ends(PATIENCE).await?);
        }
        for of_one in says {
            heard.add(of_one.heard().await?);
        }
        Ok(heard)
    }
}
