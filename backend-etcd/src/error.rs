//! The client crate's errors become ours here, and nowhere else.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use etcd_client::Error as ClientError;
use latchwork_core::{Error, ErrorKind, LostReason};

use crate::incarnation::Past;

/// Why a request failed: the cases that the backend acts upon, and all others, as the user sees them.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The server does not know the lease: nothing was carried out.
    LeaseGone,
    /// The server has no space. It looks at its quota before it proposes a write, and again when it carries it out: there it writes
    /// first, and refuses then. It is an answer all the same, and nothing lands later.
    Full(Error),
    /// The reply is too long to be read. The request was carried out, and nothing lands later.
    TooLong(Error),
    /// Anything else.
    Other(Error),
}

impl Failure {
    /// Whether no server has seen the request.
    pub(crate) fn was_not_sent(&self) -> bool {
        matches!(self, Failure::Other(error) if *error.kind() == ErrorKind::Unavailable)
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
        // A keepalive's first answer is read by the crate, which has only words for a TTL of zero.
        if matches!(&error, ClientError::LeaseKeepAliveError(text) if text == "lease not found") {
            return Failure::LeaseGone;
        }
        let ClientError::GRpcStatus(status) = &error else {
            // Errors of the crate itself: a broken stream or an endpoint that cannot be used.
            return Failure::Other(
                Error::new(ErrorKind::Unknown, outage(&error).unwrap_or("the connection failed"))
                    .because(error),
            );
        };
        // Codes by number: tonic, which names them, is the client crate's dependency and not ours.
        let (code, text) = (status.code() as i32, status.message().to_owned());
        let kind = match code {
            NOT_FOUND if text.contains("lease not found") => return Failure::LeaseGone,
            INVALID_ARGUMENT if text.contains("authentication failed") => forbidden("log in"),
            PERMISSION_DENIED => forbidden("a key"),
            UNAUTHENTICATED => forbidden("log in"),
            INVALID_ARGUMENT if text.contains("user name") => forbidden("anonymous access"),
            FAILED_PRECONDITION if text.contains("authentication is not enabled") => ErrorKind::Misconfigured,
            _ if is_older_than_the_roles(&error) => ErrorKind::Unavailable,
            OUT_OF_RANGE if text.contains("message length too large") => {
                let what = "the reply is too long to be read: too many keys, or too large ones, lie where this queue does";
                return Failure::TooLong(Error::new(ErrorKind::Misconfigured, what).because(error));
            }
            // What was being read page by page: it is read anew.
            OUT_OF_RANGE if text.contains("has been compacted") => ErrorKind::Unavailable,
            // An answer of the server's that no repetition changes.
            INVALID_ARGUMENT | FAILED_PRECONDITION | OUT_OF_RANGE | UNIMPLEMENTED => ErrorKind::Misconfigured,
            RESOURCE_EXHAUSTED if text.contains("space exceeded") => {
                return Failure::Full(
                    Error::new(ErrorKind::Misconfigured, advice(code, text)).because(error),
                );
            }
            RESOURCE_EXHAUSTED if text.contains("too many requests") => ErrorKind::Unavailable,
            UNAVAILABLE if never_sent(&text, status) => ErrorKind::Unavailable,
            _ => ErrorKind::Unknown,
        };
        let outage =
            matches!(kind, ErrorKind::Unknown | ErrorKind::Unavailable).then(|| outage(status)).flatten();
        let context = outage.map_or_else(|| advice(code, text), Cow::Borrowed);
        Failure::Other(Error::new(kind, context).because(error))
    }
}

/// What an outage looks like from here, where what the client crate's layers say tells.
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
        // Layers below the client crate, which it does not name, have words only.
        let says = |words: &[&str]| words.iter().any(|word| error.to_string().contains(word));
        if cause_is_last(error)
            && says(&["timed out", "keep-alive", "deadline has elapsed", "Timeout expired"])
        {
            return Some(SILENT);
        }
        if cause_is_last(error)
            && says(&["connection closed", "connection error", "broken pipe", "stream closed", "reset"])
        {
            return Some(CLOSED);
        }
        cause = error.source();
    }
    None
}

fn cause_is_last(error: &dyn std::error::Error) -> bool {
    error.source().is_none()
}

const REFUSED: &str = "the connection was refused";
pub(crate) const SILENT: &str = "the server was silent";
const CLOSED: &str = "the connection was closed";

/// Whether a log-in was refused since users or roles, whosever, have changed after it: nothing was carried out. With tokens that
/// the server signs (JWT) it stays so until another log-in.
pub(crate) fn is_older_than_the_roles(error: &ClientError) -> bool {
    let ClientError::GRpcStatus(status) = error else { return false };
    // Before 3.5 in the first words, without a code of its own.
    ["revision in header is old", "revision of auth store is old"]
        .iter()
        .any(|text| status.message().contains(text))
}

/// Why a read of a past revision is refused, if that is why.
pub(crate) fn no_such_revision(error: &ClientError) -> Option<Past> {
    let ClientError::GRpcStatus(status) = error else { return None };
    match status.message() {
        text if text.contains("revision has been compacted") => Some(Past::Compacted),
        text if text.contains("is a future revision") => Some(Past::Future),
        _ => None,
    }
}

/// What to do about it, where the server's own words (which the source has) do not say it.
fn advice(code: i32, text: String) -> Cow<'static, str> {
    match code {
        INVALID_ARGUMENT if text.contains("authentication failed") => "check user and password".into(),
        PERMISSION_DENIED => {
            "this user needs a role with readwrite on the keys of its namespace (or exact name)".into()
        }
        RESOURCE_EXHAUSTED if text.contains("space exceeded") => {
            "the server is full: compact and defragment it, then `etcdctl alarm disarm`".into()
        }
        FAILED_PRECONDITION if text.contains("authentication is not enabled") => {
            "the URL has a user, and the server knows none".into()
        }
        _ => text.into(),
    }
}

const INVALID_ARGUMENT: i32 = 3;
const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const FAILED_PRECONDITION: i32 = 9;
const OUT_OF_RANGE: i32 = 11;
const UNIMPLEMENTED: i32 = 12;
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;

fn forbidden(what: &str) -> ErrorKind {
    ErrorKind::Forbidden { what: what.to_owned() }
}

/// Whether no server has seen the request: its connection could not be made, or the server turned it
/// away before proposing it.
fn never_sent(text: &str, status: &dyn std::error::Error) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    ["tcp connect error", "dns error", "etcdserver: no leader"].iter().any(|sign| text.contains(sign))
}

/// A read changes nothing: whatever its outcome, the server is only not there.
pub(crate) fn as_read(failure: Failure) -> Failure {
    match failure {
        Failure::Other(error) if *error.kind() == ErrorKind::Unknown => {
            Failure::Other(Error::new(ErrorKind::Unavailable, "a read was not answered").because(error))
        }
        // Older servers that are full refuse transactions that only read, too.
        Failure::Full(error) => {
            Failure::Other(Error::new(ErrorKind::Unavailable, "a read was refused").because(error))
        }
        other => other,
    }
}

/// The answer that did not come in time.
pub(crate) fn late() -> Failure {
    Failure::Other(Error::new(ErrorKind::Unknown, SILENT))
}
