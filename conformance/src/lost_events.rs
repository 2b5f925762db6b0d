//! A relay that loses events of a waiter.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use latchwork_core::Coordinator;
use tokio::sync::watch;

use crate::patience::soon;
use crate::recorder::Recorder;

/// The state of the relay.
#[derive(Debug, Default)]
pub struct LostEvents {
    /// Whether events are lost.
    pub losing: AtomicBool,
    /// The lost events.
    pub lost: AtomicUsize,
    /// How often the waiter has started to watch the holder's node.
    pub watched: watch::Sender<usize>,
    /// The name of that node; empty at first.
    pub node: Mutex<String>,
}

impl LostEvents {
    /// Asserts that only a waiter whose event is lost counts a re-check that finds its admission. `node` names the only node of the
    /// mutex `a`.
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
