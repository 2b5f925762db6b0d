//! Assertions about errors.

use latchwork_core::{Error, ErrorKind, LostReason, Result};

/// Asserts that a request fails with this kind of error, and returns the error.
#[track_caller]
pub fn fails<T>(outcome: Result<T>, kind: ErrorKind, why: &str) -> Error {
    let error = outcome.map(drop).expect_err(why);
    assert_eq!(error.kind(), kind, "{why}: {error}");
    error
}

#[track_caller]
pub(crate) fn fails_for<T>(outcome: Result<T>, kind: ErrorKind, key: &str, why: &str) -> Error {
    let error = fails(outcome, kind, why);
    assert_eq!(error.key(), Some(key), "{error}");
    error
}

/// Asserts that an argument is refused by name.
#[track_caller]
pub fn refuses<T>(outcome: Result<T>, argument: &'static str) -> Error {
    fails(outcome, ErrorKind::InvalidArgument { name: argument }, "a bad argument")
}

/// Asserts that a hold or a waiter is lost for this reason.
#[track_caller]
pub fn is_lost<T>(outcome: Result<T>, reason: LostReason) -> Error {
    fails(outcome, ErrorKind::Lost(reason), "it was lost")
}

#[track_caller]
pub(crate) fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}
