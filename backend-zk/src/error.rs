//! From the client crate's errors to ours.

use std::time::Duration;

use latchwork_core::{Error, ErrorKind};
use zookeeper_client::Error as Answer;

/// ZooKeeper's code for an ephemeral node under a session of one server only, which it does not raise to one of the ensemble.
const LOCAL_SESSION: i32 = -120;

/// Why a request came to nothing, as far as a caller must tell it apart.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The node (or its parent) is not there.
    NoNode,
    /// It is there already.
    NodeExists,
    /// The server's access control refused it.
    Forbidden(Answer),
    /// The session is over, lost by our clock, or given back.
    Gone,
    /// There was no connection: surely not sent.
    Unsent(Tried),
    /// Too many others of this client were under way: surely not sent.
    NoTurn,
    /// It may or may not have been carried out: the connection broke, or no answer came in time.
    Unknown(Unheard),
    /// The server refuses it for good.
    Refused(Answer),
}

/// Where a request was tried, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    /// All servers: the client crate does not say which one it was.
    pub(crate) hosts: String,
    pub(crate) took: Duration,
}

/// How a request came to no answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unheard {
    /// What the client crate says; nothing where no answer came in time.
    pub(crate) answer: Option<Answer>,
    pub(crate) tried: Option<Tried>,
}

/// The one place where an error of the client crate becomes ours. All that is not a definite answer of
/// the server is unknown: a broken connection has many shapes.
impl From<Answer> for Fault {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::NoNode => Fault::NoNode,
            Answer::NodeExists => Fault::NodeExists,
            Answer::NoAuth | Answer::AuthFailed | Answer::InvalidAcl => Fault::Forbidden(answer),
            Answer::SessionExpired | Answer::ClientClosed => Fault::Gone,
            Answer::BadVersion
            | Answer::NotEmpty
            | Answer::NoChildrenForEphemerals
            | Answer::NotReadOnly
            | Answer::QuotaExceeded
            | Answer::MarshallingError
            | Answer::Unimplemented
            | Answer::ReconfigDisabled
            | Answer::UnexpectedErrorCode(LOCAL_SESSION)
            | Answer::BadArguments(_) => Fault::Refused(answer),
            other => Fault::Unknown(Unheard { answer: Some(other), tried: None }),
        }
    }
}

impl Fault {
    /// Our error, for what was being done. The cases that mean something there are to be handled before.
    pub(crate) fn error(self, what: &str) -> Error {
        self.error_where(ErrorKind::Unknown, what)
    }

    /// The same, of what leaves nothing where it was carried out unheard: a read, or what goes with a session that nobody has.
    pub(crate) fn error_without_trace(self, what: &str) -> Error {
        self.error_where(ErrorKind::Unavailable, what)
    }

    fn error_where(self, unheard: ErrorKind, what: &str) -> Error {
        let request = format!("the request to {what}");
        match self {
            Fault::Forbidden(answer) => Error::new(
                ErrorKind::Forbidden { what: what.to_owned() },
                "check the ACLs and the credentials",
            )
            .because(answer),
            Fault::NoTurn => Error::new(
                ErrorKind::Unavailable,
                format!("too many requests of this client are under way, could not {what}"),
            ),
            Fault::Unsent(Tried { hosts, took }) => {
                Error::new(ErrorKind::Unavailable, "not connected").tried(&request, &hosts, took)
            }
            Fault::Unknown(Unheard { answer, tried }) => {
                let why = match &answer {
                    None => "the server was silent",
                    Some(Answer::ConnectionLoss) => "the connection was closed",
                    Some(_) => "no answer",
                };
                let error = match tried {
                    Some(Tried { hosts, took }) => Error::new(unheard, why).tried(&request, &hosts, took),
                    None => Error::new(unheard, format!("{request}: {why}")),
                };
                match answer {
                    Some(answer) => error.because(answer),
                    None => error,
                }
            }
            Fault::Gone => Error::new(unheard, format!("the session ended under a request to {what}")),
            Fault::NoNode => {
                Error::new(ErrorKind::Unavailable, format!("could not {what}: a parent was removed"))
            }
            Fault::NodeExists => {
                Error::new(ErrorKind::Conflict, format!("could not {what}: it is there already"))
            }
            Fault::Refused(answer) => {
                Error::new(ErrorKind::Misconfigured, format!("the server refused to {what}")).because(answer)
            }
        }
    }

    /// Says where the request was tried and for how long, if it came to no answer.
    pub(crate) fn after(self, tried: Tried) -> Self {
        match self {
            Fault::Unknown(unheard) => Fault::Unknown(Unheard { tried: Some(tried), ..unheard }),
            other => other,
        }
    }

    /// Whether the same request may pass later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Fault::Unsent(_) | Fault::NoTurn | Fault::Unknown(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_with_local_sessions_refuses_is_not_to_be_asked_again() {
        let fault = Fault::from(Answer::UnexpectedErrorCode(LOCAL_SESSION));
        assert!(!fault.is_transient());
        assert_eq!(*fault.error("create").kind(), ErrorKind::Misconfigured);
        // That of a request that took too long, say.
        assert!(Fault::from(Answer::UnexpectedErrorCode(-122)).is_transient());
    }
}
