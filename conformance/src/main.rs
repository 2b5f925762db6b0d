//! The command line of the suite.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // Child processes start this executable again.
    if let Some(code) = latchwork_conformance::contender_main(&cli::backends::connectors()) {
        return code;
    }
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
