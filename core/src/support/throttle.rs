//! Bounds a client's requests in flight, so that its renewals go first.
//!
//! *Why.* Thousands of tasks share one connection with the renewals of the client. Without a bound, their
//! requests would delay the next renewal, in the client's queue and in the server's, for longer than a lease
//! lives. So a request needs a pass. A renewal or proof of contact needs none, and at most [`AT_ONCE`]
//! requests are before it.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::error::{Error, ErrorKind, Result};

/// The most requests that a client has in flight. They use a slow link well (12,800 requests per second at a round trip
/// of 10 ms), and delay a renewal only little.
pub const AT_ONCE: usize = 128;

/// Limits the requests that one client has in flight, in first-in, first-out order. Renewals, proofs of contact and the
/// close of the client are not limited.
#[derive(Debug)]
pub struct Throttle(Semaphore);

/// The permission for one request, until it is dropped.
#[must_use = "the next request may go when this is dropped"]
#[derive(Debug)]
pub struct Pass<'a> {
    _permit: SemaphorePermit<'a>,
}

impl Throttle {
    /// Waits for a pass for a request with the time limit `within`. Returns the pass and the remaining time, which is at
    /// least half of `within`.
    ///
    /// # Errors
    /// `Unavailable` if no pass is free within half of the time. The request was not sent.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn take(&self, within: Duration) -> Result<(Pass<'_>, Duration)> {
        if let Ok(permit) = self.0.try_acquire() {
            return Ok((Pass { _permit: permit }, within));
        }
        let asked = Instant::now();
        match timeout(within / 2, self.0.acquire()).await {
            Ok(Ok(permit)) => Ok((Pass { _permit: permit }, within.saturating_sub(asked.elapsed()))),
            _ => Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "the request was not sent: this client has {AT_ONCE} requests in flight, and others wait before it"
                ),
            )),
        }
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const TIME: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn passes_come_in_order_with_the_time_that_is_left() {
        let throttle = Throttle::default();
        let mut taken = Vec::new();
        for _ in 0..AT_ONCE {
            let (pass, left) = throttle.take(TIME).now_or_never().expect("nobody is before").expect("a pass");
            assert_eq!(left, TIME);
            taken.push(pass);
        }
        let (first, second) = (throttle.take(TIME), throttle.take(TIME));
        tokio::pin!(first, second);
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        tokio::time::advance(TIME / 4).await;
        taken.pop();
        assert!(throttle.take(TIME).now_or_never().is_none(), "it came later");
        assert!(second.as_mut().now_or_never().is_none(), "it came second");
        let (_pass, left) = first.now_or_never().expect("it is first").expect("in time");
        assert_eq!(left, TIME * 3 / 4);
        let error = second.await.expect_err("not in time");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        taken.clear();
        let _pass =
            throttle.take(TIME).now_or_never().expect("a request that gave up has no pass").expect("a pass");
    }
}
