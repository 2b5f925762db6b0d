//! A node of this client in a queue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use latchwork_core::contracts::{Leave, Node, NodeId, NodeKeeper, NodeState};
use latchwork_core::decide::Claim;
use latchwork_core::{Error, LostReason, Result};
use parking_lot::Mutex;

use crate::backend::Client;
use crate::backoff::Backoff;
use crate::error::{Answer, Failure};
use crate::hand_on::{Follower, HandOn, Word};
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
    // None once it is admitted, but for what a hold that is handed on needs.
    place: Mutex<Option<Box<Place>>>,
}

enum Place {
    Waiting(Arc<Waiting>),
    /// Whoever is behind it relies on being spoken to.
    Before {
        queue: Queue,
        behind: Vec<Follower>,
    },
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
    // Whoever is behind it may rely on being spoken to when it leaves.
    speaks: bool,
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
        let state = NodeKeeper::new(made.session.lease.clone(), made.sequence);
        let left = made.value.is_of_permits().then(Box::default);
        let own = Arc::new(Own { key: made.key.into_bytes().into(), state, left });
        made.session.has_made(&own.key, made.sequence);
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
        let near = view.as_ref().is_some_and(|view| view.near);
        let speaks = queue.hands_on() && view.as_ref().is_none_or(|view| view.many);
        let near = AtomicBool::new(near);
        let limit = AtomicU32::new(limit);
        let waiting = Waiting { queue, limit, near, speaks, view: Mutex::new(view) };
        *self.place.lock() = Some(Box::new(Place::Waiting(Arc::new(waiting))));
    }

    /// What it knows as a waiter; `None` when it is admitted.
    pub(crate) fn waiting(&self) -> Option<Arc<Waiting>> {
        match self.place.lock().as_deref() {
            Some(Place::Waiting(waiting)) => Some(Arc::clone(waiting)),
            Some(Place::Before { .. }) | None => None,
        }
    }

    /// It is admitted, by what was seen of its queue at `revision`; `mark`: somebody follows who waits by its mark (RULES B6).
    /// `behind`: who was behind it, as far as it is known.
    pub(crate) fn settle(&self, queue: &Queue, mark: bool, revision: u64, behind: Vec<Follower>) {
        {
            let mut place = self.place.lock();
            let speaks = matches!(place.as_deref(), Some(Place::Waiting(waiting)) if waiting.speaks);
            *place = speaks.then(|| Box::new(Place::Before { queue: queue.clone(), behind }));
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
    async fn leave_by_name(&self) -> Answer<bool> {
        let name = *self.name.lock();
        match name {
            Name::Repeated(attempt) => self.client.leftovers.bury(self.lease, attempt, &self.own.key).await,
            Name::Lent(_) | Name::Left => {
                let delete = Step::Delete(self.own.key.to_vec());
                self.client
                    .driver
                    .transact(vec![created(&self.own)], vec![delete], Vec::new())
                    .await
                    .map(|outcome| outcome.held)
            }
        }
    }

    /// How it leaves, if whoever is behind it relies on being spoken to.
    fn hands_on(&self) -> Option<HandOn> {
        match self.place.lock().as_deref()? {
            Place::Waiting(waiting) if !waiting.speaks => None,
            Place::Waiting(waiting) => Some(HandOn {
                queue: waiting.queue.clone(),
                word: Word::Look,
                behind: Vec::new(),
                silent: !waiting.near.load(Ordering::Acquire),
            }),
            Place::Before { queue, behind } => {
                Some(HandOn { queue: queue.clone(), word: Word::Next, behind: behind.clone(), silent: false })
            }
        }
    }

    /// Leaves, and answers whether it was there. `first`: the name is nobody else's yet.
    async fn leave_now(&self, first: bool) -> Answer<bool> {
        let handed_on = match self.hands_on() {
            Some(hand_on) => hand_on.leave(self).await?,
            None => None,
        };
        let is_repeated = matches!(*self.name.lock(), Name::Repeated(_));
        match handed_on {
            Some(was_there) if !is_repeated => Ok(was_there),
            None if first => self.client.driver.delete(&self.own.key).await,
            _ => Ok(self.leave_by_name().await? || handed_on == Some(true)),
        }
    }

    /// Why it is not in its queue any more, though it was not left.
    pub(crate) async fn why_gone(&self) -> LostReason {
        self.client.driver.why_gone(&self.own.key, self.own.state.sequence()).await
    }

    pub(crate) fn check_lost(&self) -> Result<()> {
        match self.own.state.lost() {
            Some(reason) => Err(Error::lost(reason)),
            None => Ok(()),
        }
    }
}

/// This incarnation and none that came after it under the same name.
pub(crate) fn created(own: &Own) -> Guard {
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
            Err(Failure::Full(error) | Failure::TooLong(error) | Failure::Other(error)) => {
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

    async fn leave(&self) -> Result<Leave> {
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
        match self.leave_now(lent.is_some()).await {
            Ok(was_there) => {
                if let Some(name) = lent {
                    self.client.names.free(self.own.queue(), name);
                }
                Ok(if was_there { Leave::Removed } else { Leave::Absent(self.why_gone().await) })
            }
            // Without its lease neither the node nor a late one can be there.
            Err(Failure::LeaseGone) => {
                Ok(Leave::Absent(self.own.state.lease().lost().unwrap_or(LostReason::Revoked)))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    async fn downgrade(&self) -> Result<()> {
        self.check_lost()?;
        let shared = self.rewrite(NodeValue { claim: Claim::Shared, ..self.value.clone() });
        match self.client.driver.transact(vec![created(&self.own)], vec![shared], Vec::new()).await {
            Ok(outcome) if outcome.held => return Ok(()),
            // Taken away by another, unless it was left meanwhile.
            Ok(_) if self.client.watches.is_own(&self.own) => {
                self.own.state.gone(self.why_gone().await);
            }
            Ok(_) => {}
            Err(Failure::LeaseGone) => {
                self.client.leases.gone(self.own.state.lease_keeper()).await;
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
