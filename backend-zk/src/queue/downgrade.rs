//! The downgrade of a writer to a reader, in its place (CHAIN-DOWNGRADE-IN-PLACE; `docs/protocol/chain.md`).
//!
//! After an unknown outcome it is repeated without a listing: only a transaction that still finds the writer
//! creates the reader. The repeated request finds its reader, or neither node if the node was revoked. A
//! leave deletes the writer and then the reader, so a later downgrade creates nothing, and an earlier one is
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
            // Before the send: otherwise the deletion looks like a removal by another client.
            *state = DowngradeState::Asked;
        }
        let data = downgraded(&self.label, &contents.data, self.state.sequence(), self.joined);
        match self.session.driver.replace(&self.path, &self.beside(&reader), &data).await {
            // An earlier request was carried out.
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
