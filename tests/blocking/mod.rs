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

/// Threads share handles and guards, and hand them over.
#[test]
fn every_type_can_be_shared_between_threads() {
    use latchwork::blocking::*;
    fn shared<T: Send + Sync + Unpin + std::fmt::Debug + 'static>() {}
    fn handed_over<T: Send + Unpin + std::fmt::Debug + 'static>() {}
    fn cloned<T: Clone>() {}
    macro_rules! each {
        ($check:ident: $($kind:ty),+ $(,)?) => {{ $($check::<$kind>();)+ }};
    }
    each!(shared: Coordinator, Mutex, ReentrantMutex, RwLock, Semaphore, Member, MultiLock, QuorumLock, Election, Group);
    each!(shared: Barrier, DoubleBarrier, CountDownLatch, Counter, IdGenerator, SharedValue, Clients, Queues, Values, Loss);
    each!(shared: MutexGuard, ReentrantGuard, ReadGuard, WriteGuard, Permit, MultiGuard, QuorumGuard, Leader);
    each!(shared: Membership, Inside, Observer, GroupWatch, ValueWatch);
    each!(handed_over: Answers<()>);
    each!(cloned: Coordinator, Mutex, ReentrantMutex, RwLock, Semaphore, Member, MultiLock, QuorumLock, Election, Group);
    each!(cloned: Barrier, DoubleBarrier, CountDownLatch, Counter, IdGenerator, SharedValue, Clients, Queues, Values, Loss);
}
