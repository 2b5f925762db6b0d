//! Translates the client crate's errors.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::Error as ClientError;
use latchwork_core::backend::Transport;
use latchwork_core::{Error, ErrorKind, LostReason};
use tonic::{Code, Status};

/// The failures that the backend handles, and all others as the user sees them.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The server does not know the lease, and has carried out nothing.
    LeaseGone,
    /// The server has no space. It checks its quota before and after a write, so the request may have been
    /// carried out. Nothing arrives later.
    Full(Error),
    /// The server has carried out the request, but the reply is too long to be read.
    TooLong(Error),
    Other(Error),
}

impl Failure {
    pub(crate) fn was_not_sent(&self) -> bool {
        matches!(self, Failure::Other(error) if error.kind() == ErrorKind::Unavailable)
    }

    pub(crate) fn asks_for_no_login(&self) -> bool {
        matches!(self, Failure::Other(error) if error.to_string().contains("authentication is not enabled"))
    }

    pub(crate) fn of_write(self) -> Error {
        match self {
            Failure::Full(error) => {
                Error::new(ErrorKind::OutcomeUnknown, "the server is full, and may have stored the write")
                    .because(error)
            }
            other => other.into(),
        }
    }

    /// Adds the reason of TLS if no connection accepted the request.
    pub(crate) fn secured_by(self, transport: &Transport) -> Self {
        match transport.failure() {
            Some(failure) if self.was_not_sent() => {
                Failure::Other(Error::new(ErrorKind::Unavailable, "no TLS connection").because(failure))
            }
            _ => self,
        }
    }

    /// As [`Error::tried`].
    pub(crate) fn tried(self, what: &str, at: &str, took: Duration) -> Self {
        match self {
            Failure::Other(error) => Failure::Other(error.tried(what, at, took)),
            other => other,
        }
    }
}

pub(crate) type Answer<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Other(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::LeaseGone => Error::lost(LostReason::Expired),
            Failure::Full(error) | Failure::TooLong(error) | Failure::Other(error) => error,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        // The client crate reads the first answer of a keepalive itself, and reports a TTL of zero only as a
        // text.
        if matches!(&error, ClientError::LeaseKeepAliveError(text) if text == "lease not found") {
            return Failure::LeaseGone;
        }
        let ClientError::GRpcStatus(status) = &error else {
            // Errors of the crate itself: a broken stream, or an unusable endpoint.
            return Failure::Other(
                Error::new(ErrorKind::OutcomeUnknown, outage(&error).unwrap_or("the connection failed"))
                    .because(error),
            );
        };
        if let Some(learner) = cause_of::<IsLearner>(status) {
            return Failure::Other(Error::new(ErrorKind::Unavailable, learner.to_string()).because(error));
        }
        let text = status.message();
        let says = |words| text.contains(words);
        let misconfigured = |what: &str| Error::new(ErrorKind::Misconfigured, what.to_owned());
        let unanswered = |kind| Error::new(kind, outage(status).unwrap_or(text).to_owned());
        let told = match status.code() {
            Code::PermissionDenied => Error::forbidden(
                "a key",
                "this user needs a role with readwrite on the keys of its namespace (or exact name)",
            ),
            Code::Unauthenticated => Error::forbidden("log in", text),
            Code::InvalidArgument if says("authentication failed") => {
                Error::forbidden("log in", "check user and password")
            }
            Code::InvalidArgument if says("user name") => Error::forbidden("anonymous access", text),
            Code::NotFound if says("lease not found") => return Failure::LeaseGone,
            Code::FailedPrecondition if says("authentication is not enabled") => misconfigured(
                "the URL has a login, but authentication is off on the server: remove the login, or enable authentication",
            ),
            _ if is_older_than_the_roles(&error) => unanswered(ErrorKind::Unavailable),
            Code::OutOfRange if says("message length too large") => {
                let what = "the reply is too long: the prefix of this queue has too many or too large keys";
                return Failure::TooLong(misconfigured(what).because(error));
            }
            // The revision of a read of several pages: the next try reads another one.
            Code::OutOfRange if says("has been compacted") => unanswered(ErrorKind::Unavailable),
            // Another try would give the same answer.
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange | Code::Unimplemented => {
                misconfigured(text)
            }
            Code::ResourceExhausted if says("space exceeded") => {
                let what = "the server is full: compact and defragment it, then `etcdctl alarm disarm`";
                return Failure::Full(misconfigured(what).because(error));
            }
            Code::ResourceExhausted if says("too many requests") => unanswered(ErrorKind::Unavailable),
            Code::Unavailable if never_sent(text, status) => unanswered(ErrorKind::Unavailable),
            _ => unanswered(ErrorKind::OutcomeUnknown),
        };
        Failure::Other(told.because(error))
    }
}

/// The form of an outage, as far as the errors of the crate's layers show it.
fn outage(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            match io.kind() {
                io::ErrorKind::ConnectionRefused => return Some(REFUSED),
                io::ErrorKind::TimedOut => return Some(SILENT),
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => return Some(CLOSED),
                _ => {}
            }
        }
        // Deeper layers have only texts.
        if error.source().is_none() {
            let text = error.to_string();
            let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
            if says(&["timed out", "keep-alive", "deadline has elapsed", "Timeout expired"]) {
                return Some(SILENT);
            }
            if says(&["connection closed", "connection error", "broken pipe", "stream closed", "reset"]) {
                return Some(CLOSED);
            }
        }
        cause = error.source();
    }
    None
}

const REFUSED: &str = "the connection was refused";
pub(crate) const SILENT: &str = "the server was silent";
const CLOSED: &str = "the connection was closed";

fn says(error: &ClientError, texts: &[&str]) -> bool {
    matches!(error, ClientError::GRpcStatus(status) if texts.iter().any(|text| status.message().contains(text)))
}

/// The server refused a log-in, and carried out nothing, because a user or role has changed. With signed
/// tokens (JWT) this lasts until the client logs in again.
pub(crate) fn is_older_than_the_roles(error: &ClientError) -> bool {
    // The first text is of servers before 3.5, which have no code for it.
    says(error, &["revision in header is old", "revision of auth store is old"])
}

/// A server whose data is older than that of other members refused a request about a lease, after a second,
/// and carried out nothing.
pub(crate) fn is_behind(error: &ClientError) -> bool {
    says(error, &["waiting for the applied index"])
}

pub(crate) fn lease_exists(error: &ClientError) -> bool {
    says(error, &["lease already exists"])
}

/// The server refuses the user, password or token.
pub(crate) fn refuses_login(error: &ClientError) -> bool {
    matches!(error, ClientError::GRpcStatus(status) if status.code() == Code::Unauthenticated)
        || says(error, &["authentication failed", "invalid auth token", "user name is empty"])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    Compacted,
    Future,
}

pub(crate) fn no_such_revision(error: &ClientError) -> Option<Past> {
    if says(error, &["revision has been compacted"]) {
        return Some(Past::Compacted);
    }
    says(error, &["is a future revision"]).then_some(Past::Future)
}

/// No connection was made, or the server refused the request before it proposed it.
fn never_sent(text: &str, status: &Status) -> bool {
    let refused = ["etcdserver: no leader", NO_LEARNER];
    cause_of::<NotConnected>(status).is_some() || refused.iter().any(|words| text.contains(words))
}

fn cause_of<E: std::error::Error + 'static>(status: &Status) -> Option<&E> {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// A learner's answer to requests that only voting members serve.
pub(crate) const NO_LEARNER: &str = "not supported for learner";

/// The host that refused the request.
#[derive(Debug)]
pub(crate) struct IsLearner(pub(crate) Arc<str>);

impl fmt::Display for IsLearner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is a learner, which serves no clients: promote it, or name voting members in the URL",
            self.0
        )
    }
}

impl std::error::Error for IsLearner {}

/// The request was not sent.
#[derive(Debug)]
pub(crate) struct NotConnected(pub(crate) io::Error);

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no connection: {}", self.0)
    }
}

impl std::error::Error for NotConnected {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Changes an unknown outcome to an unavailable server, because the request is harmless to repeat: a read, the grant of
/// a lease without keys, a renewal, a log-in.
pub(crate) fn as_harmless(failure: Failure) -> Failure {
    match failure {
        Failure::Other(error) => Failure::Other(error.of_harmless("the request was not answered")),
        // Older servers that are full also refuse transactions that only read.
        Failure::Full(error) => {
            let refused = Error::new(ErrorKind::Unavailable, "the request was refused");
            Failure::Other(refused.of_refusal().because(error))
        }
        other => other,
    }
}

pub(crate) fn late() -> Failure {
    Failure::Other(Error::new(ErrorKind::OutcomeUnknown, SILENT))
}
