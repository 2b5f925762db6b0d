//! Whether the current code may block its thread.

use std::pin::pin;
use std::task::{Context, Waker};

use tokio::runtime::Handle;
use tokio::task::coop::consume_budget;

use crate::{Error, ErrorKind, Result};

/// Refuses a call in async code of a tokio runtime.
///
/// Tokio gives each poll of a task a budget of steps, and code that may block (`spawn_blocking`,
/// `block_in_place`, a thread that has only entered the runtime) an endless one. So a budget that
/// ends tells async code. It is used up by that, which costs the task one yield.
pub(super) fn refuse_in_async_code() -> Result<()> {
    if Handle::try_current().is_err() {
        return Ok(());
    }
    let mut context = Context::from_waker(Waker::noop());
    // A budget is one byte.
    let ends = (0..=u8::MAX).any(|_| pin!(consume_budget()).as_mut().poll(&mut context).is_pending());
    if ends {
        let why =
            "it would stop a thread of the runtime: use the async API here, or call it in spawn_blocking";
        return Err(Error::new(ErrorKind::InAsyncCode, why));
    }
    Ok(())
}
