mod downgrade;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::address::Address;
use crate::cleanup::{Task, leave};
use crate::client::Client;
use crate::clock::Moment;
use crate::contracts::Node;
use crate::decide::given_back_at;
use crate::decide::life::{AfterTry, By, Failure, Outcome, TakeBack};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::hold::{Ended, Tenure};
use crate::seen::{self, SeenHold};
use crate::token::Token;
use crate::when_dropped::WhenDropped;

/// A node that is held by one guard, or by all guards of one owner.
pub(crate) struct HeldNode {
    pub(crate) client: Arc<Client>,
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) node: Arc<dyn Node>,
}

impl HeldNode {
    /// `seen` reports the hold.
    pub(crate) fn new(
        client: Arc<Client>,
        queue: Address,
        node: Arc<dyn Node>,
        min_hold: Option<Duration>,
        seen: SeenHold,
    ) -> Self {
        let tenure = Tenure::new(client.id, queue, Arc::clone(&node));
        node.state().report_to(seen);
        let in_time = client.live.add(&tenure);
        let held = Self { client, tenure, node };
        if !in_time {
            // Other clients would wait for the node until the close is over.
            held.take_back();
        }
        held.keep(min_hold);
        held.leave_at_fixed_end();
        held
    }

    /// A close neither waits for the node nor gives it back separately: it is a part of a hold over two
    /// coordinators, or a membership.
    pub(crate) fn without_work(client: Arc<Client>, queue: Address, node: Arc<dyn Node>) -> Self {
        let tenure = Tenure::new(client.id, queue, Arc::clone(&node));
        Self { client, tenure, node }
    }

    /// `min_hold` counts from now on.
    pub(crate) fn bind(&self, end: Option<Moment>, min_hold: Option<Duration>) {
        self.keep(min_hold);
        if let Some(end) = end {
            self.node.state().change(|life, _| life.end_by(end));
            self.leave_at_fixed_end();
        }
    }

    fn keep(&self, min_hold: Option<Duration>) {
        if let Some(length) = min_hold {
            self.node.state().change(|life, seen| life.keep_until(seen.now + length));
            self.client.cleanup.keep(&self.node);
        }
    }

    /// Returns the tenure of another guard on the same node.
    pub(crate) fn beside(&self) -> Arc<Tenure> {
        Tenure::new(self.client.id, self.tenure.queue.clone(), Arc::clone(&self.node))
    }

    pub(crate) fn token(&self) -> Token {
        self.node.state().token()
    }

    /// Returns whether the removal has ended, with any result.
    pub(crate) fn is_gone(&self) -> bool {
        self.node.state().outcome().is_some()
    }

    /// Returns the server's refusal to remove the node.
    pub(crate) fn refused(&self) -> Option<Error> {
        match self.node.state().outcome()? {
            (Outcome::Unconfirmed, why) => why.filter(|why| Failure::from(why) == Failure::Refused),
            _ => None,
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.node.state().is_kept()
    }

    pub(crate) fn backend(&self) -> &'static str {
        self.client.backend.name()
    }

    fn queue(&self) -> &Address {
        &self.tenure.queue
    }

    fn take_back(&self) {
        self.client.cleanup.push(Task::leave(self.queue(), &self.node));
    }

    /// Leaves one margin after the fixed end, also if the guard is never used, so that the holder's work can
    /// stop (LEASE-FIXED).
    fn leave_at_fixed_end(&self) {
        let end = self.node.state().fixed_end();
        if end == Moment::NEVER {
            return;
        }
        let (clock, cleanup, live) =
            (self.client.clock(), self.client.cleanup.clone(), self.client.live.clone());
        let (tenure, node) = (Arc::clone(&self.tenure), Arc::clone(&self.node));
        self.client.cleanup.beside(async move {
            tokio::select! {
                biased;
                () = tenure.until_ended() => {}
                () = clock.sleep_until(end) => {}
            }
            let state = node.state();
            // The holder gave it back in time, or a close does.
            if tenure.by_its_owner() == Some(Ended::Released) || state.lost() != Some(LostReason::MaxHold) {
                return;
            }
            clock.sleep_until(given_back_at(end, state.lease().ttl())).await;
            if state.outcome().is_none() {
                cleanup.push(Task::leave(&tenure.queue, &node));
            }
            // A close waits up to this point for a guard that was dropped.
            if tenure.by_its_owner().is_some() {
                live.remove(&tenure);
            }
        });
    }

    /// The first call returns when to give the node back.
    fn end(&self, by: By) -> Option<TakeBack> {
        if !self.tenure.end() {
            return None;
        }
        let lost = match self.tenure.by_its_owner() {
            Some(Ended::Lost(reason)) => Some(reason),
            _ => None,
        };
        let (state, clock) = (self.node.state(), self.node.state().lease().clock());
        let take_back = state.look(|life| life.end(by, lost, clock.now(), state.lease().ttl()));
        state.ended(lost, clock.now());
        if take_back != TakeBack::Lingers {
            self.client.live.remove(&self.tenure);
        }
        Some(take_back)
    }

    pub(crate) fn let_go(&self) {
        match self.end(By::Drop) {
            Some(TakeBack::Now | TakeBack::Lost | TakeBack::Later) => self.take_back(),
            Some(TakeBack::Lingers) | None => {}
        }
    }

    pub(crate) fn give_back_lost(&self) {
        if self.end(By::Release).is_some() {
            self.take_back();
        }
    }

    pub(crate) async fn release(&self) -> Result<Ended> {
        self.give_back().await.map_err(|error| error.in_operation("release").on(self.queue().name()))
    }

    async fn give_back(&self) -> Result<Ended> {
        let first = self.end(By::Release);
        let ended = self.tenure.by_its_owner().expect("ended above, if not before");
        if matches!(ended, Ended::Lost(_)) || self.is_kept() {
            // The release need not wait: the node is lost, or its shortest time keeps others out anyway.
            if first.is_some() {
                self.take_back();
            }
            return Ok(ended);
        }
        let lease = self.node.state().lease();
        // A release that is dropped at its first await continues too.
        let in_background = first.map(|_| WhenDropped::new(|| self.take_back()));
        let confirmed = async {
            tokio::select! {
                biased;
                outcome = self.leave(in_background) => self.answer(outcome),
                () = lease.clock().sleep_until(lease.deadline()) => Err(late()),
            }
        };
        self.client.serve(confirmed).await
    }

    /// Only the first call leaves. Every call waits until the node is gone.
    async fn leave(&self, first: Option<WhenDropped<impl FnOnce()>>) -> (Outcome, Option<Error>) {
        let state = self.node.state();
        if let Some(in_background) = first {
            let (next, answer) = leave(&*self.node).await;
            if let Err(error) = answer
                && error.lost_reason().is_none()
            {
                seen::release_unconfirmed(self.queue().name(), self.token(), &error);
            }
            if next == AfterTry::Done {
                in_background.disarm();
            }
        }
        state.until(|| state.outcome()).await
    }

    fn answer(&self, outcome: (Outcome, Option<Error>)) -> Result<Ended> {
        let lease = self.node.state().lease();
        match outcome {
            (Outcome::Removed, _) => Ok(Ended::Released),
            // After the deadline, the node may be absent because this lease ended.
            (Outcome::Absent(reason), _) if lease.clock().now() < lease.deadline() => Ok(Ended::Lost(reason)),
            (Outcome::Absent(_), _) => Err(late()),
            (Outcome::Unsure, _) => {
                Err(unknown("the server did not confirm the release").because(Error::new(
                    ErrorKind::OutcomeUnknown,
                    "the lock is free, but the reply to the release was lost: this release or another client removed the node",
                )))
            }
            (Outcome::Unconfirmed, why) => {
                Err(unknown("the server did not confirm the release").because_of(why))
            }
        }
    }
}

fn unknown(what: &'static str) -> Error {
    Error::new(ErrorKind::OutcomeUnknown, what)
}

fn late() -> Error {
    unknown("the server did not confirm the release before the deadline of the hold")
}

impl Drop for HeldNode {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for HeldNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldNode").field("tenure", &self.tenure).finish_non_exhaustive()
    }
}
