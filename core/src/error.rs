mod kind;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::kind::{ErrorKind, LostReason};
use crate::shown::{SENTENCE, in_millis, sentence, shown};

/// The result of the fallible calls of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// An error with its kind, operation, key, context and cause.
///
/// `Display` shows all of them in one line, because many services log only the first line. `source()` starts
/// after the causes in this line; [`cause`](Error::cause) returns the direct cause. Foreign text is escaped
/// and shortened, so it cannot control a terminal.
#[derive(Clone)]
pub struct Error(Box<Parts>);

#[derive(Clone)]
struct Parts {
    kind: ErrorKind,
    operation: Option<&'static str>,
    key: Option<Arc<str>>,
    context: Cow<'static, str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    // Whether the call may have been carried out although its kind says the contrary.
    perhaps_done: bool,
    // Whether a server that runs has answered.
    refused: bool,
}

impl Error {
    /// Creates an error of a kind. `context` says what failed and what to do.
    pub fn new(kind: ErrorKind, context: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Parts {
            kind,
            operation: None,
            key: None,
            context: context.into(),
            source: None,
            perhaps_done: false,
            refused: false,
        }))
    }

    /// Creates an `InvalidArgument`: `why` says what is wrong with the argument `name`.
    pub fn invalid(name: &'static str, why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidArgument { name }, why)
    }

    /// Creates a `Lost`.
    pub fn lost(reason: LostReason) -> Self {
        Self::new(ErrorKind::Lost(reason), "")
    }

    /// Creates a `Forbidden`: the login lacks the call or right `what`; `why` is the remedy or the server's
    /// text.
    pub fn forbidden(what: &str, why: &str) -> Self {
        Self::new(ErrorKind::Forbidden, joined(what, why))
    }

    /// Creates a `WrongServer`: `saw` is the server that answered, and `at` its address.
    pub fn wrong_server(expected: &'static str, saw: &str, at: &str) -> Self {
        Self::new(ErrorKind::WrongServer, joined(&format!("expected {expected}, saw {saw}"), at))
    }

    /// Creates a `Closed`.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the coordinator was closed")
    }

    /// Creates an `Unsupported`: `capability` is the [capability](crate::Capabilities) that the backend lacks.
    pub fn unsupported(capability: &'static str, why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unsupported { capability }, why)
    }

    /// Adds the operation that failed, unless one is set already.
    #[must_use]
    pub fn in_operation(mut self, operation: &'static str) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Adds the key, unless one is set already.
    #[must_use]
    pub fn on(mut self, key: impl Into<Arc<str>>) -> Self {
        self.0.key.get_or_insert_with(|| key.into());
        self
    }

    /// Adds the request, the address and the duration to an `Unavailable` or `OutcomeUnknown`: `join at
    /// 10.0.0.7:6379 after 2.001s: the server was silent`. Other kinds do not change. For backends.
    #[must_use]
    pub fn tried(mut self, what: &str, at: &str, took: Duration) -> Self {
        if matches!(self.0.kind, ErrorKind::Unavailable | ErrorKind::OutcomeUnknown) {
            let took = in_millis(took);
            let context = std::mem::take(&mut self.0.context);
            self.0.context = match &*context {
                "" => format!("{what} at {at} after {took:?}"),
                context => format!("{what} at {at} after {took:?}: {context}"),
            }
            .into();
        }
        self
    }

    /// Turns an `OutcomeUnknown` into `Unavailable`, for a request that is harmless to repeat. Other kinds do
    /// not change. For backends.
    #[must_use]
    pub fn of_harmless(self, context: &'static str) -> Self {
        match self.0.kind {
            ErrorKind::OutcomeUnknown => Self::new(ErrorKind::Unavailable, context).because(self),
            _ => self,
        }
    }

    /// Marks the call as possibly done, so the error is not retryable.
    #[cfg(feature = "blocking")]
    #[must_use]
    pub(crate) fn perhaps_done(mut self) -> Self {
        self.0.perhaps_done = true;
        self
    }

    /// Marks an `Unavailable` as the answer of a server that runs, for example without memory. For backends.
    #[must_use]
    pub fn of_refusal(mut self) -> Self {
        self.0.refused = true;
        self
    }

    /// Returns whether this error, or one of its causes, is the answer of a server that runs and refuses the
    /// request, with the remedy. Otherwise an `Unavailable` means that no server has answered.
    pub fn is_refusal(&self) -> bool {
        let cause = self.0.source.as_deref().and_then(|cause| cause.downcast_ref::<Self>());
        self.0.refused || cause.is_some_and(Self::is_refusal)
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Adds the cause, if there is one.
    #[must_use]
    pub fn because_of(self, source: Option<impl StdError + Send + Sync + 'static>) -> Self {
        match source {
            Some(source) => self.because(source),
            None => self,
        }
    }

    /// Returns the direct cause: an error of this library, or of the client crate. Its text is not escaped.
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.0.source.as_deref()
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the operation that failed.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// Returns the key.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Returns the name of the argument, for `InvalidArgument`.
    pub fn argument(&self) -> Option<&'static str> {
        match self.0.kind {
            ErrorKind::InvalidArgument { name } => Some(name),
            _ => None,
        }
    }

    /// Returns the reason of the loss, for `Lost`.
    pub fn lost_reason(&self) -> Option<LostReason> {
        match self.0.kind {
            ErrorKind::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns whether the same call may succeed later, and this call had no effect on the server.
    ///
    /// `OutcomeUnknown` is not retryable: a retry of `counter.add` would count twice. Neither is the
    /// `Timeout` of `block_on_timeout`.
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unavailable | ErrorKind::Timeout) && !self.0.perhaps_done
    }

    /// Returns whether the error is [retryable](Self::is_retryable) or an `OutcomeUnknown`, for code that can
    /// find out an unknown outcome, or whose request is harmless to repeat.
    pub fn may_pass(&self) -> bool {
        self.is_retryable() || self.0.kind == ErrorKind::OutcomeUnknown
    }
}

fn joined(what: &str, why: &str) -> String {
    match why {
        "" => what.to_owned(),
        why => format!("{}: {why}", shown(what, SENTENCE / 2)),
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
        match self.0.kind {
            ErrorKind::InvalidArgument { name } => write!(f, "invalid argument `{name}`")?,
            ErrorKind::Timeout => f.write_str("the deadline passed")?,
            ErrorKind::Lost(reason) => write!(f, "lost: {reason}")?,
            ErrorKind::NotHeld => f.write_str("not held")?,
            ErrorKind::Deadlock => f.write_str("deadlock: the owner would wait for itself")?,
            ErrorKind::Conflict => f.write_str("conflict")?,
            ErrorKind::Unsupported { capability } => write!(f, "unsupported here: {capability}")?,
            ErrorKind::Forbidden => f.write_str("forbidden")?,
            ErrorKind::Unavailable => f.write_str("unavailable")?,
            ErrorKind::OutcomeUnknown => f.write_str("outcome unknown")?,
            ErrorKind::Misconfigured => f.write_str("misconfigured")?,
            ErrorKind::WrongServer => f.write_str("wrong server")?,
            ErrorKind::Closed => f.write_str("closed")?,
            ErrorKind::RuntimeGone => f.write_str("the coordinator's runtime has ended")?,
            ErrorKind::InChildProcess => f.write_str("a blocking call in a forked process")?,
            ErrorKind::InAsyncCode => f.write_str("a blocking call in async code")?,
        }
        if !self.0.context.is_empty() {
            write!(f, ": {}", sentence(&self.0.context))?;
        }
        if let Some(source) = &self.0.source {
            write!(f, " ({})", sentence(&source.to_string()))?;
        }
        Ok(())
    }
}

/// `main` and `unwrap` show the text of `Display`; `{:#?}` shows the parts.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let Parts { kind, operation, key, context, source, perhaps_done: _, refused: _ } = &*self.0;
        f.debug_struct("Error")
            .field("kind", kind)
            .field("operation", operation)
            .field("key", key)
            .field("context", &sentence(context))
            .field("source", &source.as_ref().map(|source| sentence(&source.to_string())))
            .finish()
    }
}

impl StdError for Error {
    /// Returns the first cause after [`cause`](Error::cause) that `Display` does not show.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let said = self.to_string();
        let mut cause = self.0.source.as_deref()?.source();
        while let Some(error) = cause
            && said.contains(&sentence(&error.to_string()))
        {
            cause = error.source();
        }
        cause
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
    fn refusal_is_known_through_the_errors_that_it_caused() {
        let full = Error::new(ErrorKind::Unavailable, "out of memory").of_refusal();
        let around = Error::new(ErrorKind::Unavailable, "not registered").because(full);
        assert!(Error::new(ErrorKind::Unavailable, "no connect").because(around).is_refusal());
        let silent = Error::new(ErrorKind::Unavailable, "silent");
        assert!(!Error::new(ErrorKind::Unavailable, "no connect").because(silent).is_refusal());
    }

    #[test]
    fn multiline_foreign_text_is_joined_into_one_line() {
        let source = std::io::Error::other("Parse error at 1\nUnexpected `33`\n\n  Unexpected `60`\n");
        let error = Error::new(ErrorKind::Unavailable, "no\nanswer").because(source);
        assert_eq!(
            error.to_string(),
            "unavailable: no; answer (Parse error at 1; Unexpected `33`; Unexpected `60`)"
        );
    }

    #[test]
    fn outage_error_names_operation_server_and_duration() {
        let tried = |kind| {
            Error::new(kind, "the server was silent").tried(
                "join",
                "h:1",
                Duration::from_nanos(2_001_000_777),
            )
        };
        assert_eq!(
            tried(ErrorKind::OutcomeUnknown).to_string(),
            "outcome unknown: join at h:1 after 2.001s: the server was silent"
        );
        assert_eq!(tried(ErrorKind::Conflict).to_string(), "conflict: the server was silent");
    }

    #[derive(Debug)]
    struct Other(&'static str, Option<Box<Other>>);

    impl fmt::Display for Other {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Other {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    /// As `anyhow` and its like print it.
    fn chain(error: &dyn StdError) -> String {
        let (mut printed, mut cause) = (error.to_string(), error.source());
        while let Some(error) = cause {
            printed += &format!("\ncaused by: {error}");
            cause = error.source();
        }
        printed
    }

    #[test]
    fn a_chain_of_causes_says_nothing_twice() {
        let refused = || Some(Box::new(Other("connection refused", None)));
        for (cause, printed) in [
            (Other("no route", None), "unavailable: no answer (no route)"),
            // A client crate whose error includes its cause, and a crate that leaves the cause to the chain.
            (
                Other("transport: connection refused", refused()),
                "unavailable: no answer (transport: connection refused)",
            ),
            (
                Other("transport", refused()),
                "unavailable: no answer (transport)\ncaused by: connection refused",
            ),
        ] {
            let error = Error::new(ErrorKind::Unavailable, "no answer").because(cause);
            assert_eq!(chain(&error), printed);
            // An error of this library as the cause of another one.
            let outer = Error::new(ErrorKind::Timeout, "not acquired").because(error);
            let (line, rest) = printed.split_once('\n').map_or((printed, ""), |(line, rest)| (line, rest));
            let outer_printed = chain(&outer);
            assert!(
                outer_printed.starts_with(&format!("the deadline passed: not acquired ({line})")),
                "{outer_printed}"
            );
            assert!(outer_printed.ends_with(rest), "{outer_printed}");
            assert_eq!(outer_printed.matches("no answer").count(), 1, "{outer_printed}");
            assert!(outer.cause().and_then(|cause| cause.downcast_ref::<Error>()).is_some());
        }
    }

    #[test]
    fn server_text_in_errors_cannot_control_a_terminal() {
        let evil = "-ERR \u{1b}[2Jgone\u{202e}\n".to_owned() + &"x".repeat(900_000);
        let errors = [
            Error::new(ErrorKind::Unavailable, evil.clone()),
            Error::forbidden(&evil, &evil),
            Error::wrong_server("redis", &evil, &evil),
        ];
        for error in errors {
            let error =
                error.on(evil.get(..20).unwrap_or_default()).because(std::io::Error::other(evil.clone()));
            let error = Error::new(ErrorKind::OutcomeUnknown, "no answer").because(error);
            for text in [
                error.to_string(),
                format!("{error:?}"),
                format!("{error:#?}"),
                chain(&error),
                format!("{:?}", error.kind()),
            ] {
                let text = text.replace('\n', "");
                assert!(crate::shown::hidden(&text).is_none() && text.len() < 4_000, "{text:?}");
            }
        }
    }
}
