use std::time::Instant;

use latchwork::{Config, Coordinator, Ended as HoldEnded, ErrorKind};
use tokio::sync::mpsc::UnboundedReceiver;

use super::job::{Held, Job, Patience, Recipe};
use super::signals::{self, Received};
use super::supervisor::{Ending, Supervisor};
use crate::exit::{self, Ended};
use crate::failure::{Failure, Outcome, after_loss, warn};
use crate::settings::Common;

pub(crate) fn run(common: &Common, job: &Job) -> Outcome {
    let config = common.coordinator()?;
    if config.backend == "memory" {
        return Err(Failure::usage(
            "a lock at memory:// exists only in this process, so it excludes no other client",
        )
        .next("give the URL of a server"));
    }
    let failed = |error| Failure::machine("the run cannot begin", error);
    let signals = signals::receive().map_err(failed)?;
    // This thread is the guard's parent as long as this process lives.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(hold(&config, job, signals))
}

type Signals = UnboundedReceiver<Received>;

async fn hold(config: &Config, job: &Job, mut signals: Signals) -> Outcome {
    let begun = Instant::now();
    let mut config = config.clone();
    config.connect_timeout = job.connect_timeout(&config);
    let coordinator = tokio::select! {
        connected = latchwork::connect(&config) => connected?,
        Some(signal) = signals.recv() => return Ok(interrupted(signal)),
    };
    let job = job.clone().connected_after(begun.elapsed());
    let ran = under(&coordinator, &config, &job, &mut signals).await;
    let closed = tokio::select! {
        closed = coordinator.close() => closed,
        // A second signal ends the wait of a `cron` job.
        Some(_) = signals.recv() => coordinator.close_now().await,
    };
    if let Err(error) = closed {
        warn(format_args!("{error}; the server releases the rest within the TTL"));
    }
    ran
}

async fn under(coordinator: &Coordinator, config: &Config, job: &Job, signals: &mut Signals) -> Outcome {
    let held = tokio::select! {
        acquired = job.acquire(coordinator) => acquired?,
        Some(signal) = signals.recv() => return Ok(interrupted(signal)),
    };
    let Some(held) = held else { return taken(job) };
    let ending = Supervisor::new(coordinator, config, job, &held).run(signals).await;
    let lost = match held.hold.lost().ended() {
        Some(HoldEnded::Lost(reason)) => Some(reason),
        _ => None,
    };
    let released = held.hold.release().await;
    let ending = ending?;
    match (lost, ending) {
        (Some(reason), _) => {
            Err(Failure::new(exit::LOST, format!("the hold of {:?} was lost: {reason}", job.key))
                .next(after_loss(reason)))
        }
        (None, Ending { warned: true, .. }) => Err(ended_early(job)),
        (None, Ending { code, .. }) => {
            warn_of(job, &held, released);
            Ok(code)
        }
    }
}

fn ended_early(job: &Job) -> Failure {
    let (why, next) = match job.max_hold {
        Some(_) => (
            "--max-hold was nearly over, or the coordinator did not answer",
            "use a longer --max-hold, or check the coordinator",
        ),
        None => (
            "the coordinator did not answer",
            "check the coordinator and the network, then start the command again",
        ),
    };
    Failure::new(
        exit::LOST,
        format!("the command was ended before the hold of {:?} could be lost: {why}", job.key),
    )
    .next(next)
}

fn warn_of(job: &Job, held: &Held, released: latchwork::Result<()>) {
    match released {
        Ok(()) => {}
        Err(error) => match (error.lost_reason(), error.kind()) {
            (Some(reason), _) => warn(format_args!(
                "the hold of {:?} (sequence {}) was lost before the command ended: {reason}",
                job.key, held.sequence
            )),
            (None, ErrorKind::OutcomeUnknown) => {
                warn(format_args!("{error}; the server releases the lock within the TTL"));
            }
            _ => warn(error),
        },
    }
}

fn taken(job: &Job) -> Outcome {
    match job.recipe {
        // Another host runs the job.
        Recipe::Cron { .. } => Ok(Ended::WELL),
        _ => {
            let next = match job.patience {
                Patience::Try => "`latchwork inspect` shows these clients; remove --try to wait",
                Patience::Wait { .. } => "use a longer --within",
            };
            Err(Failure::new(
                exit::NOT_ACQUIRED,
                format!("{:?} is taken: other clients hold or wait", job.key),
            )
            .next(next))
        }
    }
}

fn interrupted(signal: Received) -> Ended {
    Ended::By(signal.number)
}
