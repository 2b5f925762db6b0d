//! The clients that are connected and outside of a move.

use serde::{Serialize, Serializer};

use super::repair::shut_in;
use super::side::OperatorSide;
use super::{Move, MoveBlocker};
use crate::ClientRecord;
use crate::decide::moving::gate::GateMarker;
use crate::decide::moving::{MovePhase, Side};
use crate::error::Result;

/// A client that is connected to a side of a move and does not take part in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveOutsider {
    /// The side that it is connected to.
    #[serde(serialize_with = "side_word")]
    pub side: Side,
    /// The record of the client.
    pub client: ClientRecord,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn side_word<S: Serializer>(side: &Side, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    side.as_str().serialize(serializer)
}

impl OperatorSide {
    /// The clients of this side that a marker does not admit.
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
    /// The outsiders on the sides that are shut in this phase, if there are any.
    pub(super) async fn outsiders_against(&self, phase: MovePhase) -> Result<Option<MoveBlocker>> {
        let mut outsiders = Vec::new();
        for side in [&self.old, &self.new].into_iter().filter(|side| shut_in(phase).contains(&side.side)) {
            outsiders.extend(side.outside(&self.marker(side.side), side.clients().await?));
        }
        Ok((!outsiders.is_empty()).then_some(MoveBlocker::Outsiders(outsiders)))
    }

    /// Checks that no client is outside of a move in this phase.
    ///
    /// # Errors
    /// `Conflict` naming the outsiders.
    pub(super) async fn check_outsiders(&self, phase: MovePhase) -> Result<()> {
        self.outsiders_against(phase).await?.map_or(Ok(()), |blocker| Err(blocker.into()))
    }
}
