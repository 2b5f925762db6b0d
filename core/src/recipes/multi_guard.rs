//! Several locks held as one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::guards::Held;
use super::member::Member;
use super::multi_members::MultiMembers;
use crate::address::Address;
use crate::error::Result;
use crate::hold::{Hold, Release, Tenure, own_methods};
use crate::token::Token;

/// Several locks held as one. Released by [`release`](Hold::release), or in the background when it
/// is dropped: all of them.
///
/// It is lost when one of them is lost; [`lost`](Hold::lost) then names the key. The others stay
/// held until it is released or dropped.
#[must_use = "a guard that is dropped at once releases all at once"]
pub struct MultiGuard {
    members: Arc<MultiMembers>,
    // Both in the order in which the members were given.
    held: Vec<Held>,
    tenures: Box<[Arc<Tenure>]>,
    waited: Duration,
}

impl MultiGuard {
    /// `held` is in canonical order.
    pub(super) fn new(members: &Arc<MultiMembers>, held: Vec<Held>, waited: Duration) -> Self {
        let mut held: Vec<_> = members.order().iter().copied().zip(held).collect();
        held.sort_unstable_by_key(|(place, _)| *place);
        let held: Vec<_> = held.into_iter().map(|(_, held)| held).collect();
        let tenures = held.iter().map(|held| Arc::clone(held.tenure())).collect();
        Self { members: Arc::clone(members), held, tenures, waited }
    }

    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The tokens of all members, in the order in which these were given. Those of mutexes and
    /// writers fence, each its own resource; those of readers and permits identify.
    pub fn tokens(&self) -> Vec<Token> {
        self.held.iter().map(|held| held.token()).collect()
    }

    /// The addresses of all members, in the order of [`tokens`](Self::tokens).
    pub fn addresses(&self) -> Vec<&Address> {
        self.members.all().iter().map(Member::address).collect()
    }
}

own_methods!(MultiGuard);

#[async_trait]
impl Hold for MultiGuard {
    fn tenures(&self) -> &[Arc<Tenure>] {
        &self.tenures
    }

    /// The keys of all members, joined by ` + `.
    fn key(&self) -> &str {
        self.members.name()
    }

    /// Gives all of them back at once, and waits until their servers have confirmed it. `AlreadyLost`
    /// if one of them was lost before.
    ///
    /// # Errors
    /// `Unknown` when one was not confirmed; the error names its key.
    ///
    /// # Cancel safety
    /// A dropped release goes on in the background.
    async fn release(&self) -> Result<Release> {
        Release::of_all(join_all(self.held.iter().map(Held::release)).await)
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard").field("held", &self.held).finish_non_exhaustive()
    }
}
