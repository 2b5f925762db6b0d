//! Both sides as one coordinator, for all requests of recipes except acquisitions.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join;
use tokio_util::sync::DropGuard;

use super::known::Known;
use super::participant::Participant;
use super::watch::MovingWatch;
use crate::address::{Address, QueuePrefix};
use crate::capabilities::Capabilities;
use crate::config::MOVING;
use crate::contracts::{
    Backend, CellWrite, CellWritten, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join,
    Joined, KeysWith, Lease, LeaseWriter, ListedKey, Part, QueueEntry, SequentialNodes, TimeToIdle,
    VersionedValue,
};
use crate::decide::count::request::{CountRequest, Decided};
use crate::decide::moving::{MovePhase, Side, Sides};
use crate::error::{Error, Result};
use crate::facts::ServerFacts;
use crate::listing::Page;
use crate::support::Unobserved;

/// Both sides. A sequence number in a listing is a whole token, so numbers rise across the move.
#[derive(Debug)]
pub(crate) struct MovingBackend {
    participant: Arc<Participant>,
    _takes_part: DropGuard,
}

impl MovingBackend {
    pub(super) fn new(participant: Arc<Participant>, takes_part: DropGuard) -> Self {
        Self { participant, _takes_part: takes_part }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl SequentialNodes for MovingBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        let _ = join;
        Err(Error::unsupported(
            "join",
            "a client of two coordinators joins no queue directly: use the recipes",
        ))
    }

    async fn abandon(&self, _join: &Join) -> Result<()> {
        Ok(())
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        self.participant.list(queue, page).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        match queue.kind().is_observed() {
            true => Box::new(MovingWatch::new(&self.participant, queue)),
            false => Box::new(Unobserved::new(queue)),
        }
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        self.participant.revoke(queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.participant.stored_limit(queue, self.participant.phase().token()).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        if expected != ExpectedLimit::Any {
            let why =
                "a client of a move cannot check the stored limits of both sides: use a client of each side";
            return Err(Error::unsupported("set_limit", why));
        }
        loop {
            // Counted as a change of a value: this waits while limits are copied, and no stage is
            // acknowledged during it (MIGRATE-LIMITS).
            let asking = self.participant.cells.asking().await?;
            for side in [asking.side(), asking.side().other()] {
                if asking.phase().spans().has(side) {
                    let side = self.participant.side(side);
                    side.client.backend.set_limit(&side.address(queue), expected, limit).await?;
                }
            }
            // Otherwise the stage did not wait for it, and other sides may need the limit.
            if asking.counts() {
                return Ok(true);
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Cells for MovingBackend {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        self.participant.cells.read_cell(cell).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.participant.cells.write_cell(cell, write).await
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        self.participant.cells.change_count(cell, request, idle).await.map(Some)
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        self.participant.cells.watch_cell(cell)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for MovingBackend {
    fn name(&self) -> &'static str {
        MOVING
    }

    fn capabilities(&self) -> Capabilities {
        let of = |side: Side| self.participant.side(side).client.backend.capabilities();
        let phase = self.participant.phase();
        let capabilities = match phase.needs() {
            Sides::BOTH => of(Side::Old).of_both(of(Side::New)),
            _ => of(phase.token()),
        };
        // Other programs use exact addresses, and read no stage.
        Capabilities { exact_addresses: false, ..capabilities }
    }

    fn lease(&self) -> Lease {
        let lease = |side: Side| self.participant.side(side).client.lease();
        match self.participant.phase() {
            MovePhase::Old => lease(Side::Old),
            MovePhase::Done => lease(Side::New),
            // The membership needs the old side.
            _ => {
                let parts = [Side::Old, Side::New].map(|side| Arc::new(lease(side)) as Arc<dyn Part>);
                LeaseWriter::joint(self.participant.clock(), parts.into()).into()
            }
        }
    }

    fn incarnation(&self) -> Incarnation {
        self.participant.side(self.participant.phase().token()).client.backend.incarnation()
    }

    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        match with {
            KeysWith::Cell => self.participant.cells.list(of, after, most).await,
            KeysWith::Nodes | KeysWith::Limit => self.participant.queues(with, of, after, most).await,
        }
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        let side = self.participant.side(self.participant.phase().token());
        side.client.backend.server_facts().await
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.participant.seen.ends();
        let (old, new) = (&self.participant.old.client, &self.participant.new.client);
        let (old, new) = match how {
            Close::Orderly => {
                self.participant.look(Known::held_to_the_end).iter().for_each(|hold| hold.keep_nodes());
                join(old.close(), new.close()).await
            }
            Close::Abrupt => join(old.backend.close(how), new.backend.close(how)).await,
        };
        match (self.participant.phase(), old) {
            // Nothing needs the old side now, which may be gone for good.
            (MovePhase::Done, Err(error)) => {
                tracing::debug!(%error, "the old side of a move that is done does not confirm the close");
                new
            }
            (_, old) => old.and(new),
        }
    }
}
