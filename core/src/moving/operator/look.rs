//! The reads of an operator, and the blockers in them.
//!
//! The order is: stage, members, stamps, clients. So a later client reads this stage or a later one, and a
//! later plain client reads the markers.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join;
use serde::{Serialize, Serializer};

use super::super::member::MemberRecord;
use super::super::staged::Staged;
use super::late::{is_late, late};
use super::side::OperatorSide;
use super::{Move, MoveBlocker, MoveClient, ValuesInUse};
use crate::ClientRecord;
use crate::decide::moving::evidence::MoveRecord;
use crate::decide::moving::gate::{Course, GateMarker, Who};
use crate::decide::moving::obstacles::{Found, MarkerStanding, Obstacle, Stored, Wanted, shut_in};
use crate::decide::moving::{MovePhase, Side};
use crate::error::Result;
use crate::registry::{Arrival, Stamped};
use crate::shown::shown;

/// A client that is connected to a side but does not take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveOutsider {
    /// Its side.
    #[serde(serialize_with = "side_word")]
    pub side: Side,
    /// Its record.
    pub client: ClientRecord,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
pub(super) fn side_word<S: Serializer>(side: &Side, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    side.as_str().serialize(serializer)
}

/// Whether a look lists the values of both sides, which may be many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListValues {
    Never,
    /// If each member has acknowledged the stage. Otherwise the step waits, and looks again.
    WhenAcknowledged,
    Always,
}

/// The reads of both sides.
pub(super) struct Looked {
    pub(super) staged: Option<Staged>,
    pub(super) members: Vec<MemberRecord>,
    /// The stamps, the old side's first.
    pub(super) stamps: [Stamped; 2],
    /// The participants, by label.
    pub(super) participants: Vec<MoveClient>,
    /// The plain clients of the shut sides.
    pub(super) outsiders: Vec<MoveOutsider>,
    left: Vec<MoveOutsider>,
    /// The values of both sides, if listed.
    pub(super) values: Option<[Vec<ValuesInUse>; 2]>,
    /// The reads in the form for the decisions.
    pub(super) found: Found,
}

impl Move {
    /// Reads everything except the stage. If the sides contradict each other, it also lists the values: the
    /// old side may have the only copy (MIGRATE-REPAIR-KEEPS).
    pub(super) async fn look(&self, staged: Option<Staged>, values: ListValues) -> Result<Looked> {
        let members = self.members().await?;
        let stamps = [self.old.stamped().await?, self.new.stamped().await?];
        let (on_old, on_new) = try_join(self.old.clients(), self.new.clients()).await?;
        let mut looked = self.compared(staged, members, stamps, &[on_old, on_new]);
        let are_listed = match values {
            ListValues::Never => false,
            ListValues::Always => true,
            ListValues::WhenAcknowledged => {
                let is_late = |member| looked.staged.as_ref().is_some_and(|staged| is_late(member, staged));
                !looked.members.iter().any(is_late)
            }
        };
        if are_listed || looked.found.contradiction().is_some() {
            let values = [self.old.values_in_use().await?, self.new.values_in_use().await?];
            let stored = |side: &OperatorSide, values: &[ValuesInUse]| Stored {
                any: !values.is_empty(),
                idle: values.iter().any(|of| of.go_idle),
                takes: side.takes_values(),
                takes_idle: side.coordinator.capabilities().idle_cells,
            };
            looked.found.stored = Some([stored(&self.old, &values[0]), stored(&self.new, &values[1])]);
            looked.values = Some(values);
        }
        Ok(looked)
    }

    fn compared(
        &self,
        staged: Option<Staged>,
        members: Vec<MemberRecord>,
        stamps: [Stamped; 2],
        clients: &[Vec<ClientRecord>; 2],
    ) -> Looked {
        let participants = self.participants(&members, clients);
        let phase = staged.as_ref().map_or(MovePhase::Old, |staged| staged.stage.phase);
        let shut = Side::BOTH.into_iter().filter(|side| shut_in(phase).contains(side));
        let outsiders: Vec<_> = shut.flat_map(|side| outside(clients, side, &self.marker(side))).collect();
        let left = outside(clients, Side::Old, &self.retired());
        let id = staged.as_ref().map(|staged| staged.id);
        let [old, new] = &stamps;
        let found = Found {
            stage: staged.as_ref().map(Staged::read_as),
            copies: staged.as_ref().is_some_and(Staged::has_copies),
            record: self.record_in(new),
            markers: [self.standing(Side::Old, old.marker.as_ref()), self.standing_of_new(new)],
            epochs: [old.epoch, new.epoch],
            layouts: [old.has_records(), new.has_records()],
            one_place: are_one(clients),
            outsiders: !outsiders.is_empty(),
            left: !left.is_empty(),
            participants: participants.iter().map(MoveClient::takes_part).collect(),
            members: members.iter().map(|member| member.says_of(id)).collect(),
            stored: None,
        };
        Looked { staged, members, stamps, participants, outsiders, left, values: None, found }
    }

    pub(super) fn record_in(&self, stamp: &Stamped) -> Option<MoveRecord> {
        let arrival = stamp.arrival.as_ref().filter(|arrival| *arrival.name == *self.name);
        arrival.map(|arrival| arrival.record)
    }

    pub(super) fn standing(&self, side: Side, marker: Option<&GateMarker>) -> MarkerStanding {
        let own = self.marker(side);
        match marker {
            None => MarkerStanding::Missing,
            Some(stands) if *stands == own => MarkerStanding::Own,
            Some(stands) if side == Side::Old && *stands == self.retired() => MarkerStanding::Retired,
            Some(stands) if stands.name == own.name && stands.course == own.course => {
                MarkerStanding::Namesake
            }
            Some(stands) if side == Side::New && stands.course == Course::Leaves => MarkerStanding::MovedOn,
            Some(_) => MarkerStanding::Other,
        }
    }

    /// The same for the new side's stamp, also by the record of a move that has begun.
    fn standing_of_new(&self, stamp: &Stamped) -> MarkerStanding {
        let standing = self.standing(Side::New, stamp.marker.as_ref());
        let record = self.record_in(stamp).filter(|record| record.reached() != MovePhase::Old);
        let is_other = stamp.arrival.as_ref().is_some_and(|arrival| arrival.url != self.old.url);
        match (standing, record) {
            (MarkerStanding::Missing, Some(_)) if is_other => MarkerStanding::Namesake,
            (standing, _) => standing,
        }
    }

    fn participants(&self, members: &[MemberRecord], clients: &[Vec<ClientRecord>; 2]) -> Vec<MoveClient> {
        let mut found: BTreeMap<String, MoveClient> = BTreeMap::new();
        let named = |record: &ClientRecord, side: Side| match record.client() {
            Some(client) => client.to_owned(),
            None => format!("{} {}", side.as_str(), record.sequence),
        };
        for (side, clients) in Side::BOTH.into_iter().zip(clients) {
            for record in clients.iter().filter(|record| record.who() == Who::Participant(&self.name)) {
                let of = found.entry(named(record, side)).or_default();
                of.label.clone_from(&record.label);
                of.host.clone_from(&record.host);
                of.version.clone_from(&record.version);
                match side {
                    Side::Old => of.on_old = true,
                    Side::New => of.on_new = true,
                }
            }
        }
        for member in members {
            let of = found.entry(member.client.clone()).or_default();
            of.member = true;
            if of.label.is_empty() {
                (of.label, of.host) = (member.label.clone(), member.host.clone());
            }
        }
        let mut participants: Vec<_> =
            found.into_iter().map(|(client, of)| MoveClient { client, ..of }).collect();
        participants.sort_by(|one, other| one.label.cmp(&other.label));
        participants
    }

    pub(super) fn blockers(&self, looked: &Looked, wanted: Wanted) -> Vec<MoveBlocker> {
        looked.found.obstacles(wanted).into_iter().map(|obstacle| looked.blocker(obstacle)).collect()
    }

    /// Refuses a call that has a blocker.
    ///
    /// # Errors
    /// `Conflict` naming the first blocker.
    pub(super) fn refuse(&self, looked: &Looked, wanted: Wanted) -> Result<()> {
        match self.blockers(looked, wanted).into_iter().next() {
            Some(blocker) => Err(blocker.into()),
            None => Ok(()),
        }
    }
}

impl Looked {
    pub(super) fn apart(&self) -> Vec<MoveClient> {
        self.participants.iter().filter(|of| of.lacks().is_some()).cloned().collect()
    }

    fn blocker(&self, obstacle: Obstacle) -> MoveBlocker {
        match obstacle {
            Obstacle::Contradicts(contradiction) if self.found.has_only_copy() => {
                MoveBlocker::OnlyCopy(contradiction)
            }
            Obstacle::Contradicts(contradiction) => MoveBlocker::Contradicts(contradiction),
            Obstacle::MemberAhead => {
                let version = self.found.stage.map(|read| read.version);
                let members = self.members.iter().zip(&self.found.members);
                let members = members.filter(|(_, says)| says.is_in_the_way(version));
                MoveBlocker::MembersAhead(members.map(|(member, _)| late(member)).collect())
            }
            Obstacle::OnePlace => MoveBlocker::OnePlace,
            Obstacle::Outsiders => MoveBlocker::Outsiders(self.outsiders.clone()),
            Obstacle::StillConnected => MoveBlocker::StillConnected(self.left.clone()),
            Obstacle::Marked(side) => {
                let stamp = &self.stamps[side as usize];
                let of_record = |arrival: &Arrival| (Some(arrival.name.clone()), arrival.url.clone());
                let of_marker = |marker: &GateMarker| (marker.name.clone(), marker.url.clone());
                let named = stamp.marker.as_ref().map(of_marker);
                let (name, url) = named.or(stamp.arrival.as_ref().map(of_record)).unwrap_or_default();
                MoveBlocker::MarkedOtherwise { side, name, url }
            }
            Obstacle::MarkerLost(side) => MoveBlocker::MarkerLost(side),
            Obstacle::NotOpened => MoveBlocker::NotOpened,
            Obstacle::Layout(side) => MoveBlocker::Layout(side),
            Obstacle::NoEpochs => MoveBlocker::NoEpochs,
            Obstacle::NobodyTakesPart => MoveBlocker::NobodyTakesPart,
            Obstacle::Apart => MoveBlocker::Apart(self.apart()),
            Obstacle::ValuesThere => {
                MoveBlocker::ValuesThere(self.values.as_ref().map_or_else(Vec::new, |of| of[1].clone()))
            }
            Obstacle::ValuesStay(side, lacks) => {
                let from = self.values.iter().flat_map(|of| &of[self.found.values().side() as usize]);
                let keys = |of: &ValuesInUse| {
                    let keys = if lacks == "idle_cells" { &of.idle } else { &of.keys };
                    keys.iter().map(|key| format!("{} {:?}", of.kind, shown(key, 255))).collect::<Vec<_>>()
                };
                MoveBlocker::ValuesStay { side, lacks, values: from.flat_map(keys).collect() }
            }
        }
    }
}

/// Whether both lists have one client: each has the operator's own.
fn are_one([old, new]: &[Vec<ClientRecord>; 2]) -> bool {
    let ids: BTreeSet<_> = old.iter().filter_map(ClientRecord::id).collect();
    new.iter().filter_map(ClientRecord::id).any(|id| ids.contains(id))
}

fn outside(clients: &[Vec<ClientRecord>; 2], side: Side, marker: &GateMarker) -> Vec<MoveOutsider> {
    let outside =
        clients[side as usize].iter().filter(|client| !GateMarker::admits(Some(marker), client.who()));
    outside.map(|client| MoveOutsider { side, client: client.clone() }).collect()
}
