//! `latchwork::blocking`: what threads see, on memory and on a server of each kind.

mod async_code;
mod complete;
mod holds;
mod life;
mod recipes;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use latchwork::blocking::{self, Coordinator};

/// No test takes as long: what waits for this hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A store in this process that no other test has.
fn store() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("memory://blocking-{}", LAST.fetch_add(1, Ordering::Relaxed))
}

fn connect(url: &str) -> Coordinator {
    blocking::connect(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}
