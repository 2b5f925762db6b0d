//! The reads of a participant: the stage, and the record.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::known::Read;
use super::participant::Participant;
use super::staged::Staged;
use crate::contracts::VersionedValue;
use crate::decide::moving::evidence::{MoveVerdict, judge};
use crate::decide::moving::{MovePhase, Side};
use crate::error::Result;
use crate::registry::Stamped;
use crate::watched::Watched;

impl Participant {
    /// Reads the stage after the call begins. Several callers share one read.
    pub(super) async fn refresh(&self) -> Result<()> {
        let asked = self.begun.load(Ordering::Acquire);
        let _turn = self.reading.lock().await;
        if self.answered.load(Ordering::Acquire) > asked {
            return Ok(());
        }
        self.reads(false).await
    }

    /// Reads the stage, and compares it with the record for an acknowledgement.
    pub(super) async fn compare(&self) -> Result<()> {
        let _turn = self.reading.lock().await;
        self.reads(true).await
    }

    async fn reads(&self, to_acknowledge: bool) -> Result<()> {
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let member = self.member();
        let mut read = self.judged(self.staged().await?, to_acknowledge).await?;
        while matches!(read.verdict, Some(MoveVerdict::Stops(_))) {
            // An operator may have taken a step between the reads.
            let again = self.staged().await?;
            if again == read.staged {
                break;
            }
            read = self.judged(again, to_acknowledge).await?;
        }
        self.change(|known| known.read(read, member.as_ref()));
        self.answered.store(number, Ordering::Release);
        Ok(())
    }

    async fn staged(&self) -> Result<Option<Staged>> {
        let client = &self.old.client;
        client.serve(Staged::read(&*client.backend, &self.place)).await
    }

    async fn stamped(&self, side: Side) -> Result<Option<Stamped>> {
        let client = &self.side(side).client;
        client.serve(Stamped::read(&*client.backend, &self.stamps[side as usize])).await
    }

    /// Judges a stage by the record, which is read after it (MIGRATE-SAME-SIDES), unless it can be
    /// [followed](Known::follows) without. Finds the epoch of the tokens.
    async fn judged(&self, staged: Option<Staged>, to_acknowledge: bool) -> Result<Read> {
        let (mut verdict, mut epoch) = (None, 0);
        if !self.look(|known| known.follows(staged.as_ref(), to_acknowledge)) {
            let stamped = self.stamped(Side::New).await?;
            epoch = stamped.as_ref().map_or(0, |stamped| stamped.epoch);
            let arrival = stamped.and_then(|stamped| stamped.arrival);
            let record = arrival.filter(|of| *of.name == *self.as_client.name).map(|of| of.record);
            let known = self.look(|known| known.staged().map(Staged::read_as));
            verdict = Some(judge(known, staged.as_ref().map(Staged::read_as), record));
        }
        epoch = match &staged {
            _ if verdict == Some(MoveVerdict::Done) => epoch,
            Some(staged) if staged.stage.phase != MovePhase::Old => staged.stage.epoch,
            // Read after the stage: a move that was given up in between has left its epoch there, and a later
            // move asks this member. A late first stage may have a lower epoch.
            _ => self.stamped(Side::Old).await?.map_or(0, |stamped| stamped.epoch),
        };
        Ok(Read { staged, epoch, verdict })
    }

    pub(super) fn watch_record(&self) -> Arc<Watched<Option<VersionedValue>>> {
        self.new.client.watch_cell(&self.stamps[1].stamp)
    }
}
