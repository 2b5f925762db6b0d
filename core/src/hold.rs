//! What all guards and leadership have in common.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::stream::BoxStream;

use crate::contracts::LeaseState;
use crate::error::{ErrorKind, Lost, LostReason, Result};
use crate::holding::Tenure;
use crate::loss::{Loss, states};
use crate::token::Token;

/// What a release answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It was held until now, and is given back: free, but where its owner holds on by another guard, or
    /// [`hold_at_least`](crate::recipes::Acquire::hold_at_least) keeps it.
    Released,
    /// It was lost before: somebody else may have held it since.
    AlreadyLost(LostReason),
}

/// A hold on something: the trait of all guards.
///
/// A lease lock cannot promise that two processes never both *believe* they hold: a process that is paused past
/// its TTL, and continued, goes on for an instant before it looks. `check()` tells it at the first
/// call; the fencing token ([`Fenced`]) lets the resource refuse what was sent in that instant. Dropping a hold releases it
/// in the background; it never blocks, and never panics outside a runtime.
#[async_trait::async_trait]
pub trait Hold: fmt::Debug + Send + Sync {
    /// The part that all guards have.
    #[doc(hidden)]
    fn tenure(&self) -> &Arc<Tenure>;

    /// The key, as it was given.
    fn key(&self) -> &str {
        self.tenure().queue.name()
    }

    /// Whether it is held, by the clock at this call.
    fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// An error once it is not held any more.
    ///
    /// # Errors
    /// `Lost` with the reason; `NotHeld` after a release.
    fn check(&self) -> Result<()> {
        self.tenure().check()
    }

    /// The state by the clock at this call: `Suspended` while the coordinator does not answer and the deadline has not come;
    /// `Lost`, with the reason `Released`, after a release.
    fn state(&self) -> LeaseState {
        self.tenure().state().unwrap_or(LeaseState::Lost(LostReason::Released))
    }

    /// A stream of states, from now until it is lost or released: for those who pause writes while `Suspended`.
    fn states(&self) -> BoxStream<'static, LeaseState> {
        states(Arc::clone(self.tenure()))
    }

    /// A handle that becomes ready when the hold is lost: a future, cloneable, `'static`. It is ready at its
    /// first poll when the deadline has passed by then.
    ///
    /// A release is no loss: after one the handle stays pending, and its `reason()` stays `None`. Work that must end with
    /// the hold, released or lost, runs under [`run`](Hold::run), or looks at [`check`](Hold::check) between its steps.
    fn lost(&self) -> Loss {
        Loss::of(Arc::clone(self.tenure()))
    }

    /// Runs `work` while it is held: drops it when the hold is lost, or released by another task. (What was handed to
    /// `spawn_blocking` or spawned goes on: it must look at [`check`](Hold::check), which tells of a loss and of a release;
    /// a handle of [`lost`](Hold::lost) tells of a loss only.) The hold is not released at the end.
    ///
    /// # Errors
    /// [`Lost`], with the key and the reason; `Released` on a hold that is released, without polling `work`.
    ///
    /// # Cancel safety
    /// As that of `work`.
    async fn run<F>(&self, work: F) -> std::result::Result<F::Output, Lost>
    where
        Self: Sized,
        F: Future + Send,
        F::Output: Send,
    {
        run_under(self, work).await
    }

    /// Gives it back, and waits until the server has confirmed. Idempotent.
    ///
    /// # Errors
    /// `Unknown` when the server refused it, or has not confirmed it by the hold's deadline (it is tried on in
    /// the background, and the lease's end frees it).
    ///
    /// # Cancel safety
    /// A dropped release goes on in the background.
    async fn release(&self) -> Result<Release>;
}

async fn run_under<F: Future>(hold: &(impl Hold + ?Sized), work: F) -> std::result::Result<F::Output, Lost> {
    let released = || Lost { key: hold.key().into(), reason: LostReason::Released };
    if let Err(error) = hold.check()
        && error.kind() == &ErrorKind::NotHeld
    {
        return Err(released());
    }
    let lost = hold.lost();
    tokio::select! {
        biased;
        lost = lost => Err(lost),
        () = hold.tenure().until_ended() => Err(released()),
        output = work => Ok(output),
    }
}

/// A guard of a kind that is not known here: `Box<dyn Hold>` is a hold itself, under which work can be run.
#[deny(clippy::missing_trait_methods)]
#[async_trait::async_trait]
impl<H: Hold + ?Sized> Hold for Box<H> {
    fn tenure(&self) -> &Arc<Tenure> {
        (**self).tenure()
    }

    fn key(&self) -> &str {
        (**self).key()
    }

    fn is_held(&self) -> bool {
        (**self).is_held()
    }

    fn check(&self) -> Result<()> {
        (**self).check()
    }

    fn state(&self) -> LeaseState {
        (**self).state()
    }

    fn states(&self) -> BoxStream<'static, LeaseState> {
        (**self).states()
    }

    fn lost(&self) -> Loss {
        (**self).lost()
    }

    async fn run<F>(&self, work: F) -> std::result::Result<F::Output, Lost>
    where
        Self: Sized,
        F: Future + Send,
        F::Output: Send,
    {
        run_under(&**self, work).await
    }

    async fn release(&self) -> Result<Release> {
        (**self).release().await
    }
}

/// A hold that fences: mutex, writer, leader. The tokens of readers and permits identify, they do not fence.
pub trait Fenced: Hold {
    /// The fencing token: always readable, strictly above that of every holder before (NODE-TOKEN).
    /// Refusing a stale one is the resource's part: `UPDATE … SET fence = $1 … WHERE fence <= $1`.
    fn token(&self) -> Token;
}

#[deny(clippy::missing_trait_methods)]
impl<H: Fenced + ?Sized> Fenced for Box<H> {
    fn token(&self) -> Token {
        (**self).token()
    }
}
