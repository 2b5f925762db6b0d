use std::time::Duration;

use latchwork_core::{Error, ErrorKind};
use zookeeper_client::Error as DriverError;

/// ZooKeeper's code for an ephemeral node under a local session that is not made a session of the ensemble.
const LOCAL_SESSION: i32 = -120;

pub(crate) type Answer<T> = Result<T, Fault>;

#[derive(Clone, Debug)]
pub(crate) enum Fault {
    NoNode,
    NodeExists,
    Forbidden(DriverError),
    /// The session has ended, by the server, by the client's clock, or by a close.
    SessionOver,
    /// No connection existed. The request was not sent.
    Unsent(Tried),
    /// Too many requests of this client were under way. This one was not sent.
    Throttled,
    /// The request may have been carried out: the connection broke, or no answer came in time.
    Unknown(Unanswered),
    /// The server refuses the request permanently.
    Refused(DriverError),
    /// No login is known for a new session.
    NoLogin(Error),
}

pub(crate) fn if_there<T>(answer: Answer<T>) -> Answer<Option<T>> {
    match answer {
        Err(Fault::NoNode) => Ok(None),
        answer => answer.map(Some),
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tried {
    /// All hosts: the client crate does not say which one it asked.
    pub(crate) hosts: String,
    pub(crate) took: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Unanswered {
    /// `None` if the time ran out.
    pub(crate) answer: Option<DriverError>,
    pub(crate) tried: Option<Tried>,
}

/// The only translation of the client crate's errors. Every error except a definite answer is
/// `OutcomeUnknown`, because a broken connection has many forms.
impl From<DriverError> for Fault {
    fn from(answer: DriverError) -> Self {
        match answer {
            DriverError::NoNode => Fault::NoNode,
            DriverError::NodeExists => Fault::NodeExists,
            DriverError::NoAuth | DriverError::AuthFailed | DriverError::InvalidAcl => {
                Fault::Forbidden(answer)
            }
            DriverError::SessionExpired | DriverError::ClientClosed => Fault::SessionOver,
            DriverError::BadVersion
            | DriverError::NotEmpty
            | DriverError::NoChildrenForEphemerals
            | DriverError::NotReadOnly
            | DriverError::QuotaExceeded
            | DriverError::MarshallingError
            | DriverError::Unimplemented
            | DriverError::ReconfigDisabled
            | DriverError::UnexpectedErrorCode(LOCAL_SESSION)
            | DriverError::BadArguments(_) => Fault::Refused(answer),
            other => Fault::Unknown(Unanswered { answer: Some(other), tried: None }),
        }
    }
}

impl Fault {
    /// The error of the operation `what`, for faults that the caller does not handle.
    pub(crate) fn error(self, what: &str) -> Error {
        self.error_where(ErrorKind::OutcomeUnknown, what)
    }

    /// As [`error`](Self::error), for an operation that leaves no trace when its answer is lost.
    pub(crate) fn error_without_trace(self, what: &str) -> Error {
        self.error_where(ErrorKind::Unavailable, what)
    }

    fn error_where(self, unanswered: ErrorKind, what: &str) -> Error {
        let request = format!("the request to {what}");
        match self {
            Fault::Forbidden(answer) => {
                Error::forbidden(what, "check the ACLs and the credentials").because(answer)
            }
            Fault::Throttled => Error::new(
                ErrorKind::Unavailable,
                format!("could not {what}: this client has too many requests in flight"),
            ),
            Fault::Unsent(Tried { hosts, took }) => {
                Error::new(ErrorKind::Unavailable, "not connected").tried(&request, &hosts, took)
            }
            Fault::Unknown(Unanswered { answer, tried }) => {
                let why = match &answer {
                    None => "the server was silent",
                    Some(DriverError::ConnectionLoss) => "the connection was closed",
                    Some(_) => "no answer",
                };
                let error = match tried {
                    Some(Tried { hosts, took }) => Error::new(unanswered, why).tried(&request, &hosts, took),
                    None => Error::new(unanswered, format!("{request}: {why}")),
                };
                error.because_of(answer)
            }
            Fault::SessionOver => {
                Error::new(unanswered, format!("the session ended during a request to {what}"))
            }
            Fault::NoNode => {
                let why = "a parent directory on the server was removed during the request: try again";
                Error::new(ErrorKind::Unavailable, format!("could not {what}: {why}"))
            }
            Fault::NodeExists => {
                Error::new(ErrorKind::Conflict, format!("could not {what}: it exists already"))
            }
            Fault::NoLogin(error) => error,
            Fault::Refused(answer @ DriverError::UnexpectedErrorCode(LOCAL_SESSION)) => {
                let why = "its sessions are local, and such a session has no ephemeral nodes: set \
                           localSessionsUpgradingEnabled=true or localSessionsEnabled=false on every server";
                Error::new(ErrorKind::Misconfigured, format!("the server refused to {what}: {why}"))
                    .because(answer)
            }
            Fault::Refused(answer) => {
                Error::new(ErrorKind::Misconfigured, format!("the server refused to {what}")).because(answer)
            }
        }
    }

    /// Adds where and how long an unanswered request was tried.
    pub(crate) fn after(self, tried: Tried) -> Self {
        match self {
            Fault::Unknown(unanswered) => Fault::Unknown(Unanswered { tried: Some(tried), ..unanswered }),
            other => other,
        }
    }

    /// The fault of a watch session: the caller tries again on another session.
    pub(crate) fn of_watch_session(self) -> Self {
        match self {
            Fault::SessionOver | Fault::Forbidden(DriverError::AuthFailed) => {
                Fault::Unknown(Unanswered::default())
            }
            fault => fault,
        }
    }

    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Fault::Unsent(_) | Fault::Throttled | Fault::Unknown(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_watch_session_is_a_transient_fault() {
        for ended in [DriverError::SessionExpired, DriverError::AuthFailed] {
            assert!(Fault::from(ended).of_watch_session().is_transient());
        }
        for other in [DriverError::NoNode, DriverError::NoAuth] {
            assert!(!Fault::from(other).of_watch_session().is_transient());
        }
    }

    #[test]
    fn the_refusal_of_a_server_with_local_sessions_is_final() {
        let fault = Fault::from(DriverError::UnexpectedErrorCode(LOCAL_SESSION));
        assert!(!fault.is_transient());
        let error = fault.error("create");
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("localSessionsUpgradingEnabled"), "{error}");
        assert!(Fault::from(DriverError::UnexpectedErrorCode(-122)).is_transient());
    }
}
