//! The watch over all holds of a session.
//!
//! One task of the session serves all of its holds. A short hold starts nothing, and a long one
//! costs little more than the watch in the client crate.
//!
//! A session has a budget for watches: with more watches than the client crate can set again, the
//! session would be lost at the next break of its connection (see
//! [`WatchBudget`](crate::driver::WatchBudget)). Holds beyond the budget are checked instead, all
//! of them within each three quarters of a TTL. This is soon enough for NODE-GONE.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::holder::{NewHolder, watch};
use super::unwatched::Unwatched;
use crate::driver::Driver;

/// How long a node is held before it is watched. Under load most holds are shorter, and cost
/// neither a watch nor a timer. The read that arms a watch shows a removal in this time.
const ARMED_AFTER: Duration = Duration::from_millis(50);

/// The holds of a session.
#[derive(Default)]
pub(crate) struct HolderWatch {
    new: Mutex<Vec<NewHolder>>,
    first: Notify,
    unwatched: Unwatched,
}

impl HolderWatch {
    /// Adds a node that must be watched soon. This sends no request and starts no task. Only the
    /// first holder after a while wakes a task.
    pub(crate) fn add(&self, holder: NewHolder) {
        let mut new = self.new.lock();
        new.push(holder);
        if new.len() == 1 {
            self.first.notify_one();
        }
    }

    /// Waits until the first of the new holders is due.
    async fn due(&self) {
        self.first.notified().await;
        tokio::time::sleep(ARMED_AFTER).await;
    }

    /// Watches all holds of the session, until no more events can come.
    pub(crate) async fn run(self: Arc<Self>, driver: Arc<Driver>, runtime: Handle) {
        let mut watched = FuturesUnordered::new();
        let mut due = pin!(self.due());
        let all = async {
            loop {
                tokio::select! {
                    () = &mut due => {
                        let new = std::mem::take(&mut *self.new.lock());
                        watched.extend(
                            new.into_iter().filter_map(|holder| watch(holder, &self.unwatched, &runtime)),
                        );
                        due.set(self.due());
                    }
                    Some(()) = watched.next() => {}
                }
            }
        };
        tokio::select! {
            biased;
            () = driver.silent() => {}
            () = all => {}
            () = self.unwatched.look(driver.lease().ttl()) => {}
        }
    }
}
