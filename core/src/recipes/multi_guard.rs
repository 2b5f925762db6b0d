use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};

use super::guards::MultiGuard;
use super::hold::{Composite, Hold};
use super::member::MultiMember;
use super::multi_members::MultiMembers;
use crate::address::Address;
use crate::decide::Claim;
use crate::error::Result;
use crate::hold::{Ended, HeldBy, Tenure};
use crate::token::Token;

pub(super) struct Several {
    members: Arc<MultiMembers>,
    // Both are in the order in which the members were given.
    held: Vec<Hold>,
    tenures: Box<[Arc<Tenure>]>,
}

impl Several {
    /// `held` is in canonical order.
    pub(super) fn new(members: &Arc<MultiMembers>, held: Vec<Hold>) -> Self {
        let mut held: Vec<_> = members.order.iter().copied().zip(held).collect();
        held.sort_unstable_by_key(|(place, _)| *place);
        let held: Vec<_> = held.into_iter().map(|(_, held)| held).collect();
        let tenures = held.iter().map(|held| Arc::clone(held.tenure())).collect();
        Self { members: Arc::clone(members), held, tenures }
    }
}

impl Composite for Several {
    fn key(&self) -> &str {
        &self.members.name
    }

    fn address(&self) -> &Address {
        self.members.members[0].address()
    }

    fn coordinator(&self) -> Option<&str> {
        self.members.members[0].coordinator()
    }

    fn held_by(&self) -> HeldBy<'_> {
        HeldBy::All(&self.tenures)
    }

    /// Readers and permits have no token.
    fn places(&self) -> Vec<Option<Token>> {
        let place = |held: &Hold| (held.claim() == Claim::Exclusive).then(|| held.place());
        self.held.iter().map(place).collect()
    }

    fn addresses(&self) -> Vec<&Address> {
        self.members.members.iter().map(MultiMember::address).collect()
    }

    fn release(&self) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(async { Ended::of_all(join_all(self.held.iter().map(Hold::give_back)).await) })
    }
}

impl MultiGuard {
    /// Returns the fencing tokens in the order in which the members were given; `None` for readers and
    /// permits.
    pub fn tokens(&self) -> Vec<Option<Token>> {
        self.0.composite().places()
    }

    /// Returns the addresses of all members, in the order of [`tokens`](Self::tokens).
    pub fn addresses(&self) -> Vec<&Address> {
        self.0.composite().addresses()
    }
}
