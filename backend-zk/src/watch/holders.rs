//! The watch over all holds of a session, by one task.
//!
//! Holds beyond the budget ([`WatchBudget`](crate::driver::WatchBudget)) are checked each three quarters of a
//! TTL, which is soon enough for NODE-GONE.

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

/// Under load most holds are shorter, and cost neither a watch nor a timer. The read that arms a watch shows
/// an earlier removal.
const ARMED_AFTER: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(crate) struct HolderWatch {
    new: Mutex<Vec<NewHolder>>,
    first: Notify,
    unwatched: Unwatched,
}

impl HolderWatch {
    /// Sends no request and starts no task. Only the first new holder wakes the task.
    pub(crate) fn add(&self, holder: NewHolder) {
        let mut new = self.new.lock();
        new.push(holder);
        if new.len() == 1 {
            self.first.notify_one();
        }
    }

    async fn due(&self) {
        self.first.notified().await;
        tokio::time::sleep(ARMED_AFTER).await;
    }

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
