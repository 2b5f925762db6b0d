//! An acquisition of a participant, on the sides that the phase needs at its end.

use std::sync::Arc;
use std::time::Duration;

use super::node::OnSides;
use super::participant::Participant;
use crate::attempt::{Admitted, Request, late};
use crate::client::Client;
use crate::clock::{Clock, Moment};
use crate::contracts::{LeaseState, Node};
use crate::decide::life::joins_anew;
use crate::decide::moving::{AcquireNext, MovePhase, Side};
use crate::error::{Error, LostReason, Result};
use crate::support::{Backoff, Pauses};

/// The extra wait after the deadline: a side may still report why its requests failed.
const LAST_WORD: Duration = Duration::from_millis(100);

/// Acquires, as [`attempt::acquire`](crate::attempt::acquire); `None` for a refused try.
pub(crate) async fn acquire(
    participant: &Participant,
    client: &Client,
    request: &Request,
) -> Result<Option<Admitted>> {
    let acquired = client.serve(async {
        if client.live.is_closing() || client.lease().state() == LeaseState::Lost(LostReason::Closed) {
            return Err(Error::closed());
        }
        let (clock, patience) = (participant.clock(), request.patience);
        let begun = clock.now();
        // Removals of this client's own nodes come first (QUEUE-LEAVE-BEFORE-JOIN).
        tokio::select! {
            biased;
            () = client.cleanup.settled(&request.queue) => {}
            () = clock.sleep_until(request.deadline.min(begun + client.lease().ttl())) => {}
        }
        let node = tokio::select! {
            biased;
            node = Acquiring::new(participant, &clock, request).run() => node?,
            () = clock.sleep_until(request.deadline + LAST_WORD) => return Err(late(patience, None)),
        };
        Ok(node.map(|node| Admitted { node, waited: clock.now().since(begun) }))
    });
    acquired.await.map_err(|error| error.on(request.queue.name()))
}

/// An acquisition under way. Dropped, it removes its nodes in the background.
struct Acquiring<'a> {
    participant: &'a Participant,
    clock: &'a Clock,
    request: &'a Request,
    on: OnSides,
    // The stage was read since the admission on both sides.
    read: bool,
    // The end of retries on a silent server: the deadline, or a TTL after the last wait in a queue.
    give_up: Moment,
    pauses: Backoff,
}

impl<'a> Acquiring<'a> {
    fn new(participant: &'a Participant, clock: &'a Clock, request: &'a Request) -> Self {
        let give_up = match request.deadline {
            // It gives up as soon as it may not act.
            _ if request.fail_fast => clock.now(),
            Moment::NEVER => clock.now() + participant.old.client.lease().ttl(),
            deadline => deadline,
        };
        let pauses = Backoff::new(Pauses::OUTAGE);
        Self { participant, clock, request, on: OnSides::default(), read: false, give_up, pauses }
    }

    async fn run(mut self) -> Result<Option<Arc<dyn Node>>> {
        loop {
            match self.step().await {
                Ok(Step::Goes) => {}
                Ok(Step::Refused) => return Ok(None),
                Ok(Step::Holds(node)) => return Ok(Some(node)),
                // A node was lost, and its place with it.
                Err(error) if error.lost_reason().is_some_and(joins_anew) => {
                    self.heard();
                    self.on = OnSides::default();
                    self.read = false;
                    self.pauses.wait(self.clock).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn step(&mut self) -> Result<Step> {
        let phase = self.participant.ready(self.give_up).await?;
        match self.on.holding().next(phase, self.on.new.is_some(), self.read) {
            AcquireNext::Join(side) => self.join(side, phase).await,
            AcquireNext::GiveBackNew => {
                self.read = false;
                if let Some(held) = self.on.new.take() {
                    // An unconfirmed removal continues in the background.
                    let _ = held.release().await;
                }
                Ok(Step::Goes)
            }
            AcquireNext::Read => {
                match self.participant.refresh().await {
                    Ok(()) => self.read = true,
                    Err(error) => self.bears(error).await?,
                }
                Ok(Step::Goes)
            }
            AcquireNext::Complete(_) => {
                match self.participant.complete(self.request, std::mem::take(&mut self.on), phase)? {
                    Ok(node) => {
                        let client = &self.participant.old.client;
                        let seen = Arc::clone(&self.participant.seen);
                        client.cleanup.beside(Arc::clone(&node).give_back_when_lost(seen));
                        Ok(Step::Holds(node))
                    }
                    Err(on) => {
                        (self.on, self.read) = (on, false);
                        Ok(Step::Goes)
                    }
                }
            }
        }
    }

    /// Joins a side and waits there, until the place is useless or lost.
    async fn join(&mut self, side: Side, phase: MovePhase) -> Result<Step> {
        let participant = self.participant;
        let limit = match participant.limit_there(self.request, side, phase).await {
            Ok(limit) => limit,
            Err(error) => {
                self.bears(error).await?;
                return Ok(Step::Goes);
            }
        };
        let has_old = self.on.old.is_some();
        // A waiter on the new side leaves if it needs the old side first (MIGRATE-CANONICAL-ORDER), or if it
        // has the old side and does not need the new side.
        let useless = participant.until(|known| {
            let needs = known.phase().needs();
            let useless = side == Side::New && if has_old { !needs.new } else { needs.old };
            useless.then_some(())
        });
        let parts = self.on.all();
        let lost = async {
            match &parts[..] {
                [held, ..] => held.node.state().until_lost().await,
                [] => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            joined = participant.side(side).join(self.clock, self.request, limit) => {
                let Some(held) = joined? else { return Ok(Step::Refused) };
                *self.on.slot(side) = Some(Arc::new(held));
            }
            () = useless => {}
            reason = lost => return Err(Error::lost(reason)),
        }
        self.heard();
        Ok(Step::Goes)
    }

    /// Its wait in a queue ends now.
    fn heard(&mut self) {
        if self.request.deadline == Moment::NEVER && !self.request.fail_fast {
            self.give_up = self.clock.now() + self.participant.old.client.lease().ttl();
        }
    }

    /// Waits before the next try after a failed request.
    ///
    /// # Errors
    /// The error, if no other try may follow.
    async fn bears(&mut self, error: Error) -> Result<()> {
        if !error.may_pass() || self.clock.now() >= self.give_up {
            return Err(error);
        }
        self.pauses.wait(self.clock).await;
        Ok(())
    }
}

enum Step {
    Goes,
    Refused,
    Holds(Arc<dyn Node>),
}
