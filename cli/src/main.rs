//! The program `latchwork`. [`hold`] explains how a command is bound to its hold.

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
