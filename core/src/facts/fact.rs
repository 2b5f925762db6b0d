use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};

/// A fact about a server, or the reason why it is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// The server reports it.
    Told(T),
    /// The server does not report it, for this reason.
    Untold(Cow<'static, str>),
    /// The login lacks this right.
    Forbidden(Cow<'static, str>),
}

impl<T> Fact<T> {
    /// Creates an unknown fact with its reason.
    pub const fn untold(why: &'static str) -> Self {
        Self::Untold(Cow::Borrowed(why))
    }

    /// Creates a fact from the answer to a request that needs this `right`. A refusal (`Forbidden`,
    /// `Misconfigured`, `Unsupported`) makes an unknown fact.
    ///
    /// # Errors
    /// All other errors of the request.
    pub fn of(answer: Result<T>, right: &'static str) -> Result<Self> {
        match answer {
            Ok(told) => Ok(Self::Told(told)),
            Err(error) => Self::refused(error, right),
        }
    }

    fn refused(error: Error, right: &'static str) -> Result<Self> {
        match error.kind() {
            ErrorKind::Forbidden => Ok(Self::Forbidden(right.into())),
            ErrorKind::Misconfigured | ErrorKind::Unsupported { .. } => {
                Ok(Self::Untold(format!("the server refuses {right}").into()))
            }
            _ => Err(error),
        }
    }

    /// Returns the fact if it is known.
    pub fn told(&self) -> Option<&T> {
        match self {
            Self::Told(fact) => Some(fact),
            Self::Untold(_) | Self::Forbidden(_) => None,
        }
    }

    /// Borrows the fact.
    pub fn as_ref(&self) -> Fact<&T> {
        match self {
            Self::Told(fact) => Fact::Told(fact),
            Self::Untold(why) => Fact::Untold(why.clone()),
            Self::Forbidden(right) => Fact::Forbidden(right.clone()),
        }
    }

    /// Maps a known fact.
    pub fn map<U>(self, follows: impl FnOnce(T) -> U) -> Fact<U> {
        self.and_then(|fact| Fact::Told(follows(fact)))
    }

    /// Maps a known fact to one that may be unknown.
    pub fn and_then<U>(self, follows: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Told(fact) => follows(fact),
            Self::Untold(why) => Fact::Untold(why),
            Self::Forbidden(right) => Fact::Forbidden(right),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Fact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told(fact) => fact.fmt(f),
            Self::Untold(why) => write!(f, "unknown: {why}"),
            Self::Forbidden(right) => write!(f, "unknown: the login may not use {right}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_reason_and_silence_an_error() {
        let of = |kind| Fact::<u8>::of(Err(Error::new(kind, "words")), "INFO");
        let forbidden = of(ErrorKind::Forbidden).expect("a reason");
        assert_eq!(forbidden, Fact::Forbidden("INFO".into()));
        assert_eq!(forbidden.to_string(), "unknown: the login may not use INFO");
        assert_eq!(of(ErrorKind::Misconfigured).expect("a reason").told(), None);
        assert_eq!(of(ErrorKind::Unavailable).expect_err("nothing is known").kind(), ErrorKind::Unavailable);
        assert_eq!(Fact::of(Ok(7), "INFO").expect("told").map(|seven| seven + 1), Fact::Told(8));
        assert_eq!(Fact::Told(7).and_then(|_| Fact::<u8>::untold("why")), Fact::untold("why"));
        assert_eq!(forbidden.as_ref().and_then(|_| Fact::Told(8)), Fact::Forbidden("INFO".into()));
    }
}
