//! A move from one coordinator to another, from the operator's side.

mod plan;
mod progress;
mod sides;
mod status;

use std::time::Duration;

use clap::{Args, Subcommand};
use latchwork::operator::{Move, MoveStatus};
use latchwork::{Error, ErrorKind};
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
    /// As JSON; what goes on as a line each time
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Step {
    /// Shows who takes part, who was forgotten, what is in use, and what is in the way; changes nothing
    Plan,
    /// Makes the whole move, or what is left of it: old, both, new, done
    Run,
    /// Begins it: from old to both
    Start,
    /// Takes the next step, once all members have acknowledged the one before
    Advance,
    /// Shows where it stands, and for whom it waits
    Status {
        /// Shows it again whenever it has changed, until Ctrl-C
        #[arg(long, short)]
        watch: bool,
        /// How often it is read with --watch
        #[arg(long, value_name = "TIME", value_parser = crate::hold::order::time, default_value = "1s",
            requires = "watch")]
        every: Duration,
    },
    /// Shuts both sides again where a server has lost the move's marker, and names who came in meanwhile
    Repair,
    /// Takes it back to the old side, step by step; a move that is done is final
    Abort,
    /// Takes the new side into use again, which an earlier move the other way has retired
    Reopen,
    /// Shuts the old side for good, once all services use the new URL alone
    Finish,
}

impl MigrateOrder {
    pub(crate) fn run(&self, common: &Common) -> Outcome {
        let config = self.sides.config(common)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::machine("the run cannot begin", error))?;
        let ended = runtime.block_on(async {
            let of = Move::connect(&latchwork::connectors(), &config).await.map_err(failed)?;
            let ended = self.work(&of).await;
            match of.close().await {
                Err(error) if ended.is_ok() => warn(format!("a connection is left to its lease: {error}")),
                _ => {}
            }
            ended
        });
        // A thread that prints for a reader who stands still is not waited for.
        runtime.shutdown_background();
        ended
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
                Ok(Ended::WELL)
            }
            Step::Status { watch: true, every } => self.watch(of, every).await,
            Step::Repair => {
                for side in of.repair().await.map_err(failed)? {
                    warn(format!("the {} side was open, and is shut again", side.as_str()));
                }
                self.end(of).await
            }
            Step::Reopen => {
                warn(match of.reopen().await.map_err(failed)? {
                    true => {
                        "the new side was retired, and is in use again: clients with its URL alone are let in there \
                         until the move begins"
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

    /// Takes steps until they are taken, or Ctrl-C.
    async fn walk(&self, of: &Move) -> Outcome {
        let mut interrupts = interrupts()?;
        // The clients of the move are kept beside it: a reader may stand still, and Ctrl-C ends it also then.
        let printing = Printing::new();
        let told = |progress: &latchwork::operator::MoveProgress<'_>| {
            printing.print(progress::told(progress, self.json))
        };
        let steps = async {
            match self.step {
                Step::Run => of.run(told).await,
                Step::Start => of.start(told).await.map(drop),
                Step::Abort => of.abort(told).await,
                _ => of.advance(told).await.map(drop),
            }
        };
        let walked = tokio::select! {
            walked = steps => walked.map_err(|error| match (self.step, error.kind()) {
                // It says all: a plan is of the way forward.
                (Step::Abort, ErrorKind::Conflict) => Failure::new(exit::NOT_ACQUIRED, error.to_string()),
                _ => failed(error),
            }),
            _ = interrupts.recv() => {
                warn(
                    "stopped, and nothing is lost: the move stands where it is; `latchwork migrate run` goes on, \
                     from any machine, `migrate abort` takes it back, and `migrate status` says where it is. If \
                     values were being copied, their requests wait until one of both is called",
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

    /// Shows where the move stands at the end.
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
                // It may be back for the next look.
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

    /// Where it stands; as JSON in one line.
    fn line(&self, status: &MoveStatus) -> Result<String, Failure> {
        match self.json {
            true => serde_json::to_string(status).map(|json| json + "\n").map_err(no_json),
            false => Ok(status::text(status)),
        }
    }
}

fn no_json(error: serde_json::Error) -> Failure {
    Failure::machine("no JSON", error)
}

/// What is in the way of a move has a code of its own, and says what to do.
fn failed(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Conflict => Failure::new(exit::NOT_ACQUIRED, error.to_string())
            .next("`latchwork migrate plan` shows all that is in the way"),
        // An operator runs no command under a hold.
        ErrorKind::Lost(_) => Failure::new(exit::COORDINATOR, error.to_string())
            .next("call it again: the move stands where it is"),
        _ => error.into(),
    }
}

/// For the help.
pub(crate) const EXAMPLES: &str = "\
Examples, with both coordinators in one URL as the services have it, or by --from, --to and --move:
  export LATCHWORK_URL='moving:?from=redis://old&to=zookeeper://a,b,c/locks&move=to-zookeeper'
  latchwork migrate plan               who takes part, who was forgotten, what is in the way
  latchwork migrate run                old, both, new, done; Ctrl-C at any time, run goes on
  latchwork migrate status --watch     from another terminal: where it is, and for whom it waits
  latchwork migrate abort              back to the old side, until it is done
  latchwork migrate repair             a server has lost the move's marker: each step says so
  latchwork migrate finish             once all services have the new URL alone
  latchwork migrate reopen             before a move the other way: that side was retired by finish

Exit codes: 120 when something is in the way, 122 when a coordinator does not answer, or refuses";

#[cfg(test)]
mod tests {
    use latchwork::LostReason;

    use super::*;

    #[test]
    fn what_an_operator_has_lost_is_no_hold_of_a_command() {
        let failure = failed(Error::lost(LostReason::Expired));
        assert_eq!(failure.code(), exit::COORDINATOR);
        assert!(failure.into_parts().1.is_some_and(|next| next.contains("call it again")));
    }
}
