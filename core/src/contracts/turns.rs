//! So many requests of a client at a time, and its renewals before them.
//!
//! *Why.* Whatever a program asks for at once, by thousands of tasks, shares its client's connection with the renewals of what the client
//! holds. Sent as it comes, it stands before the next renewal, in the client's queue and in the server's, for longer than a lease may
//! have. So a request takes its turn, and a renewal or proof of contact takes none: it never stands behind more than [`AT_ONCE`].

use std::fmt;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::error::{Error, ErrorKind, Result};

/// Requests of one client on their way at once: enough to keep a server busy over a long way (of 10 ms, 12,800 a second), and few beside
/// the time of a lease.
pub const AT_ONCE: usize = 128;

/// The turns of one client's requests, in the order in which they are asked for. Renewals, proofs of contact and the end of the client
/// go without.
pub struct Turns(Semaphore);

/// One request's turn, until it is dropped.
#[must_use = "the turn is over when this is dropped"]
#[derive(Debug)]
pub struct Turn<'a> {
    _permit: SemaphorePermit<'a>,
}

impl Turns {
    /// Waits for a turn, for a request that has this time in all. Answers what is left of it: all of it where nobody is before, and
    /// half of it at the least.
    ///
    /// # Errors
    /// `Unavailable` when no turn came in half of the time: the request was surely not sent.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn take(&self, within: Duration) -> Result<(Turn<'_>, Duration)> {
        if let Ok(permit) = self.0.try_acquire() {
            return Ok((Turn { _permit: permit }, within));
        }
        let asked = Instant::now();
        match timeout(within / 2, self.0.acquire()).await {
            Ok(Ok(permit)) => Ok((Turn { _permit: permit }, within.saturating_sub(asked.elapsed()))),
            _ => Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "{AT_ONCE} requests of this client are under way, and more before this one: it was not sent"
                ),
            )),
        }
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("free", &self.0.available_permits()).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const TIME: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn turns_come_in_order_and_what_is_left_of_the_time_is_told() {
        let turns = Turns::default();
        let mut taken = Vec::new();
        for _ in 0..AT_ONCE {
            let (turn, left) = turns.take(TIME).now_or_never().expect("nobody is before").expect("a turn");
            assert_eq!(left, TIME);
            taken.push(turn);
        }
        let (first, second) = (turns.take(TIME), turns.take(TIME));
        tokio::pin!(first, second);
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        tokio::time::advance(TIME / 4).await;
        taken.pop();
        assert!(turns.take(TIME).now_or_never().is_none(), "it came later");
        assert!(second.as_mut().now_or_never().is_none(), "it is not its turn");
        let (_turn, left) = first.now_or_never().expect("its turn").expect("in time");
        assert_eq!(left, TIME * 3 / 4);
        let error = second.await.expect_err("not in time");
        assert_eq!(error.kind(), &ErrorKind::Unavailable);
        taken.clear();
        let _turn = turns.take(TIME).now_or_never().expect("who gave up has no turn").expect("a turn");
    }
}
