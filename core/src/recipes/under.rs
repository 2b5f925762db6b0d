//! Work under a hold, from its acquisition to its release.

use crate::error::{Error, Result};
use crate::hold::{Hold, Release};

/// Runs `work` under the hold, and releases it.
pub(super) async fn under<H: Hold, T>(hold: H, work: impl AsyncFnOnce(&H) -> T) -> Result<T> {
    let done = hold.run(work(&hold)).await?;
    match hold.release().await? {
        Release::Released => Ok(done),
        Release::AlreadyLost(reason) => Err(Error::lost(reason).in_operation("release").on(hold.key())),
    }
}
