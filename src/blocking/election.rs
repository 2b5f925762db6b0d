//! Leader election.

use std::ops::ControlFlow;
use std::time::Duration;

use super::forward::{forward, keyed, recipe, verb};
use super::guard::{Guard, fences};
use super::observer::Observer;
use crate::contracts::Entry;
use crate::{Acquire, ErrorKind, Leading, Owner, Release, Result, Token};

recipe! {
    /// An election: of all candidates one leads at a time, and everybody can see which. As
    /// [`latchwork::Election`](crate::Election).
    ///
    /// ```
    /// use latchwork::{Release, blocking};
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let election = coordinator.election("scheduler")?;
    /// let mut seen = election.observe()?.into_iter();
    /// assert_eq!(seen.next().transpose()?, Some(None));
    /// let leader = election.campaign(b"10.0.0.7:80")?;
    /// let leading = seen.next().expect("it goes on")?.expect("it leads");
    /// assert_eq!(leading.term, leader.term());
    /// assert_eq!(leader.resign()?, Release::Released);
    /// # coordinator.close() }
    /// ```
    Election
}

impl Election {
    verb! {
        Election, campaign(data: &[u8]) -> Leader;
        campaign_within, campaign_with;
        try_campaign, try_campaign_with;
        campaign_as, campaign_as_with, try_campaign_as, try_campaign_as_with;
    }

    /// Leads again and again: stands, does `work` as the leader, resigns. Ends when the work breaks as
    /// the leader; it stands again while the work continues, or if leadership was lost under it, whatever
    /// the work answered. Nothing stops the work at a loss: it must look at [`Guard::check`]. As
    /// [`Election::lead`](crate::Election::lead) otherwise.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), when it could not stand.
    pub fn lead<T>(&self, data: &[u8], mut work: impl FnMut(&Leader) -> ControlFlow<T>) -> Result<T> {
        loop {
            let leader = match self.campaign(data) {
                Err(error) if matches!(error.kind(), ErrorKind::Lost { .. }) => continue,
                leader => leader?,
            };
            let done = leader.run(|| work(&leader));
            if let Err(error) = leader.resign() {
                tracing::debug!(%error, "the resignation is not confirmed; the lease ends it");
            }
            if let Ok(ControlFlow::Break(done)) = done {
                return Ok(done);
            }
        }
    }

    /// Observes who leads, once that was read. As [`Election::observe`](crate::Election::observe), with its
    /// errors, and `InAsyncCode`.
    pub fn observe(&self) -> Result<Observer> {
        Ok(Observer::new(self.home.run(self.recipe.observe())?, self.key(), &self.home))
    }

    forward! { Election:
        /// Who leads now.
        fn leader() -> Option<Leading>;
        /// The leader and the candidates, in order.
        fn queue(after: u64, most: usize) -> Vec<Entry>;
        /// Removes any client's leader or candidate: for operators.
        fn force_release(sequence: u64) -> bool;
    }

    keyed!();
}

/// Leadership.
pub type Leader = Guard<crate::Leader>;

impl Leader {
    fences!();

    /// The term: the fencing token, above that of every leader before.
    pub fn term(&self) -> Token {
        self.hold.term()
    }

    /// How long it stood as a candidate.
    pub fn waited(&self) -> Duration {
        self.hold.waited()
    }

    /// Replaces what others see of it. As [`Leader::proclaim`](crate::Leader::proclaim), with its errors,
    /// and `InAsyncCode`.
    pub fn proclaim(&self, data: &[u8]) -> Result<()> {
        self.home.run(self.hold.proclaim(data))
    }

    /// Gives leadership up. The same as [`release`](Guard::release).
    ///
    /// # Errors
    /// As [`release`](Guard::release).
    pub fn resign(&self) -> Result<Release> {
        self.release()
    }
}
