use std::fmt::Display;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, ErrorKind, Result};

tokio::task_local! {
    static BOUND: Bound;
}

#[derive(Clone)]
struct Bound {
    /// `None`: no end.
    until: Option<Instant>,
    noted: Arc<Mutex<Option<Error>>>,
}

/// Connects to `what` at `hosts` within the connect timeout. A nested call ends with the outer deadline at
/// the latest, and then its error is returned, which has more details.
///
/// # Errors
/// - `Unavailable` after `within`. The cause is the last [noted](note_failure) failure.
/// - The errors of `connecting`.
pub async fn connect_within<T>(
    within: Duration,
    what: impl Display,
    hosts: &[String],
    connecting: impl Future<Output = Result<T>>,
) -> Result<T> {
    let own = Instant::now().checked_add(within);
    let outer = BOUND.try_with(|outer| outer.until).ok().flatten();
    let bound = Bound { until: [own, outer].into_iter().flatten().min(), noted: Arc::default() };
    let connecting = BOUND.scope(bound.clone(), connecting);
    let Some(until) = bound.until else { return connecting.await };
    let mut connecting = pin!(timeout_at(until, connecting));
    let in_time = poll_fn(|context| match connecting.as_mut().poll(context) {
        // An outer bound whose time is over polls this one first, even if the timer of this one has not fired
        // yet.
        Poll::Pending if Instant::now() >= until => Poll::Ready(None),
        polled => polled.map(std::result::Result::ok),
    });
    if let Some(answer) = in_time.await {
        return answer;
    }
    let why = bound.noted.lock().take();
    let failed = match &why {
        Some(_) => format!("not connected to {what} at {hosts:?} within {within:?}"),
        None => format!("no {what} answered at {hosts:?} within {within:?}"),
    };
    Err(Error::new(ErrorKind::Unavailable, failed).because_of(why))
}

/// Notes why a try to connect failed, for the error of [`connect_within`].
pub fn note_failure(error: &Error) {
    let _ = BOUND.try_with(|bound| *bound.noted.lock() = Some(error.clone()));
}

/// Returns how long a request waits for a connection that another task opens: for the connect timeout, plus
/// the request timeout, so that the error of that task arrives.
pub fn opening_bound(connect_timeout: Duration, request_timeout: Duration) -> Duration {
    connect_timeout.saturating_add(request_timeout)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn within_another(earlier: Duration, connecting: impl Future<Output = Result<()>>) -> Error {
        let hosts = ["h:1".to_owned()];
        let inner = async {
            tokio::time::sleep(earlier).await;
            connect_within(SECOND, "the inner", &hosts, connecting).await
        };
        connect_within(SECOND, "the outer", &hosts, inner).await.expect_err("nothing answers")
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_bounds_the_inner_one_says_why() {
        for earlier in [0, 1, 40, 990] {
            let begun = Instant::now();
            let error = within_another(Duration::from_millis(earlier), pending()).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("no the inner answered at [\"h:1\"] within 1s"), "{error}");
            assert!(begun.elapsed() <= SECOND + Duration::from_millis(1), "{:?}", begun.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_failure_is_named_when_the_time_is_over_in_the_next_try() {
        let tries = async {
            for why in ["the first", "the second"] {
                note_failure(&Error::new(ErrorKind::Misconfigured, why));
            }
            pending().await
        };
        let error = within_another(Duration::ZERO, tries).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains("not connected to the inner") && text.contains("the second"), "{text}");
        assert!(!text.contains("the first"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn inner_failure_before_connecting_is_not_the_outer_cause() {
        let hosts = ["h:1".to_owned()];
        let connecting = async {
            let tries = async {
                note_failure(&Error::new(ErrorKind::Unavailable, "loading"));
                Ok(())
            };
            connect_within(SECOND, "the inner", &hosts, tries).await?;
            pending::<Result<()>>().await
        };
        let error = connect_within(SECOND, "the outer", &hosts, connecting).await.expect_err("it hangs");
        assert!(error.to_string().contains("no the outer answered"), "{error}");
        assert!(error.cause().is_none(), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn unlimited_time_sets_no_bound() {
        let answer = connect_within(Duration::MAX, "it", &[], async { Ok(7) }).await;
        assert_eq!(answer.expect("it answers"), 7);
    }
}
