//! Who is connected, and stands outside of a move.

use serde::{Serialize, Serializer};

use super::Move;
use super::repair::shut_in;
use super::side::{OperatorSide, word};
use crate::ClientRecord;
use crate::decide::moving::gate::GateMarker;
use crate::decide::moving::{MovePhase, Side};
use crate::error::Result;

/// A client that stands outside of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveOutsider {
    /// The side to which it is connected.
    #[serde(serialize_with = "side_word")]
    pub side: Side,
    /// Who it is.
    pub client: ClientRecord,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn side_word<S: Serializer>(side: &Side, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    word(*side).serialize(serializer)
}

impl OperatorSide {
    /// Those of its clients that a marker does not admit.
    pub(super) fn outside(
        &self,
        marker: &GateMarker,
        clients: Vec<ClientRecord>,
    ) -> impl Iterator<Item = MoveOutsider> {
        let outside = clients.into_iter().filter(|client| !GateMarker::admits(Some(marker), client.who()));
        outside.map(|client| MoveOutsider { side: self.side, client })
    }
}

impl Move {
    /// Who is connected to either side, and neither takes part nor is an operator.
    pub(super) async fn outsiders(&self) -> Result<Vec<MoveOutsider>> {
        self.outsiders_in(MovePhase::Old).await
    }

    /// Those on the sides that are shut in a phase.
    pub(super) async fn outsiders_in(&self, phase: MovePhase) -> Result<Vec<MoveOutsider>> {
        let mut outsiders = Vec::new();
        for side in [&self.old, &self.new].into_iter().filter(|side| shut_in(phase).contains(&side.side)) {
            outsiders.extend(side.outside(&self.marker(side.side), side.clients().await?));
        }
        Ok(outsiders)
    }
}
