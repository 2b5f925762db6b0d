//! A hold: the common part of all guards.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::BoxFuture;

use crate::address::Address;
use crate::client::Client;
use crate::clock::Moment;
use crate::decide::Claim;
use crate::error::{Error, Result};
use crate::held_node::HeldNode;
use crate::hold::{Ended, HeldBy, HoldState, Loss, Run, Tenure, states};
use crate::reentrancy::Share;
use crate::token::Token;

/// A hold on the coordinator: the common part of all guards.
///
/// Every guard dereferences to it, so code that works under any hold takes `&Hold`, and code that
/// keeps any hold takes `impl Into<Hold>`.
///
/// A lease lock cannot promise that two processes never both *believe* they hold: a process that is
/// paused past its TTL and continued runs for an instant before it looks. `check()` reports the
/// loss at the first call, and the fencing token ([`Fenced`](super::Fenced)) lets the resource refuse
/// the writes of that instant.
///
/// A hold that is dropped is released in the background; a drop never blocks, and never panics
/// outside a runtime. A dropped hold that was lost at its fixed end or by a close is given back one
/// [margin](crate::contracts::Lease::margin) after the loss.
///
/// ```
/// # use latchwork_core::{connect, Config, Hold, Result, memory};
/// fn still_mine(hold: &Hold) -> Result<()> {
///     hold.check() // `Lost` with the reason
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let held = coordinator.mutex("a")?.acquire().await?;
/// still_mine(&held)?;
/// let kept: Vec<Hold> = vec![held.into(), coordinator.rwlock("b")?.read().await?.into()];
/// # drop(kept);
/// # coordinator.close().await }
/// ```
#[must_use = "a hold that is dropped at once is released at once"]
pub struct Hold {
    by: HoldKind,
    claim: Claim,
    waited: Duration,
}

/// The kinds of holds. Each gives itself back when it is dropped.
enum HoldKind {
    Node(HeldNode),
    Owner(Share),
    Composite(Box<dyn Composite>),
}

/// A hold that a recipe makes of others: several locks, a majority, a place in a barrier.
pub(super) trait Composite: Send + Sync {
    fn key(&self) -> &str;

    fn address(&self) -> &Address;

    fn coordinator(&self) -> Option<&str>;

    fn held_by(&self) -> HeldBy<'_>;

    /// The places of its parts, `None` for a part that has none to show.
    fn places(&self) -> Vec<Option<Token>>;

    /// The addresses of its parts.
    fn addresses(&self) -> Vec<&Address> {
        vec![self.address()]
    }

    fn release(&self) -> BoxFuture<'_, Result<Ended>>;

    /// As [`release`](Self::release), and waits for the others inside.
    fn leave(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { self.release().await.map(drop) })
    }
}

impl Hold {
    pub(super) fn of_node(held: HeldNode, claim: Claim, waited: Duration) -> Self {
        Self { by: HoldKind::Node(held), claim, waited }
    }

    pub(super) fn of_owner(share: Share, claim: Claim, waited: Duration) -> Self {
        Self { by: HoldKind::Owner(share), claim, waited }
    }

    pub(super) fn of_composite(composite: impl Composite + 'static, claim: Claim, waited: Duration) -> Self {
        Self { by: HoldKind::Composite(Box::new(composite)), claim, waited }
    }

    /// The key, as it was given. Several locks have one key for all.
    pub fn key(&self) -> &str {
        match &self.by {
            HoldKind::Composite(composite) => composite.key(),
            HoldKind::Node(_) | HoldKind::Owner(_) => self.node().tenure.queue.name(),
        }
    }

    /// The address on the coordinator. Several locks have the first one's.
    pub fn address(&self) -> &Address {
        match &self.by {
            HoldKind::Composite(composite) => composite.address(),
            HoldKind::Node(_) | HoldKind::Owner(_) => &self.node().tenure.queue,
        }
    }

    /// The [name](crate::Config::name) of the coordinator, if it has one. Several locks have the
    /// first one's, and a quorum has none.
    pub fn coordinator(&self) -> Option<&str> {
        match &self.by {
            HoldKind::Composite(composite) => composite.coordinator(),
            HoldKind::Node(_) | HoldKind::Owner(_) => self.client().name.as_deref(),
        }
    }

    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Whether it is held, by the clock at this call.
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Fails once it has ended.
    ///
    /// # Errors
    /// `Lost` with the reason; `NotHeld` after a release.
    pub fn check(&self) -> Result<()> {
        self.held_by().check()
    }

    /// The state by the clock at this call.
    pub fn state(&self) -> HoldState {
        self.held_by().state()
    }

    /// How much time is left, by the clock at this call: until the lease's deadline, which moves as
    /// long as the coordinator answers, or until the fixed end if that is sooner. Zero once it is
    /// lost or released. For work that must know whether it may begin.
    pub fn remaining(&self) -> Duration {
        self.held_by().remaining()
    }

    /// A stream of states, for code that pauses writes while the hold is
    /// [`Suspended`](HoldState::Suspended). It begins with the state at the call, and its last item
    /// is the end.
    pub fn states(&self) -> impl Stream<Item = HoldState> + Send + 'static + use<> {
        states(self.held_by().into())
    }

    /// A handle that becomes ready when the hold ends: a future, cloneable, `'static`. If the
    /// deadline has passed, it is ready at its first poll.
    ///
    /// It answers [`Ended::Lost`], or [`Ended::Released`] when the hold was released or dropped. A
    /// task that waits for it ends with the hold, and after that the handle keeps nothing alive.
    #[doc(alias = "on_lost")]
    pub fn lost(&self) -> Loss {
        Loss::of(self.held_by())
    }

    /// Runs `work` while it is held, and drops it when the hold is lost, or released by another
    /// task. What `work` has spawned, or handed to `spawn_blocking`, goes on: that code must call
    /// [`check`](Hold::check) or wait for [`lost`](Hold::lost).
    ///
    /// The hold is not released at the end: call [`release`](Hold::release), or use
    /// [`with`](super::Acquire::with) on the request, which does both. The work need not be `Send`;
    /// the future is `Send` if the work is, and does not borrow the hold.
    ///
    /// # Errors
    /// `Lost`, with the key and the reason; `NotHeld` if it was released. If that was before the
    /// call, `work` is never polled.
    ///
    /// # Cancel safety
    /// The same as `work`.
    #[must_use = "nothing runs until it is polled"]
    pub fn run<F: Future>(&self, work: F) -> impl Future<Output = Result<F::Output>> + use<F> {
        Run::new(self.lost(), work)
    }

    /// Gives the hold back, and waits until the server has confirmed it. Idempotent. After it the
    /// lock is free, unless its owner holds it by another guard, or
    /// [`min_hold`](super::Acquire::min_hold) keeps it.
    ///
    /// A hold that was lost before, also at its fixed end, is given back at once and without
    /// waiting: call this when the work is over.
    ///
    /// # Errors
    /// `Lost` with the reason if the hold was lost before, as this client or the server knows:
    /// another client may have held it since.
    ///
    /// `OutcomeUnknown` when the server refused the release, or has not confirmed it by the hold's
    /// deadline: retries go on in the background, and the end of the lease frees it. `OutcomeUnknown` also
    /// when the reply to a first try was lost and the next try finds no node: either that try
    /// removed it, or someone else did before. `RuntimeGone` when the coordinator's runtime has
    /// ended.
    ///
    /// # Cancel safety
    /// A dropped release goes on in the background.
    #[doc(alias = "unlock", alias = "resign")]
    pub async fn release(&self) -> Result<()> {
        match self.give_back().await? {
            Ended::Released => Ok(()),
            Ended::Lost(reason) => Err(Error::lost(reason).in_operation("release").on(self.key())),
        }
    }

    /// As [`release`](Self::release), and answers how the hold ended.
    pub(super) fn give_back(&self) -> BoxFuture<'_, Result<Ended>> {
        match &self.by {
            HoldKind::Node(held) => Box::pin(held.release()),
            HoldKind::Owner(share) => Box::pin(share.release()),
            HoldKind::Composite(composite) => composite.release(),
        }
    }

    /// Releases a hold of one node in the background.
    pub(super) fn let_go(&self) {
        if let HoldKind::Node(held) = &self.by {
            held.let_go();
        }
    }

    /// Releases a hold that was lost before, without waiting.
    pub(super) fn give_back_lost(&self) {
        if let HoldKind::Node(held) = &self.by {
            held.give_back_lost();
        }
    }

    /// Bounds it after its admission, as a part of a hold over several locks: an owner's share only
    /// if no other guard of that owner uses the node.
    pub(super) fn bind(&self, end: Option<Moment>, min_hold: Option<Duration>) {
        match &self.by {
            HoldKind::Node(held) => held.bind(end, min_hold),
            HoldKind::Owner(share) if share.is_alone() => share.held.bind(end, min_hold),
            _ => {}
        }
    }

    /// Turns a writer into a reader, in its place.
    pub(super) async fn downgrade(self) -> Result<Self> {
        let by = match self.by {
            HoldKind::Node(held) => {
                held.downgrade().await?;
                // The fixed end may have come during the request.
                held.tenure.check()?;
                HoldKind::Node(held)
            }
            HoldKind::Owner(share) => HoldKind::Owner(share.downgrade().await?),
            other => other,
        };
        Ok(Self { by, claim: Claim::Shared, waited: self.waited })
    }

    pub(super) fn held_by(&self) -> HeldBy<'_> {
        match &self.by {
            HoldKind::Composite(composite) => composite.held_by(),
            HoldKind::Node(_) | HoldKind::Owner(_) => HeldBy::All(std::slice::from_ref(self.tenure())),
        }
    }

    pub(super) fn composite(&self) -> &dyn Composite {
        match &self.by {
            HoldKind::Composite(composite) => &**composite,
            HoldKind::Node(_) | HoldKind::Owner(_) => unreachable!("only guards of several parts ask for it"),
        }
    }

    pub(super) fn claim(&self) -> Claim {
        self.claim
    }

    /// The place in the queue of a hold of one node, with the epoch of its [move](crate::Move): for
    /// tests that compare places before and after a move.
    #[doc(hidden)]
    pub fn place(&self) -> Token {
        self.node().token()
    }

    /// The tenure of a hold of one node.
    pub(super) fn tenure(&self) -> &Arc<Tenure> {
        match &self.by {
            HoldKind::Owner(share) => &share.tenure,
            _ => &self.node().tenure,
        }
    }

    /// The client of a hold of one node.
    pub(super) fn client(&self) -> &Arc<Client> {
        &self.node().client
    }

    fn node(&self) -> &HeldNode {
        match &self.by {
            HoldKind::Node(held) => held,
            HoldKind::Owner(share) => &share.held,
            HoldKind::Composite(_) => unreachable!("only guards of one node ask for it"),
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("key", &self.key()).field("held_by", &self.held_by()).finish()
    }
}
