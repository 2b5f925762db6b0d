//! From the client crate's errors to ours.

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
    Unsent,
    /// It may or may not have been carried out: the connection broke, or no answer came in time.
    Unknown(Option<Answer>),
    /// The server refuses it for good.
    Refused(Answer),
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
            other => Fault::Unknown(Some(other)),
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
        match self {
            Fault::Forbidden(answer) => Error::new(
                ErrorKind::Forbidden { what: what.to_owned() },
                "check the ACLs and the credentials",
            )
            .because(answer),
            Fault::Unsent => Error::new(ErrorKind::Unavailable, format!("not connected, could not {what}")),
            Fault::Unknown(None) => {
                Error::new(unheard, format!("no answer in time to the request to {what}"))
            }
            Fault::Unknown(Some(answer)) => {
                Error::new(unheard, format!("no answer to the request to {what}")).because(answer)
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

    /// Whether the same request may pass later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Fault::Unsent | Fault::Unknown(_))
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
