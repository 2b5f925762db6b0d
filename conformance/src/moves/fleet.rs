use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use latchwork_core::Config;
use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::timeout;

use super::heard::Heard;
use super::keys::KEYS;
use super::traffic::{Traffic, TrafficEvent};
use super::worker::{Latest, Worker};
use crate::child::{Child, Order, command};
use crate::failover::now;

pub(super) const PROCESSES: usize = 8;
/// The planted fault of each second process, as a control.
pub const PLANT: &str = "LATCHWORK_MOVES_PLANT";
/// For eight processes of a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Fleet {
    config: Config,
    plant: Option<&'static str>,
    workers: Vec<Worker>,
    stopped: Option<(Worker, u64)>,
    started: u32,
    killed: Vec<Heard>,
    latest: watch::Sender<Latest>,
}

impl Fleet {
    /// Returns when all contend. `plant` is for [`PLANT`].
    pub(super) async fn start(config: Config, plant: Option<&'static str>) -> Self {
        let latest = watch::Sender::new(Latest::default());
        let (workers, killed) = (Vec::new(), Vec::new());
        let mut fleet = Self { config, plant, workers, stopped: None, started: 0, killed, latest };
        fleet.grow().await;
        fleet
    }

    async fn grow(&mut self) {
        let missing = PROCESSES - self.workers.len() - usize::from(self.stopped.is_some());
        let children: Vec<_> = (0..missing).map(|_| self.spawn()).collect();
        let begin = children.into_iter().map(|child| Worker::of(child, self.latest.clone(), PATIENCE));
        let begun = join_all(begin).await;
        self.workers.extend(begun);
    }

    fn spawn(&mut self) -> Child<TrafficEvent> {
        let number = self.started;
        self.started += 1;
        let mut command =
            command(&self.config, None, &Traffic { process: number, adds: self.plant.is_none() });
        // Processes with the same fault would agree.
        if let Some(plant) = self.plant.filter(|_| number.is_multiple_of(2)) {
            command.env(PLANT, plant);
        }
        Child::of(command)
    }

    pub(super) async fn replace(&mut self, many: usize) {
        let dying: Vec<_> = self.workers.drain(..many.min(self.workers.len())).collect();
        let dead = join_all(dying.into_iter().map(async |mut worker| {
            worker.process.kill().await;
            worker.heard().await
        }));
        self.killed.extend(dead.await);
        // The oldest processes are killed first.
        self.grow().await;
    }

    /// It must [continue](Self::cont) before a kill.
    pub(super) fn stop(&mut self) {
        let (worker, at) = (self.workers.remove(0), now());
        worker.process.signal(Signal::STOP);
        self.stopped = Some((worker, at));
    }

    /// Returns the time of its stop.
    pub(super) async fn cont(&mut self, within: Duration) -> Result<u64, String> {
        let (mut worker, at) = self.stopped.take().ok_or("no process was stopped")?;
        worker.cont(at, within).await?;
        self.workers.push(worker);
        Ok(at)
    }

    pub(super) async fn all_are_granted(&self, within: Duration) -> Result<(), String> {
        let since = now();
        let mut latest = self.latest.subscribe();
        let granted = latest.wait_for(|latest| latest.iter().all(|granted| *granted > since));
        if let Ok(granted) = timeout(within, granted).await {
            return granted.map(drop).map_err(|_| "the processes have ended".to_owned());
        }
        let latest = *self.latest.borrow();
        let keys = KEYS.iter().zip(latest).filter(|(_, granted)| *granted <= since);
        let late: Vec<_> = keys.map(|((name, _), _)| *name).collect();
        Err(format!("not granted within {within:?}: {late:?}"))
    }

    pub(super) async fn each_goes_on(&self, within: Duration) -> Result<(), String> {
        try_join_all(self.workers.iter().map(|worker| worker.goes_on(within))).await.map(drop)
    }

    pub(super) async fn ends(mut self) -> Heard {
        for worker in &mut self.workers {
            worker.process.tell(Order::Release).await;
        }
        let mut heard = Heard::default();
        // One add of each may be in progress.
        heard.adds.in_doubt += self.killed.len();
        for mut worker in self.workers {
            worker.process.ends_well(PATIENCE).await;
            self.killed.push(worker.heard().await);
        }
        for of_one in self.killed {
            heard.add(of_one);
        }
        heard
    }
}
