use std::future::Future;

use latchwork_core::backend::LeaseWriter;
use latchwork_core::backend::decide::renewal_period;
use latchwork_core::{Error, ErrorKind};
use tokio::task::JoinSet;

use crate::error::{Answer, Failure};

/// The number of requests that start in a period without an answer, if fewer than [`MOST`] are under way.
const PER_PERIOD: u32 = 8;

/// The number of requests under way. Each stream that is opened has its own confirmations, so without a bound
/// their number grows with the square of the time.
const MOST: usize = 4;

/// The requests under way. Dropping it ends them.
pub(super) struct InTurn<T>(JoinSet<Answer<T>>);

impl<T> Default for InTurn<T> {
    fn default() -> Self {
        Self(JoinSet::new())
    }
}

impl<T: Send + 'static> InTurn<T> {
    pub(super) fn add(&mut self, request: impl Future<Output = Answer<T>> + Send + 'static) {
        self.0.spawn(request);
    }

    /// Starts requests one after another, and returns the first answer. A failed request is ignored while
    /// there are others.
    pub(super) async fn first<F>(mut self, lease: &LeaseWriter, request: impl Fn() -> F) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + Send + 'static,
    {
        let clock = lease.clock();
        loop {
            lease.tick();
            if let Some(reason) = lease.lost() {
                return Err(Error::lost(reason).into());
            }
            if self.0.len() < MOST {
                self.add(request());
            }
            let again = clock.now() + renewal_period(lease.ttl()) / PER_PERIOD;
            tokio::select! {
                Some(answer) = first_of(&mut self.0) => return answer,
                () = clock.sleep_until(again) => {}
                _ = lease.until_lost() => {}
            }
        }
    }
}

/// The first request that is answered or finds the lease gone. If all fail, the failure of the last. `None`:
/// the set is empty.
///
/// Cancel-safe: only failed requests are removed.
async fn first_of<T: 'static>(requests: &mut JoinSet<Answer<T>>) -> Option<Answer<T>> {
    loop {
        let answer = requests.join_next().await?.unwrap_or_else(|died| {
            Err(Error::new(ErrorKind::OutcomeUnknown, "the task of a renewal died").because(died).into())
        });
        match answer {
            Err(Failure::Full(error) | Failure::TooLong(error) | Failure::Other(error))
                if !requests.is_empty() =>
            {
                tracing::debug!(%error, "one of several requests for a renewal failed");
            }
            last => return Some(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures_util::FutureExt;
    use latchwork_core::{Clock, LostReason};
    use tokio::sync::oneshot;

    use super::*;

    fn stream(streams: &mut JoinSet<Answer<u32>>) -> oneshot::Sender<Answer<u32>> {
        let (sender, receiver) = oneshot::channel();
        streams.spawn(async move { receiver.await.expect("an error of the test: the stream died") });
        sender
    }

    fn failure() -> Answer<u32> {
        Err(Error::new(ErrorKind::Unavailable, "planted").into())
    }

    #[tokio::test]
    async fn failed_stream_is_skipped_while_other_streams_may_answer() {
        let mut streams = JoinSet::new();
        assert!(first_of(&mut streams).await.is_none());
        let [one, another, third] = [(); 3].map(|()| stream(&mut streams));
        one.send(failure()).unwrap();
        drop(another);
        while streams.len() > 1 {
            assert!(first_of(&mut streams).now_or_never().is_none(), "another stream may answer");
            tokio::task::yield_now().await;
        }
        third.send(Ok(3)).unwrap();
        assert_eq!(first_of(&mut streams).await.unwrap().ok(), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_an_answer_are_bounded() {
        let clock = Clock::tokio();
        let lease = LeaseWriter::new(clock.clone(), Duration::from_secs(40), clock.now());
        let (begun, counted) = (Arc::new(AtomicUsize::new(0)), InTurn::<()>::default());
        let silent = || {
            begun.fetch_add(1, Ordering::Relaxed);
            std::future::pending()
        };
        let Err(Failure::Other(error)) = counted.first(&lease, silent).await else {
            panic!("no answer came")
        };
        assert_eq!(error.lost_reason(), Some(LostReason::Expired));
        assert_eq!(begun.load(Ordering::Relaxed), MOST);
    }

    #[tokio::test]
    async fn a_lost_lease_is_reported_at_once_and_a_failure_by_the_last_stream() {
        let mut streams = JoinSet::new();
        let [one, another] = [(); 2].map(|()| stream(&mut streams));
        one.send(Err(Failure::LeaseGone)).unwrap();
        assert!(matches!(first_of(&mut streams).await, Some(Err(Failure::LeaseGone))));
        another.send(failure()).unwrap();
        assert!(matches!(first_of(&mut streams).await, Some(Err(Failure::Other(_)))));
    }
}
