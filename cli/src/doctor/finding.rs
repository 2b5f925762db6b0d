use std::io::{self, Write};

use clap::builder::styling::{AnsiColor, Style};
use latchwork::Error;
use serde::Serialize;

use crate::failure::Failure;
use crate::terminal::was_read;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    /// No action is needed.
    Good,
    /// The user should know it.
    Note,
    /// The user should fix it.
    Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) about: &'static str,
    pub(super) what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn good(about: &'static str, what: impl Into<String>) -> Self {
        Self { level: Level::Good, about, what: what.into(), next: None }
    }

    pub(super) fn note(about: &'static str, what: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::good(about, what) }
    }

    pub(super) fn fault(about: &'static str, what: impl Into<String>) -> Self {
        Self { level: Level::Fault, ..Self::good(about, what) }
    }

    pub(super) fn of_error(about: &'static str, error: Error) -> Self {
        let (what, next) = Failure::from(error).into_parts();
        Self { next, ..Self::fault(about, what) }
    }

    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

/// A closed pipe is not an error.
pub(super) fn print_all(findings: &[Finding], json: bool) -> Result<(), Failure> {
    let printed = match json {
        true => {
            let text = serde_json::to_string_pretty(findings);
            writeln!(
                anstream::stdout(),
                "{}",
                text.map_err(|error| Failure::machine("the JSON cannot be generated", error))?
            )
        }
        false => print_lines(findings),
    };
    was_read(printed).map(drop)
}

fn print_lines(findings: &[Finding]) -> io::Result<()> {
    let mut out = anstream::stdout();
    for Finding { level, about, what, next } in findings {
        let (color, mark) = match level {
            Level::Good => (AnsiColor::Green, "good "),
            Level::Note => (AnsiColor::Yellow, "note "),
            Level::Fault => (AnsiColor::Red, "FAULT"),
        };
        let style = Style::new().bold().fg_color(Some(color.into()));
        writeln!(out, "{style}{mark}{style:#}  {about}: {what}")?;
        if let Some(next) = next {
            writeln!(out, "       do: {next}")?;
        }
    }
    Ok(())
}
