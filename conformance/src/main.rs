//! The suite for people and for third parties.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // Cases with processes run this executable again, as a client.
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
