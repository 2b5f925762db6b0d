//! The error type: what to do, in which operation, on which key, and why.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The result of everything in this library.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LostReason {
    /// The lease was not renewed in time, or could not be proven to be: another may hold now.
    Expired,
    /// Removed by somebody else: an operator, an eviction, a flush, a failover that forgot it.
    Revoked,
    /// The fixed end that was asked for (`max_hold`) was reached.
    MaxHold,
    /// The coordinator was closed.
    Closed,
    /// Its owner had released it: what [`Hold::run`](crate::Hold::run) answers for work that nothing guards any more.
    Released,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::Expired => "the lease expired",
            LostReason::Revoked => {
                "it was removed by another (operator, eviction or flush), or the server has forgotten it"
            }
            LostReason::MaxHold => "its fixed end was reached",
            LostReason::Closed => "the coordinator was closed",
            LostReason::Released => "it was released",
        })
    }
}

/// What kind of error it is, which says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Fix the call: the named argument is wrong.
    InvalidArgument {
        /// The argument's name, as the documentation has it.
        name: &'static str,
    },
    /// The deadline passed first: behind others, or, where there is a source, while that was in the way. Nothing stays on the server
    /// that its lease does not take.
    Timeout,
    /// The hold, or the place in the queue, is lost: stop the guarded work, then acquire anew.
    Lost {
        /// Why.
        reason: LostReason,
    },
    /// Released by one who does not hold it.
    NotHeld,
    /// A reentrant recipe was used without an owner.
    NoOwner,
    /// Fix the call: the owner reads and asks to write, which would wait for itself. Release first, then write.
    Deadlock,
    /// Somebody else laid down other terms: another limit, or a foreign layout at an exact address.
    Conflict,
    /// This backend cannot do it.
    Unsupported {
        /// The missing capability.
        capability: &'static str,
    },
    /// Fix the permissions on the server.
    Forbidden {
        /// What was not allowed.
        what: String,
    },
    /// The server cannot be reached now: retry.
    Unavailable,
    /// The request may or may not have been carried out.
    Unknown,
    /// Fix the server's or the client's configuration.
    Misconfigured,
    /// Another server answers at this URL.
    WrongServer {
        /// What the URL promises.
        expected: &'static str,
        /// What answered.
        saw: String,
    },
    /// The coordinator was closed.
    Closed,
}

/// An error of this library: meaning, operation, key, context and source.
#[derive(Clone)]
pub struct Error(Box<Parts>);

#[derive(Clone)]
struct Parts {
    kind: ErrorKind,
    operation: Option<&'static str>,
    key: Option<Arc<str>>,
    context: Cow<'static, str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of a kind, with a sentence that says what happened.
    pub fn new(kind: ErrorKind, context: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Parts { kind, operation: None, key: None, context: context.into(), source: None }))
    }

    /// A bad argument.
    pub fn invalid(name: &'static str, why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidArgument { name }, why)
    }

    /// A loss.
    pub fn lost(reason: LostReason) -> Self {
        Self::new(ErrorKind::Lost { reason }, "")
    }

    /// The coordinator was closed.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the coordinator was closed")
    }

    /// Adds the operation in which it happened, unless one is named already.
    #[must_use]
    pub fn in_operation(mut self, operation: &'static str) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Adds the key that it is about, unless one is named already.
    #[must_use]
    pub fn on(mut self, key: impl Into<Arc<str>>) -> Self {
        self.0.key.get_or_insert_with(|| key.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// What kind of error it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The operation in which it happened.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The key that it is about.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The argument that is wrong, for `InvalidArgument`.
    pub fn argument(&self) -> Option<&'static str> {
        match self.0.kind {
            ErrorKind::InvalidArgument { name } => Some(name),
            _ => None,
        }
    }

    /// Why it was lost, for `Lost`.
    pub fn lost_reason(&self) -> Option<LostReason> {
        match self.0.kind {
            ErrorKind::Lost { reason } => Some(reason),
            _ => None,
        }
    }

    /// Whether the same call may succeed later with nothing changed.
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::Timeout)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = self.0.operation {
            write!(f, "{operation}: ")?;
        }
        if let Some(key) = &self.0.key {
            write!(f, "{key:?}: ")?;
        }
        match &self.0.kind {
            ErrorKind::InvalidArgument { name } => write!(f, "invalid argument `{name}`")?,
            ErrorKind::Timeout => f.write_str("the deadline passed")?,
            ErrorKind::Lost { reason } => write!(f, "lost: {reason}")?,
            ErrorKind::NotHeld => f.write_str("not held")?,
            ErrorKind::Deadlock => f.write_str("it would wait for itself")?,
            ErrorKind::NoOwner => f.write_str("no owner")?,
            ErrorKind::Conflict => f.write_str("conflict")?,
            ErrorKind::Unsupported { capability } => write!(f, "unsupported here: {capability}")?,
            ErrorKind::Forbidden { what } => write!(f, "forbidden: {what}")?,
            ErrorKind::Unavailable => f.write_str("unavailable")?,
            ErrorKind::Unknown => f.write_str("outcome unknown")?,
            ErrorKind::Misconfigured => f.write_str("misconfigured")?,
            ErrorKind::WrongServer { expected, saw } => {
                write!(f, "wrong server: expected {expected}, saw {saw}")?;
            }
            ErrorKind::Closed => f.write_str("closed")?,
        }
        if !self.0.context.is_empty() {
            write!(f, ": {}", in_one_line(&self.0.context))?;
        }
        // The source is written too: most services log only the first line of an error.
        if let Some(source) = &self.0.source {
            write!(f, " ({})", in_one_line(&source.to_string()))?;
        }
        Ok(())
    }
}

/// Other crates and servers say what they have to say in several.
fn in_one_line(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

/// The sentence of `Display`, since `main` and `unwrap` show this; the parts one by one with `{:#?}`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let Parts { kind, operation, key, context, source } = &*self.0;
        f.debug_struct("Error")
            .field("kind", kind)
            .field("operation", operation)
            .field("key", key)
            .field("context", context)
            .field("source", &source.as_ref().map(ToString::to_string))
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// A hold was lost while work ran under it: what [`Hold::run`](crate::Hold::run) answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub(crate) key: Arc<str>,
    pub(crate) reason: LostReason,
}

impl Lost {
    /// The key that was lost.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Why it was lost.
    pub fn reason(&self) -> LostReason {
        self.reason
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the hold on {:?} is lost: {}", self.key, self.reason)
    }
}

impl StdError for Lost {}

impl From<Lost> for Error {
    fn from(lost: Lost) -> Self {
        Error::lost(lost.reason).on(lost.key)
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_main_returns_reads_as_one_sentence() {
        let error = Error::new(ErrorKind::Unavailable, "no Redis answers at h:1")
            .in_operation("connect")
            .because(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        let sentence = "connect: unavailable: no Redis answers at h:1 (connection refused)";
        assert_eq!((error.to_string(), format!("{error:?}")), (sentence.to_owned(), sentence.to_owned()));
        let parts = format!("{error:#?}");
        assert!(parts.contains("kind: Unavailable") && parts.contains("\"connection refused\""), "{parts}");
    }

    #[test]
    fn what_others_say_in_several_lines_is_said_in_one() {
        let source = std::io::Error::other("Parse error at 1\nUnexpected `33`\n\n  Unexpected `60`\n");
        let error = Error::new(ErrorKind::Unavailable, "no\nanswer").because(source);
        assert_eq!(
            error.to_string(),
            "unavailable: no; answer (Parse error at 1; Unexpected `33`; Unexpected `60`)"
        );
    }
}
