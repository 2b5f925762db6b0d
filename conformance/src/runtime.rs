use tokio::runtime::{Builder, Runtime};

/// Unoptimised futures of cases need more than the default of 2 MiB.
pub(crate) const STACK: usize = 16 << 20;

pub(crate) fn runtime(paused: bool) -> Runtime {
    let mut builder = if paused { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    if paused {
        builder.start_paused(true);
    } else {
        builder.worker_threads(2);
    }
    builder.enable_all().thread_stack_size(STACK).build().expect("a runtime starts")
}
