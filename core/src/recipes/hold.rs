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

/// A hold on the coordinator: every guard dereferences to it. Code that works under any hold takes `&Hold`;
/// code that stores holds takes `impl Into<Hold>`.
///
/// A process that was paused longer than its TTL believes that it holds the lock until its next
/// [`check`](Self::check). A fencing token ([`Fenced`](super::Fenced)) lets the resource refuse its writes.
///
/// A drop releases the hold in the background. It never blocks, and does not panic outside of a runtime.
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

enum HoldKind {
    Node(HeldNode),
    Owner(Share),
    Composite(Box<dyn Composite>),
}

pub(super) trait Composite: Send + Sync {
    fn key(&self) -> &str;

    fn address(&self) -> &Address;

    fn coordinator(&self) -> Option<&str>;

    fn held_by(&self) -> HeldBy<'_>;

    /// `None` for a part without a place.
    fn places(&self) -> Vec<Option<Token>>;

    fn addresses(&self) -> Vec<&Address> {
        vec![self.address()]
    }

    fn release(&self) -> BoxFuture<'_, Result<Ended>>;

    /// Also waits until the other members inside have left.
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

    /// Returns the key, or the joined keys of a [`MultiLock`](super::MultiLock).
    pub fn key(&self) -> &str {
        match &self.by {
            HoldKind::Composite(composite) => composite.key(),
            HoldKind::Node(_) | HoldKind::Owner(_) => self.node().tenure.queue.name(),
        }
    }

    /// Returns the address on the coordinator, of the first lock if there are several.
    pub fn address(&self) -> &Address {
        match &self.by {
            HoldKind::Composite(composite) => composite.address(),
            HoldKind::Node(_) | HoldKind::Owner(_) => &self.node().tenure.queue,
        }
    }

    /// Returns the [name](crate::Config::name) of the coordinator, if it has one; of the first lock if there
    /// are several. `None` for a quorum lock.
    pub fn coordinator(&self) -> Option<&str> {
        match &self.by {
            HoldKind::Composite(composite) => composite.coordinator(),
            HoldKind::Node(_) | HoldKind::Owner(_) => self.client().name.as_deref(),
        }
    }

    /// Returns how long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns whether the hold still exists, by the clock at this call.
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Fails if the hold has ended, by the clock at this call.
    ///
    /// # Errors
    /// * `Lost`: the hold was lost, with the reason.
    /// * `NotHeld`: the hold was released.
    pub fn check(&self) -> Result<()> {
        self.held_by().check()
    }

    /// Returns the state, by the clock at this call.
    pub fn state(&self) -> HoldState {
        self.held_by().state()
    }

    /// Returns the time until the lease's deadline, which each renewal moves, or until an earlier fixed end.
    /// Zero after the end of the hold.
    pub fn remaining(&self) -> Duration {
        self.held_by().remaining()
    }

    /// Returns a stream of states, from the current state to [`Ended`](HoldState::Ended). Code can pause
    /// writes while the hold is [`Suspended`](HoldState::Suspended).
    pub fn states(&self) -> impl Stream<Item = HoldState> + Send + 'static + use<> {
        states(self.held_by().into())
    }

    /// Returns a future that becomes ready when the hold ends: [`Ended::Lost`], or [`Ended::Released`] after
    /// a release or a drop.
    #[doc(alias = "on_lost")]
    pub fn lost(&self) -> Loss {
        Loss::of(self.held_by())
    }

    /// Runs `work` while the lock is held. Drops `work` when the hold is lost or another task releases it.
    ///
    /// Tasks that `work` spawned, also with `spawn_blocking`, continue: they must [`check`](Hold::check) or
    /// wait for [`lost`](Hold::lost). The hold is not released. The future is `Send` if `work` is.
    ///
    /// # Errors
    /// As [`check`](Hold::check). If the hold ended before the call, `work` is never polled.
    ///
    /// # Cancel safety
    /// As `work`.
    #[must_use = "nothing runs until it is polled"]
    pub fn run<F: Future>(&self, work: F) -> impl Future<Output = Result<F::Output>> + use<F> {
        Run::new(self.lost(), work)
    }

    /// Releases the hold, and waits until the server has confirmed it. Further calls change nothing.
    ///
    /// The lock is then free, unless its owner has another guard or [`min_hold`](super::Acquire::min_hold)
    /// keeps it. The release of a lost hold does not wait, and ends the
    /// [margin](crate::contracts::Lease::margin) for the holder's work.
    ///
    /// # Errors
    /// * `Lost`: the hold was lost before, so another client may have held the lock.
    /// * `OutcomeUnknown`: the server refused the release, did not confirm it before the deadline of the
    ///   hold, or found no node after a request whose reply was lost. The client retries in the background;
    ///   the lease's end frees the lock.
    /// * `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped release continues in the background.
    #[doc(alias = "unlock", alias = "resign")]
    pub async fn release(&self) -> Result<()> {
        match self.give_back().await? {
            Ended::Released => Ok(()),
            Ended::Lost(reason) => Err(Error::lost(reason).in_operation("release").on(self.key())),
        }
    }

    /// Like [`release`](Self::release), but a loss is not an error.
    pub(super) fn give_back(&self) -> BoxFuture<'_, Result<Ended>> {
        match &self.by {
            HoldKind::Node(held) => Box::pin(held.release()),
            HoldKind::Owner(share) => Box::pin(share.release()),
            HoldKind::Composite(composite) => composite.release(),
        }
    }

    pub(super) fn let_go(&self) {
        if let HoldKind::Node(held) = &self.by {
            held.let_go();
        }
    }

    pub(super) fn give_back_lost(&self) {
        if let HoldKind::Node(held) = &self.by {
            held.give_back_lost();
        }
    }

    /// Bounds one of several locks after its admission. An owner's share is bounded only if no other guard
    /// uses the node.
    pub(super) fn bind(&self, end: Option<Moment>, min_hold: Option<Duration>) {
        match &self.by {
            HoldKind::Node(held) => held.bind(end, min_hold),
            HoldKind::Owner(share) if share.is_alone() => share.held.bind(end, min_hold),
            _ => {}
        }
    }

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
            HoldKind::Node(_) | HoldKind::Owner(_) => {
                unreachable!("only MultiGuard, QuorumGuard and Inside call composite()")
            }
        }
    }

    pub(super) fn claim(&self) -> Claim {
        self.claim
    }

    /// For tests that compare places before and after a [move](crate::Move).
    #[doc(hidden)]
    pub fn place(&self) -> Token {
        self.node().token()
    }

    pub(super) fn tenure(&self) -> &Arc<Tenure> {
        match &self.by {
            HoldKind::Owner(share) => &share.tenure,
            _ => &self.node().tenure,
        }
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.node().client
    }

    fn node(&self) -> &HeldNode {
        match &self.by {
            HoldKind::Node(held) => held,
            HoldKind::Owner(share) => &share.held,
            HoldKind::Composite(_) => unreachable!("only guards of one node call node()"),
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("key", &self.key()).field("held_by", &self.held_by()).finish()
    }
}
