//! A hold over one or both sides, as one node.
//!
//! It has a node on each side that its phase needs and, until *done*, the membership. Its lease is lost with
//! any of them (MIGRATE-EITHER-LOST-IS-LOST, MIGRATE-MEMBERSHIP-LIVES). Guards, owners and bounds see an
//! ordinary node, which joins and leaves sides as the phases change.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use parking_lot::Mutex;

use super::side::{NodePart, ON_SIDE};
use super::values::cells::{HeldOnSides, MovingCells};
use crate::address::Address;
use crate::attempt::Request;
use crate::clock::Clock;
use crate::contracts::{CellWrite, CellWritten, LeaseWriter, Leave, Node, NodeState, NodeWriter, Part};
use crate::decide::Claim;
use crate::decide::given_back_at;
use crate::decide::moving::{Holding, MovePhase, Side, Sides};
use crate::error::{Error, LostReason, Result};
use crate::held_node::HeldNode;
use crate::hold::Ended;
use crate::seen::{self, ParticipantMeter};
use crate::token::Token;

#[derive(Debug, Default)]
pub(super) struct OnSides {
    pub(super) old: Option<Arc<HeldNode>>,
    pub(super) new: Option<Arc<HeldNode>>,
}

impl OnSides {
    pub(super) fn slot(&mut self, side: Side) -> &mut Option<Arc<HeldNode>> {
        match side {
            Side::Old => &mut self.old,
            Side::New => &mut self.new,
        }
    }

    pub(super) fn holding(&self) -> Holding {
        Holding { on: Sides { old: self.old.is_some(), new: self.new.is_some() } }
    }

    /// The existing nodes, the old side's first.
    pub(super) fn all(&self) -> Vec<Arc<HeldNode>> {
        self.old.iter().chain(&self.new).cloned().collect()
    }
}

/// The result of adding a node to a hold.
pub(super) enum Added {
    Taken,
    Over,
    /// The node must first match this request.
    Not(HeldNode, Box<Request>),
}

#[derive(Debug)]
pub(crate) struct MovingNode {
    writer: NodeWriter,
    state: Mutex<State>,
    cells: Arc<MovingCells>,
}

#[derive(Debug)]
struct State {
    on: OnSides,
    // The membership, until the move is done.
    member: Option<Arc<dyn Node>>,
    // The request for the new side, with the hold's current data.
    request: Request,
    // It is being given back: no node joins it any more.
    leaves: bool,
}

impl State {
    fn parts(&self) -> Vec<Arc<dyn Part>> {
        let part = |node: &Arc<dyn Node>, place| {
            Arc::new(NodePart { node: Arc::clone(node), place }) as Arc<dyn Part>
        };
        let on = |held: &Arc<HeldNode>, side| part(&held.node, (side, held.backend()));
        let [(_, on_old), (_, on_new)] = ON_SIDE;
        let old = self.on.old.iter().map(|held| on(held, on_old));
        let new = self.on.new.iter().map(|held| on(held, on_new));
        let member = self.member.iter().map(|node| part(node, (on_old, "membership of the move")));
        old.chain(new).chain(member).collect()
    }
}

impl MovingNode {
    /// Creates a complete hold. `member`: the membership, if needed.
    ///
    /// # Errors
    /// `Lost` if one of its parts is lost.
    pub(super) fn new(
        clock: Clock,
        on: OnSides,
        member: Option<Arc<dyn Node>>,
        request: Request,
        token: Token,
        cells: &Arc<MovingCells>,
    ) -> Result<Arc<Self>> {
        let (max_hold, from) = (request.max_hold, clock.now());
        let state = State { on, member, request, leaves: false };
        let writer = NodeWriter::new(LeaseWriter::joint(clock, state.parts()), token.sequence());
        writer.admitted_as(token);
        let held = writer.change(|life, seen| life.hold(from, max_hold, seen));
        held.map_err(|(reason, _)| Error::lost(reason))?;
        Ok(Arc::new(Self { writer, state: Mutex::new(state), cells: Arc::clone(cells) }))
    }

    pub(super) fn holding(&self) -> Holding {
        self.state.lock().on.holding()
    }

    pub(super) fn request(&self) -> Request {
        self.state.lock().request.clone()
    }

    pub(super) fn is_over(&self) -> bool {
        self.writer.outcome().is_some() || self.writer.lost().is_some()
    }

    pub(super) async fn over(&self) {
        tokio::select! {
            _ = self.writer.until(|| self.writer.outcome()) => {}
            _ = self.writer.until_lost() => {}
        }
    }

    /// Adds a node that was made by this request, unless the hold's data has changed since.
    pub(super) fn add(&self, side: Side, held: HeldNode, as_said: &Request) -> Added {
        let mut state = self.state.lock();
        if state.leaves || self.is_over() {
            // Dropped, the node is given back in the background.
            return Added::Over;
        }
        let now = &state.request;
        if (now.claim, &now.data) != (as_said.claim, &as_said.data) {
            return Added::Not(held, Box::new(now.clone()));
        }
        *state.on.slot(side) = Some(Arc::new(held));
        self.writer.lease_writer().set_parts(state.parts());
        drop(state);
        self.writer.notify();
        Added::Taken
    }

    /// Takes out the nodes that the phase does not need. Dropped, they are removed in the background.
    pub(super) fn trim(&self, phase: MovePhase) -> OnSides {
        let mut state = self.state.lock();
        let surplus = state.on.holding().gives_back(phase);
        if !phase.needs_membership() {
            state.member = None;
        }
        let mut taken = OnSides::default();
        for side in [Side::Old, Side::New] {
            if surplus.has(side) {
                *taken.slot(side) = state.on.slot(side).take();
            }
        }
        self.writer.lease_writer().set_parts(state.parts());
        taken
    }

    /// Removes the nodes of a lost hold, which the client would otherwise renew while its guard exists. Waits
    /// one margin for the holder's work to end, unless another client has removed the hold.
    pub(super) async fn give_back_when_lost(self: Arc<Self>, seen: Arc<ParticipantMeter>) {
        let reason = tokio::select! {
            _ = self.writer.until(|| self.writer.outcome()) => return,
            reason = self.writer.until_lost() => reason,
        };
        self.report(&seen, reason);
        drop(seen);
        let clock = self.writer.lease().clock().clone();
        if !matches!(reason, LostReason::Revoked) {
            clock.sleep_until(given_back_at(clock.now(), self.writer.lease().ttl())).await;
        }
        if matches!(reason, LostReason::Closed) {
            self.keep_nodes();
        }
        let on = {
            let mut state = self.state.lock();
            state.leaves = true;
            std::mem::take(&mut state.on)
        };
        drop(on);
    }

    /// Reports a loss by its side. A loss by the own client has no side.
    fn report(&self, meter: &ParticipantMeter, reason: LostReason) {
        let lost_on = self.writer.lease().lost_on().filter(|_| reason != LostReason::Closed);
        let side = lost_on.and_then(|place| ON_SIDE.iter().find(|(_, side)| place.starts_with(side)));
        if let Some((side, _)) = side {
            meter.lost(*side);
            let request = self.request();
            seen::move_lost(
                request.queue.name(),
                self.writer.token(),
                side.as_str(),
                meter.backend(*side),
                reason,
            );
        }
    }

    /// Copies the least time to its nodes, for backends that leave such nodes to their expiry when a client
    /// ends (`minimum_outlives_close`).
    pub(super) fn keep_nodes(&self) {
        let end = self.writer.kept_until();
        for held in self.nodes() {
            held.node.state().change(|life, _| life.keep_until(end));
        }
    }

    /// Returns its nodes; from now on it takes no others.
    fn leaving(&self) -> Vec<Arc<HeldNode>> {
        let mut state = self.state.lock();
        state.leaves = true;
        state.on.all()
    }

    fn nodes(&self) -> Vec<Arc<HeldNode>> {
        self.state.lock().on.all()
    }
}

/// The guard and the client may both end before its least time.
impl Drop for MovingNode {
    fn drop(&mut self) {
        if self.writer.is_kept() && matches!(self.writer.lost(), None | Some(LostReason::Closed)) {
            self.keep_nodes();
        }
    }
}

impl HeldOnSides for MovingNode {
    fn on(&self, side: Side) -> Option<Arc<dyn Node>> {
        self.state.lock().on.slot(side).as_ref().map(|held| Arc::clone(&held.node))
    }

    async fn until_on(&self, side: Side) -> Result<()> {
        tokio::select! {
            biased;
            _ = self.writer.until(|| self.on(side)) => Ok(()),
            () = self.over() => Err(Error::lost(self.writer.lost().unwrap_or(LostReason::Revoked))),
        }
    }
}

#[async_trait]
impl Node for MovingNode {
    fn state(&self) -> &NodeState {
        &self.writer
    }

    /// It is admitted from the beginning.
    async fn admitted(&self) -> Result<()> {
        self.writer.lost().map_or(Ok(()), |reason| Err(Error::lost(reason)))
    }

    async fn leave(&self) -> Result<Leave> {
        if self.writer.lost() == Some(LostReason::Closed) && self.writer.is_kept() {
            // The least time has not ended: the nodes' own clients handle it.
            return Ok(Leave::Absent(LostReason::Closed));
        }
        let nodes = self.leaving();
        if nodes.is_empty() {
            // They were given back when the hold was lost.
            return Ok(Leave::Absent(self.writer.lost().unwrap_or(LostReason::Revoked)));
        }
        let answers = join_all(nodes.iter().map(|held| held.release())).await;
        match Ended::of_all(answers) {
            Ok(Ended::Released) => Ok(Leave::Removed),
            Ok(Ended::Lost(reason)) => Ok(Leave::Absent(reason)),
            // The hold is over. Another try would give the same answer, and delay every step.
            Err(_) if nodes.iter().all(|held| held.is_gone()) => {
                match nodes.iter().find_map(|held| held.refused()) {
                    Some(why) => Err(why),
                    // A reply was lost, and the next try found no node.
                    None => {
                        self.writer.change(|life, _| life.reply_lost());
                        Ok(Leave::Absent(LostReason::Revoked))
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn downgrade(&self) -> Result<()> {
        // Nodes that join from now on are readers, or become readers.
        self.state.lock().request.claim = Claim::Shared;
        try_join_all(self.nodes().iter().map(|held| held.downgrade())).await?;
        Ok(())
    }

    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()> {
        self.state.lock().request.data = Arc::clone(data);
        try_join_all(self.nodes().iter().map(|held| held.node.write_data(data))).await?;
        Ok(())
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.cells.write_held(self, cell, write).await
    }

    async fn confirm(&self, replicas: u32, within: Duration) -> Result<()> {
        try_join_all(self.nodes().iter().map(|held| held.node.confirm(replicas, within))).await?;
        Ok(())
    }
}
