//! The program `latchwork`: what people do with a coordinator at a terminal.
//!
//! ```text
//! args, exit        what is asked, and how a run ends
//! hold              run a command while holding: lock, semaphore, cron, elect
//! inspect           who holds, who waits, and why; forced releases
//! doctor            what a coordinator is worth for locks
//! compare           coordinators beside each other: which for what
//! migrate           a move to another coordinator, from the operator's side
//! manual            completions and man pages
//! settings          which coordinator
//! failure           an error as one line, with the next step
//! terminal          standard output, and Ctrl-C
//! ```
//!
//! How a command is kept under its hold is told in [`hold`].

mod args;
#[cfg(feature = "compare")]
mod compare;
mod doctor;
mod exit;
mod failure;
mod hold;
mod inspect;
mod manual;
mod migrate;
mod settings;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::failure::Outcome;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return args::refuse(&error),
    };
    match run(cli) {
        Ok(ended) => ended.into(),
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli) -> Outcome {
    cli.common.log();
    match cli.command {
        Command::Lock(order) => hold::run(&cli.common, &order.into_job()?),
        Command::Semaphore(order) => hold::run(&cli.common, &order.into_job()?),
        Command::Cron(order) => hold::run(&cli.common, &order.into_job()?),
        Command::Elect(order) => hold::run(&cli.common, &order.into_job()?),
        Command::Inspect(order) => inspect::run(&cli.common, &order),
        Command::Release(order) => order.run(&cli.common),
        Command::Doctor(order) => order.run(&cli.common),
        Command::Migrate(order) => order.run(&cli.common),
        #[cfg(feature = "compare")]
        Command::Compare(order) => order.run(&cli.common),
        #[cfg(feature = "compare")]
        Command::Holder(order) => order.run(),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::man(folder.as_deref()),
        Command::Guard(order) => hold::guard::run(order),
        Command::Exec(order) => Err(hold::exec::run(&order)),
    }
}
