//! An error as one line, with the next step.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Style};
use latchwork::{Error, ErrorKind, LostReason};

use crate::exit::{self, Ended};

/// What a run comes to.
pub(crate) type Outcome = Result<Ended, Failure>;

/// What to do when another server answers.
const WRONG_SERVER: &str = "give the URL of a server that its scheme names";

/// Why a run has failed, the next step, and the exit code.
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

    /// The next step, in the imperative.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Bad usage.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(exit::USAGE, what)
    }

    /// A fault of this machine: `what` could not be done.
    pub(crate) fn machine(what: &str, error: impl Display) -> Self {
        Self::new(exit::USAGE, format!("{what}: {error}"))
    }

    /// What has failed, and the next step.
    pub(crate) fn into_parts(self) -> (String, Option<String>) {
        (self.what, self.next)
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Says it on standard error.
    pub(crate) fn report(self) -> ExitCode {
        let next = self.next.map(|next| format!("; {next}")).unwrap_or_default();
        say("error", AnsiColor::Red, &format!("{}{next}", self.what));
        self.code.into()
    }
}

/// Says something that the caller should know and that fails nothing.
pub(crate) fn warn(what: impl Display) {
    say("warning", AnsiColor::Yellow, &what.to_string());
}

/// One line on standard error. Where nobody reads that any more, nothing can be said.
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
                (exit::NOT_ACQUIRED, "`latchwork inspect` shows who holds; a longer --within waits longer")
            }
            ErrorKind::Lost(reason) => (exit::LOST, after_loss(reason)),
            ErrorKind::NotHeld => (exit::LOST, "nothing is held any more"),
            ErrorKind::Conflict => (exit::COORDINATOR, "agree with the other clients on one setting"),
            ErrorKind::Unsupported { .. } => {
                (exit::COORDINATOR, "use another backend, or leave the option out")
            }
            ErrorKind::Forbidden => {
                (exit::COORDINATOR, "give the login these rights, or the URL another login")
            }
            ErrorKind::Unavailable | ErrorKind::RuntimeGone | ErrorKind::Closed => {
                (exit::COORDINATOR, "check the address and that the server runs, then try again")
            }
            ErrorKind::OutcomeUnknown => (exit::COORDINATOR, "look what became of it: `latchwork inspect`"),
            ErrorKind::Misconfigured => {
                (exit::COORDINATOR, "change the setting that is named, on the server or here")
            }
            ErrorKind::WrongServer => (exit::COORDINATOR, WRONG_SERVER),
            _ => (exit::COORDINATOR, "see the guide's page on errors"),
        };
        Self::new(code, error.to_string()).next(next)
    }
}

/// What to do after a loss.
pub(crate) fn after_loss(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => {
            "the coordinator was not reached in time: look at it and the network, then start anew"
        }
        LostReason::Revoked => {
            "there was no time to end the command in peace: ask who removed it before you start anew"
        }
        LostReason::Forgotten => "the server has lost data: look at its persistence, then start anew",
        LostReason::MaxHold => "give a longer --max-hold, or the command less to do",
        _ => "start anew",
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
