//! The runtime of a case, and of a child process.

use tokio::runtime::{Builder, Runtime};

/// The stack of a thread that plays cases. The futures of cases that are not optimised need more than the 2 MiB of
/// a thread by default.
pub(crate) const STACK: usize = 16 << 20;

/// Creates a runtime, with a paused clock or a real one.
pub(crate) fn runtime(paused: bool) -> Runtime {
    let mut builder = if paused { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    if paused {
        builder.start_paused(true);
    } else {
        builder.worker_threads(2);
    }
    builder.enable_all().thread_stack_size(STACK).build().expect("a runtime starts")
}
