//! Every future of this library, for threads.
//!
//! ```
//! use std::time::Duration;
//! use latchwork_core::blocking::BlockOn;
//! # use latchwork_core::{connect, memory, Config};
//!
//! # fn main() -> latchwork_core::Result<()> {
//! # let config = Config::from_url("memory://")?;
//! let coordinator = connect(&[memory::connector()], &config).block_on()?;
//! let hold = coordinator.mutex("invoices/2026-11")?.acquire().block_on()?; // stops this thread until its turn
//! println!("writing with fence {}", hold.token());
//! hold.run(async { println!("the work, which a loss drops") }).block_on()?;
//! coordinator.close().block_on()
//! # }
//! ```
//!
//! # The runtime behind it
//! The calling thread polls the future. Timers, connections and renewals run on one background
//! runtime of the process, which starts at the first call and ends with the process. The end of a
//! process gives nothing back: end `main` by [`close`](crate::Coordinator::close).
//!
//! # Streams and watches
//! A stream is `while let Some(item) = stream.try_next().block_on()? {}`, a watch
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

/// Waits for a future on this thread.
///
/// It works on every future that answers a `Result` whose error is made from [`Error`]. The future
/// need not be `Send`, and its panic reaches the caller.
///
/// In async code of a tokio runtime a wait would stop every task of the thread. There the answer is
/// `InAsyncCode` at once, and the future is not polled. In
/// [`spawn_blocking`](tokio::task::spawn_blocking), in `block_in_place`, and on a thread that has
/// only entered a runtime, it works. (In code that tokio runs as `unconstrained` the call cannot
/// know, and waits.)
///
/// A child process that was forked has no background thread. There the answer is `InChildProcess`
/// if the parent has used this trait: start the program again by `exec`, or fork before the first
/// use.
pub trait BlockOn: Future + Sized {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The future's; `InAsyncCode`; `InChildProcess`; `Unavailable` if the system gives no thread.
    fn block_on<T, E: From<Error>>(self) -> std::result::Result<T, E>
    where
        Self: Future<Output = std::result::Result<T, E>>;

    /// Waits for the answer for at most `time`, then drops the future.
    ///
    /// # Errors
    /// As [`block_on`](Self::block_on); `Timeout`, which is not retryable, since the dropped call may
    /// have been carried out.
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
            let why = format!("it lasts longer than {time:?}, and was dropped");
            Err(Error::new(ErrorKind::Timeout, why).perhaps_done().in_operation("block_on_timeout").into())
        })
    }
}

impl Loss {
    /// Waits on this thread until the hold ends. As [`BlockOn::block_on`].
    ///
    /// # Errors
    /// `InAsyncCode`; `InChildProcess`; `Unavailable` if the system gives no thread.
    pub fn block_on(self) -> Result<Ended> {
        BlockOn::block_on(async { Ok(self.await) })
    }
}

/// The background runtime, and the process that started it.
fn background() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<(u32, std::io::Result<Runtime>)> = OnceLock::new();
    refuse_in_async_code()?;
    let (process, runtime) = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        (std::process::id(), builder.worker_threads(1).thread_name("latchwork").enable_all().build())
    });
    refuse_in_child(*process, std::process::id())?;
    runtime.as_ref().map_err(|error| {
        let why = format!("no thread could be started for the background runtime: {error}");
        Error::new(ErrorKind::Unavailable, why).in_operation("block_on")
    })
}

/// Refuses a call in a process that was forked from the one with the background thread.
fn refuse_in_child(started_in: u32, now_in: u32) -> Result<()> {
    if started_in == now_in {
        return Ok(());
    }
    let why = "a forked process has no background thread: fork before the first use, or exec";
    Err(Error::new(ErrorKind::InChildProcess, why).in_operation("block_on"))
}

/// Refuses a call in async code of a tokio runtime.
///
/// Tokio gives each poll of a task a budget of steps, and code that may block (`spawn_blocking`,
/// `block_in_place`, a thread that has only entered the runtime) an endless one. A budget that ends
/// shows async code. The probe uses the budget up, which costs the task one yield.
fn refuse_in_async_code() -> Result<()> {
    if Handle::try_current().is_err() {
        return Ok(());
    }
    let mut context = Context::from_waker(Waker::noop());
    // A budget is one byte.
    let ends = (0..=u8::MAX).any(|_| pin!(consume_budget()).as_mut().poll(&mut context).is_pending());
    if ends {
        let why = "it would stop a thread of the runtime: use `.await` here, or call it in spawn_blocking";
        return Err(Error::new(ErrorKind::InAsyncCode, why).in_operation("block_on"));
    }
    Ok(())
}

/// Wakes one thread.
struct Unpark {
    thread: Thread,
    // Other code of the thread may take its park token, or give it.
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

/// Polls a future on this thread until it is ready. (Tokio's `block_on` panics in a thread that has
/// entered a runtime.)
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
