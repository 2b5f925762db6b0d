//! A relay that loses events on their way to a waiter.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use latchwork_core::Coordinator;
use tokio::sync::watch;

use crate::patience::soon;
use crate::recorder::Recorder;

/// The state of a relay between the server and a waiter.
#[derive(Debug, Default)]
pub struct LostEvents {
    /// Whether the relay loses events.
    pub losing: AtomicBool,
    /// The number of lost events.
    pub lost: AtomicUsize,
    /// How often the waiter has started to watch the holder's node.
    pub watched: watch::Sender<usize>,
    /// The name of that node; empty at the start.
    pub node: Mutex<String>,
}

impl LostEvents {
    /// Asserts that a waiter whose event is lost finds its admission by a re-check, which counts, and that a waiter whose event
    /// arrives counts none. `node` returns the name of the only node of the mutex `a`. `recorder` has the metrics of the
    /// waiter.
    ///
    /// # Panics
    /// If it does not hold.
    pub async fn are_made_up_for(
        &self,
        [holder, waiting]: [Coordinator; 2],
        recorder: &Recorder,
        node: impl AsyncFn() -> String,
    ) {
        let found = || recorder.sum("latchwork_rechecks_found_total", &[("what", "admission")]);
        let [mutex, waiter] = [&holder, &waiting].map(|client| client.mutex("a").expect("a good key"));
        for (loses, counted) in [(false, 0.0), (true, 1.0)] {
            let hold = soon(mutex.acquire()).await.expect("acquired");
            let name = node().await;
            *self.node.lock().expect("not poisoned") = name;
            let before = *self.watched.borrow();
            let acquiring = tokio::spawn(waiter.acquire());
            soon(self.watched.subscribe().wait_for(|count| *count > before)).await.expect("it watches");
            self.losing.store(loses, Ordering::Release);
            soon(hold.release()).await.expect("released");
            let admitted = soon(acquiring).await.expect("no panic").expect("admitted");
            self.losing.store(false, Ordering::Release);
            soon(admitted.release()).await.expect("released");
            let lost = self.lost.load(Ordering::Acquire) > 0;
            assert_eq!((found(), lost), (counted, loses), "{recorder:?}");
        }
        for client in [holder, waiting] {
            client.close().await.expect("closed");
        }
    }
}
