use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::known::Known;
use super::node::{MovingNode, OnSides};
use super::place::MovePlace;
use super::side::SideClient;
use super::values::cells::MovingCells;
use super::values::sided::Sided;
use super::values::usage::Usage;
use crate::address::Address;
use crate::attempt::Request;
use crate::clock::{Clock, Moment};
use crate::config::{MOVING, Participates};
use crate::contracts::{Limit, Node};
use crate::decide::Claim;
use crate::decide::moving::{MovePhase, Side, Sides};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::Place;
use crate::seen::ParticipantMeter;
use crate::token::Token;

/// A client that takes part in a move: a client of each side.
#[derive(Debug)]
pub(crate) struct Participant {
    pub(crate) old: SideClient,
    pub(super) new: SideClient,
    pub(super) place: MovePlace,
    pub(super) as_client: Participates,
    // The stamps, the old side's first.
    pub(super) stamps: [Place; 2],
    pub(super) seen: Arc<ParticipantMeter>,
    known: Mutex<Known>,
    pub(super) usage: Arc<Usage>,
    pub(super) cells: Arc<MovingCells>,
    // Raised with each change of the knowledge.
    changed: watch::Sender<u64>,
    // Reads of the stage are made one at a time.
    pub(super) reading: tokio::sync::Mutex<()>,
    pub(super) begun: AtomicU64,
    pub(super) answered: AtomicU64,
}

impl Participant {
    /// `request_timeout`: the longest wait of a request of values during a copy.
    pub(super) fn new(
        old: SideClient,
        new: SideClient,
        as_client: Participates,
        place: MovePlace,
        stamps: [Place; 2],
        request_timeout: Duration,
    ) -> Arc<Self> {
        let (values, known_of_values) = watch::channel(None);
        let usage = Usage::new(known_of_values);
        let of = |side: &SideClient| (Arc::clone(&side.client.backend), side.namespace().clone());
        let sided = Sided { old: of(&old), new: of(&new) };
        let cells = MovingCells::new(sided, &usage, old.client.clock(), request_timeout);
        let sides = [&old, &new].map(|side| side.client.backend.name());
        let seen = Arc::new(ParticipantMeter::new(MOVING, sides));
        Arc::new(Self {
            old,
            new,
            place,
            as_client,
            stamps,
            seen,
            known: Mutex::new(Known::new(values)),
            usage,
            cells: Arc::new(cells),
            changed: watch::Sender::new(0),
            reading: tokio::sync::Mutex::default(),
            begun: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        })
    }

    pub(super) fn clock(&self) -> Clock {
        self.old.client.clock()
    }

    pub(super) fn side(&self, side: Side) -> &SideClient {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    /// The longest time in which both clients end, with the time for a silent server.
    pub(crate) fn ends_within(&self) -> Duration {
        // The outer client's time begins first.
        let of = |side: &SideClient| side.client.ends_within() + side.client.request_timeout;
        of(&self.old).max(of(&self.new))
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Known) -> T) -> T {
        look(&self.known.lock())
    }

    /// Changes the knowledge, and reports it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        let answer = {
            let mut known = self.known.lock();
            let answer = change(&mut known);
            known.tell_values();
            self.seen.shows(known.ready(), known.is_late(), known.epoch());
            answer
        };
        self.changed.send_modify(|count| *count += 1);
        answer
    }

    pub(super) fn phase(&self) -> MovePhase {
        self.look(Known::phase)
    }

    /// Waits until `found` finds something in the knowledge.
    pub(super) async fn until<T>(&self, found: impl Fn(&Known) -> Option<T>) -> T {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            if let Some(found) = self.look(&found) {
                return found;
            }
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Waits until it is a member that has read the stage, and returns the phase.
    ///
    /// # Errors
    /// The reason why it may not act, at `give_up`.
    pub(super) async fn ready(&self, give_up: Moment) -> Result<MovePhase> {
        if let Some(phase) = self.look(Known::ready) {
            return Ok(phase);
        }
        let clock = self.clock();
        tokio::select! {
            biased;
            phase = self.until(Known::ready) => Ok(phase),
            () = clock.sleep_until(give_up) => Err(self.look(|known| known.stop().unwrap_or_else(|| {
                let error = Error::new(ErrorKind::Unavailable, "this client is not a member of its move yet: try again");
                error.because_of(known.why.clone())
            }))),
        }
    }

    pub(crate) async fn ready_within(&self, within: Duration) -> Result<()> {
        self.ready(self.clock().now() + within).await.map(drop)
    }

    pub(super) fn complete(
        &self,
        request: &Request,
        on: OnSides,
        phase: MovePhase,
    ) -> Result<std::result::Result<Arc<MovingNode>, OnSides>> {
        let mut known = self.known.lock();
        if known.ready() != Some(phase) {
            return Ok(Err(on));
        }
        let token = self.token(&known, &on, phase)?;
        let member = phase.needs_membership().then(|| known.member.clone()).flatten();
        let hold = MovingNode::new(self.clock(), on, member, request.clone(), token, &self.cells)?;
        // After several phases an acquisition may have surplus nodes. They are removed before a later phase
        // is known, which may need them and would count them.
        let surplus = hold.trim(phase);
        known.add(&hold);
        drop(known);
        drop(surplus);
        Ok(Ok(hold))
    }

    fn token(&self, known: &Known, on: &OnSides, phase: MovePhase) -> Result<Token> {
        let held = match phase.token() {
            Side::Old => &on.old,
            Side::New => &on.new,
        };
        let held = held.as_ref().expect("the phase needs the side of its token");
        Token::new(known.epoch(), held.node.state().sequence())
    }

    /// The stored limit on this side, or, until the move is done, one that only the other side has.
    pub(super) async fn stored_limit(&self, queue: &Address, first: Side) -> Result<Option<u32>> {
        let sides = [first, first.other()];
        for side in &sides[..if self.phase() == MovePhase::Done { 1 } else { 2 }] {
            let of = self.side(*side);
            let there = of.address(queue);
            if let Some(limit) = of.client.serve(of.client.backend.limit(&there)).await? {
                return Ok(Some(limit));
            }
        }
        Ok(None)
    }

    /// The limit of a request for a side's queue. It may be one that only the other side has yet.
    pub(super) async fn limit_there(&self, request: &Request, side: Side, phase: MovePhase) -> Result<Limit> {
        let takes_stored = matches!(request.limit, Limit::Stored | Limit::UnlessStored(_));
        // A single needed side has the limit: from *both* on, an operator has copied it (MIGRATE-LIMITS).
        let alone = phase.needs() != Sides::BOTH;
        if !matches!(request.claim, Claim::Permits(_)) || !takes_stored || alone {
            return Ok(request.limit);
        }
        let stored = self.stored_limit(&request.queue, side).await?;
        Ok(stored.map_or(request.limit, Limit::UnlessStored))
    }

    pub(super) fn member(&self) -> Option<Arc<dyn Node>> {
        self.look(|known| known.member.clone())
    }
}
