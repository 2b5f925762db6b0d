//! A child process that acquires again and again, and reports when it held.

use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::child::{Orders, Role};
use latchwork_conformance::hold_record::monotonic;
use latchwork_core::recipes::{QuorumGuard, QuorumLock};
use latchwork_core::{Config, Connector, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::TTL;
use super::clients::Clients;

const LOOK: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// A long hold shows a second holder.
    HoldsLong,
    Waits,
    Tries,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct QuorumContender {
    pub(crate) way: Way,
    /// Servers that may have forgotten data do not count.
    pub(crate) guarded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum QuorumEvent {
    Connected,
    Held,
    /// It held between these instants.
    Ended {
        from: u64,
        to: u64,
    },
    Lost {
        from: u64,
        to: u64,
    },
    Failed,
}

impl Role for QuorumContender {
    type Event = QuorumEvent;

    const NAME: &'static str = "quorum";

    async fn work(self, _: &[Arc<dyn Connector>], config: &Config) -> Result<()> {
        let urls: Vec<_> = config.hosts.iter().map(|host| format!("redis://{host}")).collect();
        let clients = Clients::connect(&urls).await;
        let lock = clients.lock(self.guarded);
        Self::say(&QuorumEvent::Connected);
        let over = tokio::spawn(async { Orders::new().next().await });
        while !over.is_finished() {
            once(&lock, &self).await;
        }
        Ok(())
    }
}

async fn once(lock: &QuorumLock, order: &QuorumContender) {
    let acquired = match order.way {
        Way::Tries => lock.try_acquire().await,
        Way::Waits | Way::HoldsLong => lock.acquire().within(TTL * 2).await.map(Some),
    };
    match acquired {
        Ok(Some(guard)) => {
            let work = match order.way {
                // In the negative control, until the lease has expired: others have that time to acquire,
                // even if servers restart slowly.
                Way::HoldsLong if !order.guarded => TTL * 2,
                Way::HoldsLong => TTL / 2,
                Way::Waits | Way::Tries => Duration::from_millis(10),
            };
            work_under(&guard, work).await;
            let _answer = tokio::time::timeout(TTL, guard.release()).await;
        }
        Ok(None) => sleep(Duration::from_millis(15)).await,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{error}");
            QuorumContender::say(&QuorumEvent::Failed);
        }
    }
}

/// An instant counts if a later check showed the hold.
async fn work_under(guard: &QuorumGuard, work: Duration) {
    let from = monotonic();
    if !guard.is_held() {
        return;
    }
    QuorumContender::say(&QuorumEvent::Held);
    let end = from + u64::try_from(work.as_nanos()).expect("short");
    let mut to = from;
    while to < end {
        sleep(LOOK).await;
        let now = monotonic();
        if !guard.is_held() {
            return QuorumContender::say(&QuorumEvent::Lost { from, to });
        }
        to = now;
    }
    QuorumContender::say(&QuorumEvent::Ended { from, to });
}
