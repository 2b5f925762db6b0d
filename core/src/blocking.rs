//! Blocking calls for threads: [`BlockOn`] adds `block_on()` to every future of this library.
//!
//! ```
//! use std::time::Duration;
//! use latchwork_core::blocking::BlockOn;
//! # use latchwork_core::{connect, memory, Config};
//!
//! # fn main() -> latchwork_core::Result<()> {
//! # let config = Config::from_url("memory://")?;
//! let coordinator = connect(&[memory::connector()], &config).block_on()?;
//! let hold = coordinator.mutex("invoices/2026-11")?.acquire().block_on()?; // blocks this thread
//! println!("writing with fence {}", hold.token());
//! hold.run(async { println!("a loss drops this work") }).block_on()?;
//! coordinator.close().block_on()
//! # }
//! ```
//!
//! # The background runtime
//! The calling thread polls the future. Timers, connections and renewals run on one background runtime of the
//! process. The end of the process gives nothing back: end `main` by [`close`](crate::Coordinator::close).
//!
//! # Streams and watches
//! Read a stream by `while let Some(item) = stream.try_next().block_on()? {}`, and a watch by
//! `loop { watch.changed().block_on()? }`. [`Loss::block_on`] waits for the end of a hold.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::coop::consume_budget;

use crate::error::{Error, ErrorKind, Result};
use crate::hold::{Ended, Loss};

/// Waits for a future on the calling thread: every future that returns a `Result` whose error type converts
/// from [`Error`], `Send` or not. If the future panics, so does the call.
///
/// | called in | result |
/// |---|---|
/// | a plain thread, [`spawn_blocking`](tokio::task::spawn_blocking), `block_in_place`, a thread that has only entered a runtime | waits |
/// | async code of a tokio runtime | `InAsyncCode` at once; the future is not polled |
/// | async code that tokio runs as `unconstrained` | waits, because the call cannot detect it |
/// | a child process that was forked after the first use | `InChildProcess` |
pub trait BlockOn: Future + Sized {
    /// Waits for the result.
    ///
    /// # Errors
    /// * The errors of the future.
    /// * `InAsyncCode`, `InChildProcess`: see the table above.
    /// * `Unavailable`: the background thread could not be started.
    fn block_on<T, E: From<Error>>(self) -> std::result::Result<T, E>
    where
        Self: Future<Output = std::result::Result<T, E>>;

    /// Waits for the result for at most `time`, then drops the future.
    ///
    /// # Errors
    /// * `Timeout`: the time is over. It is not retryable, because the dropped call may have been carried
    ///   out.
    /// * The errors of [`block_on`](Self::block_on).
    fn block_on_timeout<T, E: From<Error>>(self, time: Duration) -> std::result::Result<T, E>
    where
        Self: Future<Output = std::result::Result<T, E>>;
}

impl<F: Future> BlockOn for F {
    fn block_on<T, E: From<Error>>(self) -> std::result::Result<T, E>
    where
        Self: Future<Output = std::result::Result<T, E>>,
    {
        let _entered = background()?.enter();
        poll_here(self)
    }

    fn block_on_timeout<T, E: From<Error>>(self, time: Duration) -> std::result::Result<T, E>
    where
        Self: Future<Output = std::result::Result<T, E>>,
    {
        let _entered = background()?.enter();
        poll_here(async { tokio::time::timeout(time, self).await }).unwrap_or_else(|_| {
            let why =
                format!("the call took longer than {time:?} and was dropped; it may have been carried out");
            Err(Error::new(ErrorKind::Timeout, why).perhaps_done().in_operation("block_on_timeout").into())
        })
    }
}

impl Loss {
    /// Waits on this thread until the hold ends.
    ///
    /// # Errors
    /// As [`BlockOn::block_on`].
    pub fn block_on(self) -> Result<Ended> {
        BlockOn::block_on(async { Ok(self.await) })
    }
}

fn background() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<(u32, std::io::Result<Runtime>)> = OnceLock::new();
    refuse_in_async_code()?;
    let (process, runtime) = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        (std::process::id(), builder.worker_threads(1).thread_name("latchwork").enable_all().build())
    });
    refuse_in_child(*process, std::process::id())?;
    runtime.as_ref().map_err(|error| {
        let why = format!("the thread of the background runtime could not be started: {error}");
        Error::new(ErrorKind::Unavailable, why).in_operation("block_on")
    })
}

/// A fork copies no background thread.
fn refuse_in_child(started_in: u32, now_in: u32) -> Result<()> {
    if started_in == now_in {
        return Ok(());
    }
    let why = "a forked process has no background thread: fork before the first blocking call, or call exec";
    Err(Error::new(ErrorKind::InChildProcess, why).in_operation("block_on"))
}

/// Code that may block has an unlimited budget of steps; a task's poll has a limited one. The probe uses up
/// the budget, which costs the task one yield.
fn refuse_in_async_code() -> Result<()> {
    if Handle::try_current().is_err() {
        return Ok(());
    }
    let mut context = Context::from_waker(Waker::noop());
    // Tokio's budget is a `u8`.
    let ends = (0..=u8::MAX).any(|_| pin!(consume_budget()).as_mut().poll(&mut context).is_pending());
    if ends {
        let why =
            "the call would block a thread of the runtime: use `.await`, or make the call in spawn_blocking";
        return Err(Error::new(ErrorKind::InAsyncCode, why).in_operation("block_on"));
    }
    Ok(())
}

struct Unpark {
    thread: Thread,
    // Other code may use the thread's park token too.
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

/// Tokio's `block_on` panics in a thread that has entered a runtime.
fn poll_here<F: Future>(future: F) -> F::Output {
    let unpark = Arc::new(Unpark { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while !unpark.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_process_is_refused() {
        refuse_in_child(7, 7).expect("the same process");
        let error = refuse_in_child(7, 8).expect_err("another process");
        assert_eq!((error.kind(), error.may_pass()), (ErrorKind::InChildProcess, false));
    }
}
