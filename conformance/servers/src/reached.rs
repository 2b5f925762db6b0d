use tokio::time::{Instant, sleep};

use crate::binary::{AGAIN, READY};
use crate::error::ServerError;

/// Polls, because servers do not announce a state. The error names the missing state (`what`).
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
