//! A node of this client in a queue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use latchwork_core::contracts::{Node, NodeId, NodeState};
use latchwork_core::decide::Claim;
use latchwork_core::{Error, LostReason, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::backend::Client;
use crate::backoff::Backoff;
use crate::error::{Answer, Failure};
use crate::keys::{NodeValue, Queue};
use crate::lease::Session;
use crate::terms::{Guard, Only, Step};
use crate::view::View;
use crate::watch::{Own, SHORT};

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
    // Left behind by the leave, for a late request of its attempt (RULES B9).
    tombstone: Option<String>,
    // Free for the next when its first leave is confirmed; none where a request of its join may still be on its way.
    name: Mutex<Option<NodeId>>,
    // What its join saw, for its first wait.
    view: Mutex<Option<View>>,
    admitted: AtomicBool,
}

/// What a join has made.
pub(crate) struct Made {
    pub(crate) session: Arc<Session>,
    pub(crate) queue: Queue,
    pub(crate) key: String,
    /// The name in its key, if others may have it after it.
    pub(crate) name: Option<NodeId>,
    pub(crate) value: NodeValue,
    pub(crate) sequence: u64,
    /// A semaphore's limit.
    pub(crate) limit: u32,
    pub(crate) near: bool,
    /// Where an earlier request of the attempt may still land.
    pub(crate) tombstone: Option<String>,
}

impl EtcdNode {
    /// From now on a feed of its queue tells when it is removed.
    pub(crate) fn register(client: &Arc<Client>, made: Made) -> Arc<Self> {
        let state = NodeState::new(made.session.lease.clone(), made.sequence);
        let own = Arc::new(Own { key: made.key.into_bytes().into(), state, left: Notify::new() });
        client.watches.register(&made.queue.prefix, Arc::clone(&own));
        Arc::new(Self {
            client: Arc::clone(client),
            queue: made.queue,
            own,
            value: made.value,
            limit: AtomicU32::new(made.limit),
            near: AtomicBool::new(made.near),
            lease: made.session.id,
            tombstone: made.tombstone,
            name: Mutex::new(made.name),
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

    /// It is admitted, by what was seen at `revision`; `mark`: somebody follows who waits by its mark (RULES B6).
    pub(crate) fn settle(&self, mark: bool, revision: u64) {
        self.admitted.store(true, Ordering::Release);
        self.client.watches.keep_watch(&self.own);
        if matches!(self.value.claim, Claim::Permits(_)) {
            self.client.leases.runtime.spawn(hold_permits(
                Arc::clone(&self.client),
                Arc::clone(&self.own),
                self.rewrite(NodeValue { marked: true, ..self.value.clone() }),
                (!mark).then(|| (self.queue.limit.clone(), revision)),
            ));
        }
    }

    /// A new value in its place. To be guarded: after a delete it would make a ghost (RULES B7).
    fn rewrite(&self, value: NodeValue) -> Step {
        Step::Put { key: key(&self.own), value: value.encode(), lease: self.lease }
    }

    /// Leaves where the name may be another's by the time this lands; or for good, where a late join of its own may follow, or
    /// have come already: that name is nobody else's.
    async fn leave_by_name(&self) -> Answer<()> {
        let delete = Step::Delete(self.own.key.to_vec());
        let (guards, steps) = match self.tombstone.clone() {
            Some(key) => (Vec::new(), vec![Step::Put { key, value: Vec::new(), lease: self.lease }, delete]),
            None => (vec![created(&self.own)], vec![delete]),
        };
        self.client.driver.transact(guards, steps, Vec::new()).await.map(|_| ())
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
    Guard::Created(own.key.to_vec(), own.state.sequence())
}

fn key(own: &Own) -> String {
    String::from_utf8_lossy(&own.key).into_owned()
}

/// Marks a holder of permits as admitted: at once, or when the limit changes after the revision that is given, since those
/// behind then cannot tell from the sums who is in (RULES B6, B6b).
async fn hold_permits(client: Arc<Client>, own: Arc<Own>, mark: Step, unless_changed: Option<(String, u64)>) {
    let wait = async {
        if let Some((limit, revision)) = unless_changed {
            // A hold that is short costs no watch; one that starts late misses nothing.
            tokio::time::sleep(SHORT).await;
            client.watches.key(limit.into_bytes(), Only::Puts, revision).seen().await;
        }
    };
    tokio::select! {
        () = own.left.notified() => return,
        _ = own.state.until_lost() => return,
        () = wait => {}
    }
    // Retried until it is confirmed: the next in the queue counts on it. Guarded, or a mark that lands after
    // the leave would be a ghost (RULES B7).
    let mut backoff = Backoff::new();
    while client.watches.is_own(&own) && own.state.lost().is_none() {
        match client.driver.transact(vec![created(&own)], vec![mark.clone()], Vec::new()).await {
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
        self.client.watches.forget(&self.own);
        if self.client.leases.is_closed() {
            return Err(Error::closed());
        }
        // For the first leave only: a second one, whose request may land when the name is another's, must not have it.
        let name = self.name.lock().take();
        let left = match name {
            Some(_) => self.client.driver.delete(&self.own.key).await,
            None => self.leave_by_name().await,
        };
        match left {
            Ok(()) => {
                if let Some(name) = name {
                    self.client.names.free(&self.queue.prefix, name);
                }
                Ok(())
            }
            // Without its lease neither the node nor a late one can be there.
            Err(Failure::LeaseGone) => Ok(()),
            Err(Failure::Other(error)) => Err(error),
        }
    }

    async fn downgrade(&self) -> Result<()> {
        self.check_lost()?;
        let shared = self.rewrite(NodeValue { claim: Claim::Shared, ..self.value.clone() });
        match self.client.driver.transact(vec![created(&self.own)], vec![shared], Vec::new()).await {
            Ok(outcome) if outcome.held => return Ok(()),
            // Taken away by another, unless it was left meanwhile.
            Ok(_) if self.client.watches.is_own(&self.own) => self.own.state.gone(LostReason::Revoked),
            Ok(_) => {}
            Err(Failure::LeaseGone) => {
                self.own.state.lease().end(LostReason::Revoked);
            }
            Err(Failure::Other(error)) => return Err(error),
        }
        Err(Error::lost(self.own.state.lost().unwrap_or(LostReason::Revoked)))
    }
}

impl fmt::Debug for EtcdNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdNode").field("key", &key(&self.own)).field("state", &self.own.state).finish()
    }
}
