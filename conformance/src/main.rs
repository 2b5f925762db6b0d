//! The suite for people and for third parties.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use latchwork_conformance::servers::{Kind, Options, serve};

/// Checks that a backend keeps Latchwork's contracts.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Starts servers, prints the lines that export their URLs, and keeps them until standard input ends.
    Serve {
        /// Which kinds of server, separated by commas.
        #[arg(long, value_delimiter = ',', default_values_t = Kind::ALL)]
        kinds: Vec<Kind>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve { kinds } => serve(&kinds, Options::new()).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
