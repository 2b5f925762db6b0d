//! One worker: the program that uses the library.

use std::future::Future;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use latchwork::{Config, Coordinator, Result};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::event::{Event, WORKERS, What};

pub(crate) const TURNS: u32 = 3;
pub(crate) const VICTIM: usize = 2;
/// The victim hangs in this turn, holding, until it is killed.
pub(crate) const FATAL_TURN: u32 = 2;
/// A dead worker's lock is soon free.
pub(crate) const TTL: Duration = Duration::from_secs(4);
const WORK: Duration = Duration::from_millis(60);

pub(crate) async fn work(coordinator: &Coordinator, plan: &Plan, tell: impl Fn(What)) -> Result<()> {
    let lock = coordinator.mutex(&plan.key)?;
    for turn in 1..=TURNS {
        tell(What::Waits);
        let hold = lock.acquire().await?;
        let waited_us = hold.waited().as_micros().try_into().unwrap_or(u64::MAX);
        tell(What::Holds { turn, token: hold.token(), waited_us });
        // A loss of the hold drops the work.
        hold.run(one_turn(plan.worker, turn)).await?;
        tell(What::Releases);
        if let Err(error) = hold.release().await {
            tell(What::Fails { error: error.to_string() });
        }
    }
    coordinator.close().await
}

async fn one_turn(worker: usize, turn: u32) {
    if worker == VICTIM && turn == FATAL_TURN {
        // The library renews the lease, so only the death ends the hold.
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(WORK).await;
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) worker: usize,
    pub(crate) url: String,
    pub(crate) tick: Option<Duration>,
    pub(crate) key: String,
}

impl Plan {
    /// A variable, because a URL may contain a password.
    pub(crate) const VARIABLE: &str = "LATCHWORK_QUICKSTART_WORKER";

    pub(crate) fn of_this_process() -> Option<Plan> {
        let plan = std::env::var(Self::VARIABLE).ok()?;
        Some(serde_json::from_str(&plan).expect("only the quickstart itself sets this variable"))
    }

    /// Lease and label replace the values of the URL.
    pub(crate) async fn connect(&self) -> Result<Coordinator> {
        let mut config = Config::from_url(&self.url)?;
        config.ttl = TTL;
        config.label = Some(WORKERS[self.worker].to_owned());
        if let Some(tick) = self.tick {
            config.options.set_duration("tick", tick);
        }
        latchwork::connect(config).await
    }

    pub(crate) async fn carry_out(
        &self,
        coordinator: &Coordinator,
        start: impl Future<Output = ()>,
        tell: impl Fn(What),
    ) -> bool {
        let ttl_ms = coordinator.lease().ttl().as_millis().try_into().unwrap_or(u64::MAX);
        tell(What::Ready { ttl_ms });
        start.await;
        let end = match work(coordinator, self, &tell).await {
            Ok(()) => What::Leaves,
            Err(error) => What::Fails { error: error.to_string() },
        };
        let well = matches!(end, What::Leaves);
        tell(end);
        well
    }
}

pub(crate) async fn main(plan: Plan) -> ExitCode {
    let tell = |what| {
        // The parent does not read any more.
        if say(&Event::now(plan.worker, what)).is_err() {
            std::process::exit(1);
        }
    };
    let start = signal_to_start();
    let coordinator = match plan.connect().await {
        Ok(coordinator) => coordinator,
        Err(error) => {
            tell(What::Fails { error: error.to_string() });
            return ExitCode::FAILURE;
        }
    };
    let start = async {
        // Otherwise that thread has ended the process.
        start.await.expect("the reader of standard input lives as long as the process");
    };
    if plan.carry_out(&coordinator, start, tell).await { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// In one write: the workers share the pipe, and their lines must not mix.
fn say(event: &Event) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// The first line of standard input. Its end means that the parent has ended, and then this process ends too.
fn signal_to_start() -> oneshot::Receiver<()> {
    let (tell, started) = oneshot::channel();
    let mut tell = Some(tell);
    std::thread::spawn(move || {
        for _ in io::stdin().lock().lines().map_while(io::Result::ok) {
            if let Some(tell) = tell.take() {
                // The receiver is dropped if the connect has failed.
                let _ = tell.send(());
            }
        }
        std::process::exit(1);
    });
    started
}
