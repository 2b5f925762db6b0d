mod plan;
mod progress;
mod sides;
mod status;

use std::time::Duration;

use clap::{Args, Subcommand};
use latchwork::operator::{Move, MoveState, MoveStatus};
use latchwork::{Error, ErrorKind, MoveConfig};
use serde::Serialize;

use self::sides::Sides;
use crate::exit::{self, Ended};
use crate::failure::{Failure, Outcome, warn};
use crate::settings::Common;
use crate::terminal::{Printing, interrupts, print, print_until};

#[derive(Debug, Args)]
pub(crate) struct MigrateOrder {
    #[command(subcommand)]
    step: Step,
    #[command(flatten)]
    sides: Sides,
    /// Prints JSON; progress as one line for each step
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Step {
    /// Lists participants, clients that were not redeployed, locks in use and obstacles; changes nothing
    Plan,
    /// Makes the whole move, or the rest of it: old, both, new, done
    Run,
    /// Begins the move: from old to both
    Start,
    /// Takes the next step after all members have acknowledged the previous one
    Advance,
    /// Shows the phase of the move, and the members that the next step waits for
    Status {
        /// Shows each change until Ctrl-C
        #[arg(long, short)]
        watch: bool,
        /// The interval between two reads with --watch
        #[arg(long, value_name = "TIME", value_parser = crate::hold::order::time, default_value = "1s",
            requires = "watch")]
        every: Duration,
    },
    /// Restores the part of a move that a server has lost, and lists plain clients that connected since
    Repair,
    /// Takes the move back to the old side, step by step; not possible in phase done
    Abort,
    /// Reopens the new side, if an earlier move in the other direction has retired it
    Reopen,
    /// Retires the old side, after all services use only the new URL
    Finish,
}

impl MigrateOrder {
    pub(crate) fn run(&self, common: &Common) -> Outcome {
        let config = self.sides.config(common)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::machine("the run cannot begin", error))?;
        let ended = runtime.block_on(async {
            let of = self.operator(&config).await.map_err(failed)?;
            let ended = self.work(&of).await;
            match of.close().await {
                Err(error) if ended.is_ok() => {
                    warn(format!("the operator's connection was not closed and ends with its lease: {error}"))
                }
                _ => {}
            }
            ended
        });
        // Does not wait for a printing thread with a stalled reader.
        runtime.shutdown_background();
        ended
    }

    async fn operator(&self, config: &MoveConfig) -> latchwork::Result<Move> {
        let lazily = |side: &latchwork::Config| latchwork::connect_lazy(side.clone().as_operator());
        match self.step {
            // A side may not answer.
            Step::Status { .. } => Move::over(lazily(&config.from)?, lazily(&config.to)?, config),
            _ => Move::connect(&latchwork::connectors(), config).await,
        }
    }

    async fn work(&self, of: &Move) -> Outcome {
        match self.step {
            Step::Plan => {
                let plan = of.plan().await.map_err(failed)?;
                self.show(&plan, plan::table)?;
                Ok(if plan.blockers.is_empty() { Ended::WELL } else { Ended::With(exit::NOT_ACQUIRED) })
            }
            Step::Status { watch: false, .. } => {
                let status = of.status().await.map_err(failed)?;
                self.show(&status, status::text)?;
                let is_other = status.state == MoveState::Elsewhere;
                Ok(if is_other { Ended::With(exit::NOT_ACQUIRED) } else { Ended::WELL })
            }
            Step::Status { watch: true, every } => self.watch(of, every).await,
            Step::Repair => {
                for side in of.repair().await.map_err(failed)? {
                    warn(format!(
                        "the {} side had lost a part of the move, which is restored",
                        side.as_str()
                    ));
                }
                self.end(of).await
            }
            Step::Reopen => {
                warn(match of.reopen().await.map_err(failed)? {
                    true => {
                        "the new side was retired, and is in use again: until the move begins, clients that have only its URL \
                         can connect there"
                    }
                    false => "the new side is not retired: nothing was changed",
                });
                Ok(Ended::WELL)
            }
            Step::Finish => {
                of.finish().await.map_err(failed)?;
                self.end(of).await
            }
            Step::Run | Step::Start | Step::Advance | Step::Abort => self.walk(of).await,
        }
    }

    async fn walk(&self, of: &Move) -> Outcome {
        let mut interrupts = interrupts()?;
        // In a separate thread, so that a stalled reader delays no client of the move, and no Ctrl-C.
        let printing = Printing::new();
        let report = |progress: &latchwork::operator::MoveProgress<'_>| {
            printing.print(progress::line(progress, self.json))
        };
        let steps = async {
            match self.step {
                Step::Run => of.run(report).await,
                Step::Start => of.start(report).await.map(drop),
                Step::Abort => of.abort(report).await,
                _ => of.advance(report).await.map(drop),
            }
        };
        let walked = tokio::select! {
            walked = steps => walked.map_err(|error| match (self.step, error.kind()) {
                // A plan shows only the way forward.
                (Step::Abort, ErrorKind::Conflict) => Failure::new(exit::NOT_ACQUIRED, error.to_string()),
                _ => failed(error),
            }),
            _ = interrupts.recv() => {
                warn(
                    "stopped, and nothing is lost: the move stays in its phase. `latchwork migrate run` continues it \
                     from any machine, `migrate abort` takes it back, and `migrate status` shows it. If values \
                     were being copied, requests for them wait until you call `run` or `abort`",
                );
                return Ok(Ended::By(signal_hook::consts::SIGINT));
            }
        };
        let ended = async {
            walked?;
            let status = of.status().await.map_err(failed)?;
            printing.print(self.line(&status)?);
            Ok(Ended::WELL)
        };
        let ended = ended.await;
        let printed = printing.ended(&mut interrupts).await;
        ended.and_then(|well| printed.map(|_| well))
    }

    async fn end(&self, of: &Move) -> Outcome {
        let status = of.status().await.map_err(failed)?;
        print(self.line(&status)?)?;
        Ok(Ended::WELL)
    }

    async fn watch(&self, of: &Move, every: Duration) -> Outcome {
        let mut interrupts = interrupts()?;
        let mut shown = None;
        loop {
            let read = tokio::select! {
                _ = interrupts.recv() => return Ok(Ended::WELL),
                status = of.status() => status,
            };
            match read {
                Ok(status) if shown.as_ref() != Some(&status) => {
                    let text = self.line(&status)?;
                    if !print_until(&mut interrupts, || print(text)).await? {
                        return Ok(Ended::WELL);
                    }
                    shown = Some(status);
                }
                Ok(_) => {}
                Err(error) if error.may_pass() => warn(&error),
                Err(error) => return Err(failed(error)),
            }
            tokio::select! {
                _ = interrupts.recv() => return Ok(Ended::WELL),
                () = tokio::time::sleep(every) => {}
            }
        }
    }

    fn show<T: Serialize>(&self, what: &T, text: impl Fn(&T) -> String) -> Result<(), Failure> {
        let text = match self.json {
            true => serde_json::to_string_pretty(what).map_err(no_json)? + "\n",
            false => text(what),
        };
        print(text).map(drop)
    }

    /// JSON in one line.
    fn line(&self, status: &MoveStatus) -> Result<String, Failure> {
        match self.json {
            true => serde_json::to_string(status).map(|json| json + "\n").map_err(no_json),
            false => Ok(status::text(status)),
        }
    }
}

fn no_json(error: serde_json::Error) -> Failure {
    Failure::machine("the JSON cannot be generated", error)
}

/// An obstacle to a move has its own exit code.
fn failed(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Conflict => Failure::new(exit::NOT_ACQUIRED, error.to_string())
            .next("`latchwork migrate plan` shows everything that is in the way"),
        // An operator has no command under a hold.
        ErrorKind::Lost(_) => Failure::new(exit::COORDINATOR, error.to_string())
            .next("call the command again: the move stays in its phase"),
        _ => error.into(),
    }
}

pub(crate) const EXAMPLES: &str = "\
Examples, with the URL of the services, which names both coordinators, or --from, --to and --move:
  export LATCHWORK_URL='moving:?from=redis://old&to=zookeeper://a,b,c/locks&move=to-zookeeper'
  latchwork migrate plan               participants, clients not redeployed, obstacles
  latchwork migrate run                old, both, new, done; after Ctrl-C, run continues
  latchwork migrate status --watch     in another terminal: the phase, and the late members
  latchwork migrate abort              back to the old side, before phase done
  latchwork migrate repair             if a step reports that a server has lost a part of the move
  latchwork migrate finish             after all services have only the new URL
  latchwork migrate reopen             before a move back: finish has retired that side

Exit codes: 120 if something is in the way, 122 if a coordinator does not answer, or refuses";

#[cfg(test)]
mod tests {
    use latchwork::LostReason;

    use super::*;

    #[test]
    fn lost_hold_of_an_operator_exits_as_coordinator_failure() {
        let failure = failed(Error::lost(LostReason::Expired));
        assert_eq!(failure.code(), exit::COORDINATOR);
        assert!(failure.into_parts().1.is_some_and(|next| next.contains("call the command again")));
    }
}
