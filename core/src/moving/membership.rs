//! The membership of a participant.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::watch::Receiver;

use super::hold::hold;
use super::known::Known;
use super::member::MemberRecord;
use super::node::{Added, MovingNode};
use super::participant::Participant;
use super::staged::Staged;
use crate::attempt::Request;
use crate::clock::Moment;
use crate::contracts::{LeaseState, Patience};
use crate::decide::Claim;
use crate::decide::moving::obstacles::MemberSays;
use crate::decide::moving::{MovePhase, Side, may_acknowledge};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::held_node::HeldNode;
use crate::seen;
use crate::support::{Backoff, Pauses};

/// The number of holds that join the new side at the same time.
const AT_ONCE: usize = 32;

impl Participant {
    /// The task: takes part until the client is closed or the move is done.
    pub(super) async fn take_part(self: Arc<Self>) {
        let mut backoff = self.pauses();
        loop {
            match self.enter().await {
                Ok(member) => {
                    backoff.reset();
                    let error = tokio::select! {
                        reason = member.node.state().until_lost() => Error::lost(reason),
                        never = self.follow(&member) => match never {},
                        // The old side is no longer needed.
                        () = self.until(|known| (known.phase() == MovePhase::Done).then_some(())) => {
                            if let Err(error) = self.follow_done(&member).await {
                                tracing::debug!(%error, "could not end the membership of a done move: it expires with its lease");
                            }
                            return;
                        }
                    };
                    if error.lost_reason() != Some(LostReason::Closed) {
                        seen::no_member(&error);
                    }
                    self.change(|known| known.leave(error));
                }
                // If the lease was lost before, its state does not show the close below.
                Err(error) if error.kind() == ErrorKind::Closed => return self.change(Known::close),
                Err(error) => self.change(|known| known.why = Some(error)),
            }
            if self.old.client.lease().state() == LeaseState::Lost(LostReason::Closed) {
                return self.change(Known::close);
            }
            backoff.wait(&self.clock()).await;
        }
    }

    fn pauses(&self) -> Backoff {
        let ttl = self.old.client.lease().ttl();
        Backoff::new(Pauses::of_watch(ttl))
    }

    /// Registers, and then reads the stage (MIGRATE-REGISTER-THEN-READ).
    async fn enter(&self) -> Result<HeldNode> {
        let client = &self.old.client;
        let data = MemberRecord::own(&self.as_client.client, None, MemberSays::default());
        let member = hold(client, self.place.members.clone(), Claim::Shared, data).await?;
        let node = Arc::clone(&member.node);
        self.change(|known| known.enter(node));
        self.refresh().await?;
        Ok(member)
    }

    /// Follows the stage, and also the record while the two disagree. Replaces a watch that ends.
    async fn follow(&self, member: &HeldNode) -> Infallible {
        let mut pauses = self.pauses();
        loop {
            let stage = self.old.client.watch_cell(&self.place.stage);
            let (mut views, mut record) = (stage.views(), None);
            loop {
                views.borrow_and_update();
                if let Some((_, views)) = &mut record {
                    Receiver::borrow_and_update(views);
                }
                let brought = tokio::select! {
                    biased;
                    changed = views.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => break,
                    },
                    brought = self.brings(member) => brought,
                };
                record = match self.look(Known::is_unsettled) {
                    true => record.or_else(|| {
                        let watched = self.watch_record();
                        let views = watched.views();
                        Some((watched, views))
                    }),
                    false => None,
                };
                let record_changed = async {
                    match &mut record {
                        Some((_, views)) => views.changed().await,
                        None => std::future::pending().await,
                    }
                };
                match brought {
                    Ok(()) => {
                        pauses.reset();
                        let changed = tokio::select! {
                            changed = views.changed() => changed,
                            changed = record_changed => changed,
                        };
                        if changed.is_err() {
                            break;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "the stage of the move is not acknowledged yet");
                        pauses.wait(&self.clock()).await;
                    }
                }
            }
            pauses.wait(&self.clock()).await;
        }
    }

    /// Reads the stage, brings the holds to it, and acknowledges it if it agrees with the record.
    async fn brings(&self, member: &HeldNode) -> Result<()> {
        let begun = self.clock().now();
        self.refresh().await?;
        loop {
            self.reports(member).await?;
            let Some(staged) = self.brings_about().await? else { return Ok(()) };
            self.compare().await?;
            // Otherwise a later stage was read, or stage and record contradict each other.
            if self.look(|known| !known.is_unsettled() && known.staged() == Some(&staged)) {
                return self.acknowledge(member, &staged, begun).await;
            }
        }
    }

    /// Writes into its node whether it has stopped, if that has changed.
    async fn reports(&self, member: &HeldNode) -> Result<()> {
        let ((id, says), said) = self.look(|known| (known.says(), known.said));
        if (says.knows, says.stopped) != (said.knows, said.stopped) {
            member.node.write_data(&MemberRecord::own(&self.as_client.client, id, says)).await?;
            self.change(|known| known.said = says);
        }
        Ok(())
    }

    /// Brings the holds to the known stage, and waits for open requests of values (MIGRATE-VALUES-ACK-WAITS).
    /// Returns the stage if it is to be acknowledged.
    async fn brings_about(&self) -> Result<Option<Staged>> {
        loop {
            if self.look(Known::is_unsettled) {
                return Ok(None);
            }
            let unknown = |known: &Known| (!known.has_acknowledged()).then(|| known.staged().cloned());
            let Some(staged) = self.look(unknown) else { return Ok(None) };
            let version = staged.as_ref().map(|staged| staged.version);
            let phase = staged.as_ref().map_or(MovePhase::Old, |staged| staged.stage.phase);
            self.bring_all(phase).await;
            let held = self.look(Known::held);
            // Otherwise a later stage is known by now.
            if may_acknowledge(phase, held.iter().map(|hold| hold.holding()))
                && self.usage.acknowledges().await? == version
            {
                return Ok(staged);
            }
        }
    }

    /// The move is done: leaves the old side with all holds, and ends the membership.
    async fn follow_done(&self, member: &HeldNode) -> Result<()> {
        let begun = self.clock().now();
        self.bring_all(MovePhase::Done).await;
        self.usage.quiet().await;
        let staged = self.look(|known| known.staged().cloned());
        if let Some(staged) = staged.filter(|staged| staged.stage.phase == MovePhase::Done) {
            self.acknowledge(member, &staged, begun).await?;
        }
        member.release().await?;
        self.change(|known| known.member = None);
        Ok(())
    }

    /// Waits until each hold covers the phase (MIGRATE-ACK-COVERS-HOLDS). New acquisitions complete by this
    /// phase or a later one.
    async fn bring_all(&self, phase: MovePhase) {
        let holds = self.look(Known::held);
        stream::iter(holds)
            .for_each_concurrent(AT_ONCE, |hold| async move { self.bring(&hold, phase).await })
            .await;
    }

    /// Brings one hold to the phase, or waits for its end.
    async fn bring(&self, hold: &Arc<MovingNode>, phase: MovePhase) {
        drop(hold.trim(phase));
        let mut pauses = Backoff::new(Pauses::OUTAGE);
        while !hold.is_over() && !hold.holding().on.cover(phase.needs()) {
            let Some(side) = hold.holding().joins(phase) else {
                return hold.over().await;
            };
            let extended = tokio::select! {
                biased;
                () = hold.over() => return,
                extended = self.extend(hold, side) => extended,
            };
            match extended {
                Ok(true) => {}
                Ok(false) => return hold.over().await,
                Err(error) => {
                    tracing::debug!(%error, "a hold has no node on the new side yet");
                    pauses.wait(&self.clock()).await;
                }
            }
        }
    }

    /// Joins the other side for a hold: only nodes of dead clients are ahead of it. Returns `false` if the
    /// hold is being released.
    async fn extend(&self, hold: &MovingNode, side: Side) -> Result<bool> {
        let now = hold.request();
        // An existing hold needs no confirmations on a side that has no replicas.
        let confirms = self.side(side).client.backend.capabilities().confirms_on_replicas;
        let min_replicas = now.min_replicas.filter(|_| confirms);
        let (patience, deadline) = (Patience::Wait, Moment::NEVER);
        let mut request = Request { patience, deadline, min_replicas, on_queue: None, ..now };
        let limit = self.limit_there(&request, side, self.phase()).await?;
        let joined = self.side(side).join(&self.clock(), &request, limit).await?;
        let mut held = joined.expect("only a try is refused");
        loop {
            let (unlike, now) = match hold.add(side, held, &request) {
                Added::Taken => return Ok(true),
                Added::Over => return Ok(false),
                Added::Not(unlike, now) => (unlike, now),
            };
            // The data of the hold has changed: the node gets it before it counts.
            if now.claim != request.claim {
                unlike.downgrade().await?;
            }
            if now.data != request.data {
                unlike.node.write_data(&now.data).await?;
            }
            (held, request) = (unlike, *now);
        }
    }

    /// Acknowledges the stage by identity and version (MIGRATE-ACK-NAMES-VERSION).
    async fn acknowledge(&self, member: &HeldNode, staged: &Staged, begun: Moment) -> Result<()> {
        let says = MemberSays { acknowledged: Some(staged.version.number()), ..MemberSays::default() };
        member.node.write_data(&MemberRecord::own(&self.as_client.client, Some(staged.id), says)).await?;
        let before = self.change(|known| known.acknowledges(staged.read_as()));
        self.seen.acknowledged();
        let phase = staged.stage.phase;
        // A repeated stage during a copy is not reported.
        if before.is_none_or(|before| before.stage.phase != phase) {
            seen::phase_reached(phase, staged.stage.epoch, self.clock().now().since(begun));
        }
        Ok(())
    }
}
