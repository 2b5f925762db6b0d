//! A Redis with two replicas, whose links the test holds back: what a confirmed acquisition
//! survives, what it does not, and what it costs.

mod connection;
mod hand_off;
mod recipes;
pub(crate) mod replicas;

use std::time::Duration;

use latchwork_core::{Error, ErrorKind};

/// What a machine may be late by.
pub(crate) const NOISE: Duration = Duration::from_secs(2);

/// A time that is over soon where replicas do not confirm: they are asked within it, on a busy machine too.
pub(crate) const SOON: Duration = Duration::from_secs(3);

/// A request may take long.
pub(crate) const PATIENT: &str = "ttl=60s&request_timeout=20s";

/// Checks that an acquisition was refused because only `confirmed` of `asked` replicas have it.
pub(crate) fn is_unconfirmed(error: &Error, confirmed: u32, asked: u32) {
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("{confirmed} of {asked} replicas confirmed it within")), "{text}");
}
