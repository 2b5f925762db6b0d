//! Bounds a client's requests in flight, so that its renewals go first.
//!
//! Thousands of tasks share a connection with the client's renewals. Without a bound their requests would
//! delay a renewal, in the client and in the server, for longer than a lease lives. So a request needs a
//! pass, and a renewal or proof of contact does not: at most [`AT_ONCE`] requests are before it. A request
//! that is not polled keeps its pass only for its time limit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::error::{Error, ErrorKind, Result};

/// The most requests of a client in flight. They use a slow link well (12,800 requests per second at a round
/// trip of 10 ms), and delay a renewal little.
pub const AT_ONCE: usize = 128;

/// Limits a client's requests in flight, first in, first out. Renewals, proofs of contact and the close are
/// not limited.
#[derive(Debug)]
pub struct Throttle {
    most: usize,
    turns: Mutex<Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    last: u64,
    // The ends of the time limits and the numbers of requests with a pass.
    passed: BTreeSet<(Instant, u64)>,
    waiting: BTreeMap<u64, (Instant, oneshot::Sender<()>)>,
}

impl Turns {
    /// Gives free passes, and passes whose time is over, to waiting requests.
    fn hand_on(&mut self, now: Instant, most: usize) {
        while self.passed.first().is_some_and(|(until, _)| *until <= now) {
            self.passed.pop_first();
        }
        while self.passed.len() < most
            && let Some((number, (until, waiter))) = self.waiting.pop_first()
        {
            if until > now && waiter.send(()).is_ok() {
                self.passed.insert((until, number));
            }
        }
    }

    fn is_free(&mut self, now: Instant, most: usize) -> bool {
        self.hand_on(now, most);
        self.waiting.is_empty() && self.passed.len() < most
    }
}

/// The permission for one request, until the drop.
#[must_use = "the next request may go when this is dropped"]
#[derive(Debug)]
pub struct Pass<'a> {
    throttle: &'a Throttle,
    until: Instant,
    number: u64,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut turns = self.throttle.turns.lock();
        if turns.passed.remove(&(self.until, self.number)) {
            turns.hand_on(Instant::now(), self.throttle.most);
        } else {
            turns.waiting.remove(&self.number);
        }
    }
}

impl Throttle {
    /// Creates a throttle with at most this number of requests in flight.
    pub fn of(most: usize) -> Self {
        Self { most, turns: Mutex::default() }
    }

    /// Waits for a pass. Returns it with the remaining part of `within`, at least half of it. The pass counts
    /// until it is dropped, and at most for `within`.
    ///
    /// # Errors
    /// `Unavailable` if no pass is free within half of the time. The request was not sent.
    ///
    /// # Cancel safety
    /// Cancel-safe. A call that is not polled blocks others for at most `within`.
    pub async fn take(&self, within: Duration) -> Result<(Pass<'_>, Duration)> {
        let asked = Instant::now();
        let (pass, passed) = self.ask(asked, within);
        let Some(mut passed) = passed else { return Ok((pass, within)) };
        let give_up = asked + within / 2;
        while Instant::now() < give_up || !passed.is_empty() {
            let next_free = {
                let mut turns = self.turns.lock();
                turns.hand_on(Instant::now(), self.most);
                turns.passed.first().map_or(give_up, |(until, _)| *until)
            };
            tokio::select! {
                biased;
                Ok(()) = &mut passed => return Ok((pass, within.saturating_sub(asked.elapsed()))),
                () = sleep_until(next_free.min(give_up)) => {}
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "the request was not sent: this client has {} requests in flight, and others wait before it",
                self.most
            ),
        ))
    }

    /// Gives a request a pass, or queues it. Then the receiver reports the pass.
    fn ask(&self, now: Instant, within: Duration) -> (Pass<'_>, Option<oneshot::Receiver<()>>) {
        let (until, mut turns) = (now + within, self.turns.lock());
        turns.last += 1;
        let pass = Pass { throttle: self, until, number: turns.last };
        if turns.is_free(now, self.most) {
            turns.passed.insert((until, pass.number));
            return (pass, None);
        }
        let (sender, passed) = oneshot::channel();
        turns.waiting.insert(pass.number, (until, sender));
        (pass, Some(passed))
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Self::of(AT_ONCE)
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

    #[tokio::test(start_paused = true)]
    async fn requests_that_are_not_polled_keep_their_passes_for_their_time_only() {
        let throttle = Throttle::default();
        let mut kept = Vec::new();
        for _ in 0..2 * AT_ONCE {
            let mut request =
                Box::pin(async { (throttle.take(TIME).await, std::future::pending::<()>().await) });
            assert!(request.as_mut().now_or_never().is_none());
            kept.push(request);
        }
        tokio::time::advance(TIME * 3 / 4).await;
        let (_pass, left) = throttle.take(TIME).await.expect("the time of the others is over");
        assert_eq!(left, TIME * 3 / 4);
    }
}
