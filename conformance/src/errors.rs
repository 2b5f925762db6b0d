//! Assertions about errors.

use latchwork_core::{Error, ErrorKind, LostReason, Result};

/// Asserts that a request fails with this kind of error, and returns the error. `why` is the reason for the failure.
///
/// # Panics
/// If it succeeds, or fails with another kind of error.
#[track_caller]
pub fn fails<T>(outcome: Result<T>, kind: ErrorKind, why: &str) -> Error {
    let error = outcome.map(drop).expect_err(why);
    assert_eq!(error.kind(), kind, "{why}: {error}");
    error
}

/// Asserts the same as [`fails`], and that the error names this key.
#[track_caller]
pub(crate) fn fails_for<T>(outcome: Result<T>, kind: ErrorKind, key: &str, why: &str) -> Error {
    let error = fails(outcome, kind, why);
    assert_eq!(error.key(), Some(key), "{error}");
    error
}

/// Asserts that an argument is refused, and that the error names it.
///
/// # Panics
/// If it does not hold.
#[track_caller]
pub fn refuses<T>(outcome: Result<T>, argument: &'static str) -> Error {
    fails(outcome, ErrorKind::InvalidArgument { name: argument }, "a bad argument")
}

/// Asserts that a hold or a waiter is lost for this reason.
///
/// # Panics
/// If it does not hold.
#[track_caller]
pub fn is_lost<T>(outcome: Result<T>, reason: LostReason) -> Error {
    fails(outcome, ErrorKind::Lost(reason), "it was lost")
}

/// Asserts that the text of an error contains each of these parts.
#[track_caller]
pub(crate) fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}
