//! A Redis with two replicas, whose links the test holds back: what a confirmed acquisition
//! survives, what it does not, and what it costs.

mod connection;
mod hand_off;
mod recipes;
pub(crate) mod replicas;

use std::time::Duration;

use latchwork_core::recipes::Acquire;
use latchwork_core::{Coordinator, Error, ErrorKind};

use crate::common::coordinators::at;

/// What a machine may be late by.
pub(crate) const NOISE: Duration = Duration::from_secs(2);

/// The time of [`by`].
const SOON: Duration = Duration::from_secs(3);

/// A request may take long.
pub(crate) const PATIENT: &str = "ttl=60s&request_timeout=20s";

pub(crate) async fn user(url: &str) -> Coordinator {
    at(url).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Confirmed by so many, in a time that is over soon where they do not: they are asked within it, on a busy
/// machine too.
pub(crate) fn by(replicas: u32) -> Acquire {
    Acquire::new().min_replicas(replicas).within(SOON)
}

/// Confirmed by so many, however busy the machine is. For clients with [`PATIENT`] in their URL.
pub(crate) fn surely_by(replicas: u32) -> Acquire {
    Acquire::new().min_replicas(replicas)
}

/// Checks that an acquisition was refused because only `confirmed` of `asked` replicas have it.
pub(crate) fn is_unconfirmed(error: &Error, confirmed: u32, asked: u32) {
    assert_eq!((error.kind(), error.is_retryable()), (&ErrorKind::Unavailable, true), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("{confirmed} of {asked} replicas confirmed it within")), "{text}");
}
