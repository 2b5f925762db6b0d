//! Waiting for what several servers come to among themselves.

use tokio::time::{Instant, sleep};

use crate::binary::{AGAIN, READY};
use crate::error::ServerError;

/// Asks again and again until it is reached, since no server announces what it has come to. `what`
/// they did not do, and the `states` of all, which are asked for then, are the error.
pub(crate) async fn until<T>(
    what: &'static str,
    states: impl Future<Output = String>,
    mut reached: impl AsyncFnMut() -> Option<T>,
) -> Result<T, ServerError> {
    let deadline = Instant::now() + READY;
    loop {
        if let Some(reached) = reached().await {
            return Ok(reached);
        }
        if Instant::now() > deadline {
            return Err(ServerError::Ensemble { what, waited: READY, states: states.await });
        }
        sleep(AGAIN).await;
    }
}
