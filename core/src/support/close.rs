use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::Handle;

use super::SharedTask;
use crate::error::Result;

/// The time that a caller waits longer, to get the error of the close.
const GRACE: Duration = Duration::from_millis(100);

/// Closes a client once, in a separate task. Every caller gets the result, and the close continues if a
/// caller gives up or its runtime ends.
#[derive(Debug, Default)]
pub struct CloseOnce(OnceLock<SharedTask<Result<()>>>);

impl CloseOnce {
    /// Waits for the close, which the first call starts.
    ///
    /// `begin` runs at once in the caller, for work that must happen even if nothing drives `runtime`. Its
    /// future runs on `runtime`, and must end within the request timeout.
    ///
    /// # Errors
    /// * `Unavailable` if the close does not end within the request timeout plus 100 ms.
    /// * The errors of the close.
    ///
    /// # Cancel safety
    /// The close continues.
    pub async fn close<F>(
        &self,
        runtime: &Handle,
        request_timeout: Duration,
        begin: impl FnOnce() -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let closing = self.0.get_or_init(|| SharedTask::begin(runtime, begin())).clone();
        closing.wait_within(request_timeout.saturating_add(GRACE), "the close").await?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::FutureExt;
    use tokio::sync::Notify;

    use super::*;
    use crate::error::{Error, ErrorKind};

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_close_begins_once_and_answers_every_caller() {
        let (close, begun, may_end) = (CloseOnce::default(), AtomicU32::new(0), Arc::new(Notify::new()));
        let runtime = Handle::current();
        let call = || {
            close.close(&runtime, SECOND, || {
                begun.fetch_add(1, Ordering::Relaxed);
                let may_end = Arc::clone(&may_end);
                async move {
                    may_end.notified().await;
                    Err(Error::new(ErrorKind::Unavailable, "planted"))
                }
            })
        };
        assert!(call().now_or_never().is_none(), "the first caller gives up");
        may_end.notify_one();
        for _ in 0..2 {
            assert!(call().await.expect_err("the one answer").to_string().contains("planted"));
        }
        assert_eq!(begun.into_inner(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_close_without_an_answer_is_bounded() {
        let close = CloseOnce::default();
        let started = tokio::time::Instant::now();
        let error =
            close.close(&Handle::current(), SECOND, std::future::pending).await.expect_err("no answer");
        assert_eq!((error.kind(), started.elapsed()), (ErrorKind::Unavailable, SECOND + GRACE));
    }
}
