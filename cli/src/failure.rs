use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Style};
use latchwork::{Error, ErrorKind, LostReason};

use crate::exit::{self, Ended};

pub(crate) type Outcome = Result<Ended, Failure>;

const WRONG_SERVER: &str = "give a URL whose scheme fits this server, or the address of the right server";

#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    what: String,
    next: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), next: None }
    }

    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(exit::USAGE, what)
    }

    pub(crate) fn machine(what: &str, error: impl Display) -> Self {
        Self::new(exit::USAGE, format!("{what}: {error}"))
    }

    pub(crate) fn into_parts(self) -> (String, Option<String>) {
        (self.what, self.next)
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn report(self) -> ExitCode {
        let next = self.next.map(|next| format!("; {next}")).unwrap_or_default();
        say("error", AnsiColor::Red, &format!("{}{next}", self.what));
        self.code.into()
    }
}

pub(crate) fn warn(what: impl Display) {
    say("warning", AnsiColor::Yellow, &what.to_string());
}

/// A failure to write the line is ignored.
fn say(level: &str, color: AnsiColor, line: &str) {
    let style = Style::new().bold().fg_color(Some(color.into()));
    let line = line.replace('\n', "; ");
    let _ = writeln!(anstream::stderr(), "{style}{level}{style:#}: {line}");
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, next) = match error.kind() {
            ErrorKind::InvalidArgument { .. } | ErrorKind::Deadlock => (exit::USAGE, "see `latchwork help`"),
            ErrorKind::Timeout => {
                (exit::NOT_ACQUIRED, "`latchwork inspect` shows the holders; a longer --within waits longer")
            }
            ErrorKind::Lost(reason) => (exit::LOST, after_loss(reason)),
            ErrorKind::NotHeld => (exit::LOST, "the hold has ended already: acquire the lock again"),
            ErrorKind::Conflict => (exit::COORDINATOR, "use the same setting in all clients"),
            ErrorKind::Unsupported { .. } => (exit::COORDINATOR, "use another backend, or remove the option"),
            ErrorKind::Forbidden => {
                (exit::COORDINATOR, "grant the login these rights, or use another login in the URL")
            }
            ErrorKind::Unavailable if error.is_refusal() => {
                (exit::COORDINATOR, "the server runs: remove the cause that it names, then try again")
            }
            ErrorKind::Unavailable | ErrorKind::RuntimeGone | ErrorKind::Closed => {
                (exit::COORDINATOR, "check the address, and check that the server runs, then try again")
            }
            ErrorKind::OutcomeUnknown => (exit::COORDINATOR, "check the outcome with `latchwork inspect`"),
            ErrorKind::Misconfigured => {
                (exit::COORDINATOR, "change the named setting, on the server or in the URL")
            }
            ErrorKind::WrongServer => (exit::COORDINATOR, WRONG_SERVER),
            _ => (exit::COORDINATOR, "see the page on errors in the guide"),
        };
        Self::new(code, error.to_string()).next(next)
    }
}

pub(crate) fn after_loss(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => {
            "the coordinator did not answer in time: check the coordinator and the network, then start the command again"
        }
        LostReason::Revoked => {
            "an operator removed the hold, so the command got no grace: ask why before you start it again"
        }
        LostReason::Forgotten => {
            "the server has lost data: check its persistence, then start the command again"
        }
        LostReason::MaxHold => "use a longer --max-hold, or a shorter command",
        _ => "start the command again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_its_code() {
        for (kind, code) in [
            (ErrorKind::Timeout, exit::NOT_ACQUIRED),
            (ErrorKind::Lost(LostReason::Expired), exit::LOST),
            (ErrorKind::Unavailable, exit::COORDINATOR),
            (ErrorKind::InvalidArgument { name: "key" }, exit::USAGE),
        ] {
            let failure = Failure::from(Error::new(kind, "why"));
            assert_eq!(failure.code(), code, "{kind:?}");
            assert!(failure.next.is_some(), "{kind:?}");
        }
    }
}
