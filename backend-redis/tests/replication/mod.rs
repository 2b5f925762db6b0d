//! A Redis with two replicas, whose links the test delays: the failures that a confirmed
//! acquisition survives or does not survive, and its cost.

mod connection;
mod hand_off;
mod recipes;
pub(crate) mod replicas;

use std::time::Duration;

use latchwork_core::{Error, ErrorKind};

/// The allowed delay of the machine.
pub(crate) const NOISE: Duration = Duration::from_secs(2);

/// A short time limit for tests in which replicas do not confirm. Even on a busy machine, the
/// replicas are asked within it.
pub(crate) const SOON: Duration = Duration::from_secs(3);

/// Options with a long request timeout.
pub(crate) const PATIENT: &str = "ttl=60s&request_timeout=20s";

/// Checks that an acquisition was refused because only `confirmed` of `asked` replicas have it.
pub(crate) fn is_unconfirmed(error: &Error, confirmed: u32, asked: u32) {
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("{confirmed} of {asked} replicas confirmed it within")), "{text}");
}
