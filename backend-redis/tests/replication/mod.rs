//! A Redis with two replicas, whose links the test delays.

mod connection;
mod hand_off;
mod recipes;
pub(crate) mod replicas;

use std::time::Duration;

use latchwork_core::{Error, ErrorKind};

/// The delay of a busy machine.
pub(crate) const NOISE: Duration = Duration::from_secs(2);

/// The replicas are asked within it, even on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(3);

pub(crate) const PATIENT: &str = "ttl=60s&request_timeout=20s";

pub(crate) fn is_unconfirmed(error: &Error, confirmed: u32, asked: u32) {
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("{confirmed} of {asked} replicas confirmed it within")), "{text}");
}
