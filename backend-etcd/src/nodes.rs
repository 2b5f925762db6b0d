//! A node of this client in a queue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use async_trait::async_trait;
use latchwork_core::contracts::{Node, NodeId, NodeState};
use latchwork_core::decide::Claim;
use latchwork_core::{Error, ErrorKind, LostReason, Result};
use parking_lot::Mutex;

use crate::backend::Client;
use crate::backoff::Backoff;
use crate::count::{Count, Turn};
use crate::error::{Answer, Failure};
use crate::keys::{NodeValue, Queue};
use crate::lease::Session;
use crate::terms::{Guard, Only, Step};
use crate::view::View;
use crate::watch::{Own, SHORT};

/// Who holds thousands has thousands of these: what only a waiter needs is let go when it is admitted.
pub(crate) struct EtcdNode {
    pub(crate) client: Arc<Client>,
    pub(crate) own: Arc<Own>,
    pub(crate) value: NodeValue,
    lease: i64,
    name: Mutex<Name>,
    // None once it is admitted, but for what a counted release needs.
    place: Mutex<Option<Box<Place>>>,
}

enum Place {
    Waiting(Arc<Waiting>),
    Counted(Counted),
}

/// A hold whose release is counted.
struct Counted {
    queue: Queue,
    // What was counted when it was admitted, where it is known.
    before: Option<Count>,
}

impl Counted {
    /// Counts the release in the transaction that deletes the node, if it is there, and tells who has its turn then.
    async fn leave(self, node: &EtcdNode) -> Answer<()> {
        let count = self.before.map(Count::next);
        let put = |key, value| Step::Put { key, value, lease: node.lease };
        let mut steps = vec![Step::Delete(node.own.key.to_vec())];
        steps.extend(self.queue.counter().map(|counter| put(counter, Vec::new())));
        if let Some(count) = count {
            let ticket = self.queue.ticket(count.releases);
            steps.extend(ticket.map(|ticket| put(ticket, count.encode().into_bytes())));
        }
        let client = &node.client;
        // Before it is sent: its answer may be lost.
        client.leftovers.counts(&self.queue, None);
        let outcome = client.driver.transact(vec![created(&node.own)], steps, Vec::new()).await?;
        client.leftovers.counts(&self.queue, Some(outcome.revision));
        Ok(())
    }
}

// A word more, which is the allocator's next size, was seen to cost 130 bytes a hold, of a budget of 1,024.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<EtcdNode>() <= 104);

/// What a waiter knows.
pub(crate) struct Waiting {
    pub(crate) queue: Queue,
    /// The last limit that it heard of (permits).
    pub(crate) limit: AtomicU32,
    /// It stands near the head.
    pub(crate) near: AtomicBool,
    /// How to tell by a count that all ahead have left.
    pub(crate) turn: Option<Turn>,
    // It joined far from the head, where others count.
    pub(crate) counts: bool,
    // What its join saw, for its first wait.
    view: Mutex<Option<View>>,
}

/// Whose the name in a node's key is when the node has left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Name {
    /// The next one's, once the first leave is confirmed.
    Lent(NodeId),
    /// Maybe the next one's: a leave was sent.
    Left,
    /// Nobody's: another request of this attempt's join may still be on its way, and meets the tombstone that a leave
    /// leaves for it (RULES B9).
    Repeated(NodeId),
}

/// What a join has made.
pub(crate) struct Made {
    pub(crate) session: Arc<Session>,
    pub(crate) key: String,
    pub(crate) name: Name,
    pub(crate) value: NodeValue,
    pub(crate) sequence: u64,
}

impl Waiting {
    pub(crate) fn take_view(&self) -> Option<View> {
        self.view.lock().take()
    }
}

impl EtcdNode {
    /// From now on a feed of its queue tells when it is removed.
    pub(crate) fn register(client: &Arc<Client>, made: Made) -> Arc<Self> {
        let state = NodeState::new(made.session.lease.clone(), made.sequence);
        let left = made.value.is_of_permits().then(Box::default);
        let own = Arc::new(Own { key: made.key.into_bytes().into(), state, left });
        client.watches.register(Arc::clone(&own));
        Arc::new(Self {
            client: Arc::clone(client),
            own,
            value: made.value,
            lease: made.session.id,
            name: Mutex::new(made.name),
            place: Mutex::default(),
        })
    }

    /// It is to wait for its admission, and begins with what its join saw.
    pub(crate) fn wait_in(&self, queue: Queue, limit: u32, view: Option<View>) {
        let turn = view.as_ref().and_then(|view| view.turn);
        // Whoever knows its turn goes by it until the queue is short: where some count their releases and some do not, all list.
        let near = view.as_ref().is_some_and(|view| if turn.is_some() { view.short } else { view.near });
        let counts = view.is_some() && !near && queue.is_counted();
        let near = AtomicBool::new(near);
        let limit = AtomicU32::new(limit);
        let waiting = Waiting { queue, limit, near, turn, counts, view: Mutex::new(view) };
        *self.place.lock() = Some(Box::new(Place::Waiting(Arc::new(waiting))));
    }

    /// What it knows as a waiter; `None` when it is admitted.
    pub(crate) fn waiting(&self) -> Option<Arc<Waiting>> {
        match self.place.lock().as_deref() {
            Some(Place::Waiting(waiting)) => Some(Arc::clone(waiting)),
            Some(Place::Counted(_)) | None => None,
        }
    }

    /// It is admitted, by what was seen of its queue at `revision`; `mark`: somebody follows who waits by its mark (RULES B6).
    /// `count`: what was counted of its queue by then, where it is known.
    pub(crate) fn settle(&self, queue: &Queue, mark: bool, revision: u64, count: Option<Count>) {
        {
            let mut place = self.place.lock();
            let counts = matches!(place.as_deref(), Some(Place::Waiting(waiting)) if waiting.counts);
            *place =
                counts.then(|| Box::new(Place::Counted(Counted { queue: queue.clone(), before: count })));
        }
        self.client.watches.keep_watch(&self.own);
        if self.value.is_of_permits() {
            self.client.leases.runtime.spawn(hold_permits(
                Arc::clone(&self.client),
                Arc::clone(&self.own),
                self.rewrite(NodeValue { marked: true, ..self.value.clone() }),
                (!mark).then(|| (queue.limit.clone(), revision)),
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
        let name = *self.name.lock();
        match name {
            Name::Repeated(attempt) => self.client.leftovers.bury(self.lease, attempt, &self.own.key).await,
            Name::Lent(_) | Name::Left => {
                let delete = Step::Delete(self.own.key.to_vec());
                self.client
                    .driver
                    .transact(vec![created(&self.own)], vec![delete], Vec::new())
                    .await
                    .map(drop)
            }
        }
    }

    /// The first leave: the name is nobody else's yet.
    async fn leave_first(&self) -> Answer<()> {
        // A waiter's stays: without it, it would be admitted.
        let counted = self.place.lock().take_if(|place| matches!(**place, Place::Counted(_)));
        if let Some(Place::Counted(counted)) = counted.map(|place| *place) {
            match counted.leave(self).await {
                // A full server takes deletions alone, and a narrow role may not count. Whoever follows lists.
                Err(Failure::Full(_)) => {}
                Err(Failure::Other(error)) if matches!(error.kind(), ErrorKind::Forbidden { .. }) => {}
                left => return left,
            }
        }
        self.client.driver.delete(&self.own.key).await
    }

    /// What is counted, if that says that all ahead have left, and this one is in its queue still.
    pub(crate) async fn look_at_count(&self, queue: &Queue, turn: Turn) -> Answer<Option<Count>> {
        let Some(counter) = queue.counter() else { return Ok(None) };
        let steps = vec![Step::Get(self.own.key.to_vec()), Step::Get(counter.into_bytes())];
        let outcome = self.client.driver.read(steps).await?;
        let [own, counter] = &*outcome.reads else { return Ok(None) };
        Ok(Count::read(counter).filter(|count| self.own.is_in(own) && turn.has_come(*count)))
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
        () = own.given_back() => return,
        _ = own.state.until_lost() => return,
        () = wait => {}
    }
    // Retried until it is confirmed: the next in the queue counts on it. Guarded, or a mark that lands after
    // the leave would be a ghost (RULES B7).
    let mut backoff = Backoff::new();
    while client.watches.is_own(&own) && own.state.lost().is_none() {
        match client.driver.transact(vec![created(&own)], vec![mark.clone()], Vec::new()).await {
            Ok(_) | Err(Failure::LeaseGone) => return,
            Err(Failure::Full(error) | Failure::Other(error)) => {
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
        let lent = {
            let mut name = self.name.lock();
            match *name {
                Name::Lent(lent) => {
                    *name = Name::Left;
                    Some(lent)
                }
                Name::Left | Name::Repeated(_) => None,
            }
        };
        let left = match lent {
            Some(_) => self.leave_first().await,
            None => self.leave_by_name().await,
        };
        match left {
            Ok(()) => {
                if let Some(name) = lent {
                    self.client.names.free(self.own.queue(), name);
                }
                Ok(())
            }
            // Without its lease neither the node nor a late one can be there.
            Err(Failure::LeaseGone) => Ok(()),
            Err(failure) => Err(failure.into()),
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
            Err(failure) => return Err(failure.into()),
        }
        Err(Error::lost(self.own.state.lost().unwrap_or(LostReason::Revoked)))
    }
}

impl fmt::Debug for EtcdNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdNode").field("key", &key(&self.own)).field("state", &self.own.state).finish()
    }
}
