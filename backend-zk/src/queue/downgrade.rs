//! The downgrade of a writer to a reader, in its place (CHAIN-DOWNGRADE-IN-PLACE).
//!
//! One transaction makes `_c_<id>-__READ__<N>` and deletes `_c_<id>-__WRIT__<N>`: the same counter,
//! and so the same place. The deletion wakes those behind it, which list again and find a reader
//! where the writer was. The writer's sequence number goes along in the data.
//!
//! A downgrade of unknown outcome needs no listing (CHAIN-SYNC-AFTER-UNKNOWN-CREATE), since only
//! these two names matter and only a transaction that still finds the writer makes the reader.
//! Repeated, it meets its own reader, or finds neither: revoked. A leave deletes the writer first
//! and then the reader. A downgrade that comes later makes nothing, and one that came before is
//! undone.

use latchwork_core::{Error, ErrorKind, Result};

use super::zk_node::{DowngradeState, ZkNode};
use crate::error::Fault;
use crate::layout::{as_reader, downgraded};

impl ZkNode {
    pub(super) async fn become_reader(&self) -> Result<()> {
        let Some(reader) = as_reader(self.name()).filter(|_| self.has_entered()) else {
            return Err(self.no_writer());
        };
        let contents = self.contents.lock().await;
        {
            let mut state = self.downgrade.lock();
            if self.is_leaving() || self.state.lost().is_some() {
                return Err(self.no_writer());
            }
            if *state == DowngradeState::Done {
                return Ok(());
            }
            // Before the request is sent, or its deletion would seem to be another client's act.
            *state = DowngradeState::Asked;
        }
        let data = downgraded(&self.label, &contents.data, self.state.sequence(), self.joined);
        match self.session.driver.replace(&self.path, &self.beside(&reader), &data).await {
            // Where the reader is there, an earlier request was carried out.
            Ok(()) | Err(Fault::NodeExists) => {
                *self.downgrade.lock() = DowngradeState::Done;
                Ok(())
            }
            Err(Fault::NoNode) => {
                self.removed();
                Err(self.no_writer())
            }
            Err(fault) => Err(self.session.error(fault, "downgrade")),
        }
    }

    fn no_writer(&self) -> Error {
        let why = "only a held write lock can be downgraded";
        self.state.lost().map_or_else(|| Error::new(ErrorKind::NotHeld, why), Error::lost)
    }
}
