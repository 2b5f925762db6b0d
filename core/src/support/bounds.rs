//! How long connecting may take, and how long a request waits for it.

use std::fmt::Display;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// Connects to `what` at `hosts`, bounded by the connect timeout.
///
/// # Errors
/// Those of `connecting`; `Unavailable` when it takes longer than `within`.
///
/// # Cancel safety
/// As that of `connecting`.
pub async fn connect_within<T>(
    within: Duration,
    what: impl Display,
    hosts: &[String],
    connecting: impl Future<Output = Result<T>>,
) -> Result<T> {
    match tokio::time::timeout(within, connecting).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("no {what} answered at {hosts:?} within {within:?}"),
        )),
    }
}

/// How long a request waits for a connection that another task opens. The connect timeout bounds
/// that task; the request timeout on top lets its error arrive before the wait ends without one.
pub fn opening_bound(connect_timeout: Duration, request_timeout: Duration) -> Duration {
    connect_timeout.saturating_add(request_timeout)
}
