//! A node of this client in a queue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use latchwork_core::contracts::{Node, NodeState};
use latchwork_core::{Error, Result};
use parking_lot::Mutex;

use crate::backend::Client;
use crate::backoff::Backoff;
use crate::driver::{Guard, Step};
use crate::error::Failure;
use crate::keys::{NodeValue, Queue};
use crate::lease::Session;
use crate::view::View;
use crate::watch::Own;

pub(crate) struct EtcdNode {
    pub(crate) client: Arc<Client>,
    pub(crate) queue: Queue,
    pub(crate) own: Arc<Own>,
    pub(crate) value: NodeValue,
    /// The last limit that it heard of (permits).
    pub(crate) limit: AtomicU32,
    /// It stands near the head.
    pub(crate) near: AtomicBool,
    lease: i64,
    // What its join saw, for its first wait.
    view: Mutex<Option<View>>,
    admitted: AtomicBool,
}

impl EtcdNode {
    #[allow(clippy::too_many_arguments, reason = "one caller, and each is a different thing")]
    pub(crate) fn register(
        client: &Arc<Client>,
        session: &Session,
        queue: Queue,
        key: String,
        value: NodeValue,
        sequence: u64,
        limit: u32,
        near: bool,
    ) -> Arc<Self> {
        let state = NodeState::new(session.lease.clone(), sequence);
        let own = Arc::new(Own { key: key.into_bytes(), state });
        client.watches.keep_watch(Arc::clone(&own));
        Arc::new(Self {
            client: Arc::clone(client),
            queue,
            own,
            value,
            limit: AtomicU32::new(limit),
            near: AtomicBool::new(near),
            lease: session.id,
            view: Mutex::default(),
            admitted: AtomicBool::new(false),
        })
    }

    pub(crate) fn start_from(&self, view: Option<View>) {
        *self.view.lock() = view;
    }

    pub(crate) fn take_view(&self) -> Option<View> {
        self.view.lock().take()
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Acquire)
    }

    /// It is admitted; `mark`: somebody follows who waits by its mark (RULES B6).
    pub(crate) fn settle(&self, mark: bool) {
        self.admitted.store(true, Ordering::Release);
        if mark {
            tokio::spawn(mark_admitted(
                Arc::clone(&self.client),
                Arc::clone(&self.own),
                self.lease,
                NodeValue { marked: true, ..self.value.clone() },
            ));
        }
    }

    pub(crate) fn check_lost(&self) -> Result<()> {
        match self.own.state.lost() {
            Some(reason) => Err(Error::lost(reason)),
            None => Ok(()),
        }
    }
}

/// This incarnation and none that came after it under the same name.
fn created(own: &Own) -> Guard {
    Guard::Created(key(own), own.state.sequence())
}

fn key(own: &Own) -> String {
    String::from_utf8_lossy(&own.key).into_owned()
}

/// Retried until it is confirmed: the next in the queue counts on it (RULES B7). Guarded, or a mark that
/// lands after the leave would be a ghost.
async fn mark_admitted(client: Arc<Client>, own: Arc<Own>, lease: i64, value: NodeValue) {
    let mut backoff = Backoff::new();
    while client.watches.is_own(&own) && own.state.lost().is_none() {
        let put = Step::Put { key: key(&own), value: value.encode(), lease };
        match client.driver.transact(vec![created(&own)], vec![put], Vec::new()).await {
            Ok(_) | Err(Failure::LeaseGone) => return,
            Err(Failure::Other(error)) => {
                tracing::debug!(%error, "an admission was not marked yet");
                backoff.pause().await;
            }
        }
    }
}

#[async_trait]
impl Node for EtcdNode {
    fn state(&self) -> &NodeState {
        &self.own.state
    }

    async fn admitted(&self) -> Result<()> {
        crate::wait::until_admitted(self).await
    }

    async fn leave(&self) -> Result<()> {
        self.client.watches.forget(&self.own.key);
        if self.client.leases.is_closed() {
            return Err(Error::closed());
        }
        let delete = vec![Step::Delete(key(&self.own))];
        self.client.driver.transact(vec![created(&self.own)], delete, Vec::new()).await?;
        Ok(())
    }
}

impl fmt::Debug for EtcdNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdNode").field("key", &key(&self.own)).field("state", &self.own.state).finish()
    }
}
