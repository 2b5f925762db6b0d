//! Everything that an operator reads before it writes, and the blockers in it.
//!
//! The stage is read first, then the members, the stamps and the clients: a client that registers later reads
//! this stage or a later one, and a plain client that connects later reads the markers.

use std::collections::BTreeMap;

use futures_util::future::try_join;
use serde::{Serialize, Serializer};

use super::super::member::MemberRecord;
use super::super::staged::Staged;
use super::late::{is_late, late};
use super::{Move, MoveBlocker, MoveClient, ValuesInUse};
use crate::ClientRecord;
use crate::decide::moving::evidence::MoveRecord;
use crate::decide::moving::gate::{Course, GateMarker, Who};
use crate::decide::moving::obstacles::{
    Found, MarkerStanding, MemberSays, Obstacle, Stored, TakesPart, Wanted, shut_in,
};
use crate::decide::moving::values::ValuesAt;
use crate::decide::moving::{MovePhase, Side};
use crate::error::Result;
use crate::registry::{Arrival, Stamped};

const SIDES: [Side; 2] = [Side::Old, Side::New];

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

/// Whether a look lists the values of both sides, which may be many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListValues {
    Never,
    /// If each member has acknowledged the stage. Otherwise the step waits, and the next look asks again.
    WhenAcknowledged,
    Always,
}

/// The reads of both sides.
pub(super) struct Looked {
    pub(super) staged: Option<Staged>,
    pub(super) members: Vec<MemberRecord>,
    /// The stamps of the old side and of the new side.
    pub(super) stamps: [Stamped; 2],
    clients: [Vec<ClientRecord>; 2],
    /// The values of both sides, if they were listed.
    pub(super) values: Option<[Vec<ValuesInUse>; 2]>,
}

impl Move {
    /// Reads everything else at a stage that was read before.
    pub(super) async fn look(&self, staged: Option<Staged>, values: ListValues) -> Result<Looked> {
        let members = self.members().await?;
        let stamps = [self.old.stamped().await?, self.new.stamped().await?];
        let (on_old, on_new) = try_join(self.old.clients(), self.new.clients()).await?;
        let are_listed = match values {
            ListValues::Never => false,
            ListValues::Always => true,
            ListValues::WhenAcknowledged => {
                !staged.iter().any(|staged| members.iter().any(|member| is_late(member, staged)))
            }
        };
        let values = match are_listed {
            true => Some([self.old.values_in_use().await?, self.new.values_in_use().await?]),
            false => None,
        };
        Ok(Looked { staged, members, stamps, clients: [on_old, on_new], values })
    }

    /// The record of this move's name in a stamp of the new side.
    pub(super) fn record_in(&self, stamp: &Stamped) -> Option<MoveRecord> {
        let arrival = stamp.arrival.as_ref().filter(|arrival| *arrival.name == *self.name);
        arrival.map(|arrival| arrival.record)
    }

    /// Compares a marker with the marker of this move on a side.
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

    /// The same for a stamp of the new side. Without a marker, the record of a move that has begun counts.
    fn standing_of_new(&self, stamp: &Stamped) -> MarkerStanding {
        let standing = self.standing(Side::New, stamp.marker.as_ref());
        let record = self.record_in(stamp).filter(|record| record.reached() != MovePhase::Old);
        let is_other = stamp.arrival.as_ref().is_some_and(|arrival| arrival.url != self.old.url);
        match (standing, record) {
            (MarkerStanding::Missing, Some(_)) if is_other => MarkerStanding::Namesake,
            (standing, _) => standing,
        }
    }

    /// The participants, ordered by label.
    pub(super) fn participants(&self, looked: &Looked) -> Vec<MoveClient> {
        let mut found: BTreeMap<String, MoveClient> = BTreeMap::new();
        let named = |record: &ClientRecord, side: Side| match record.client() {
            Some(client) => client.to_owned(),
            None => format!("{} {}", side.as_str(), record.sequence),
        };
        for (side, clients) in SIDES.into_iter().zip(&looked.clients) {
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
        for member in &looked.members {
            let of = found.entry(member.client.clone()).or_default();
            of.member = true;
            if of.label.is_empty() {
                (of.label, of.host) = (member.label.clone(), member.host.clone());
            }
        }
        let mut participants: Vec<_> = found.into_values().collect();
        participants.sort_by(|one, other| one.label.cmp(&other.label));
        participants
    }

    /// The participants that are connected to one side only, or have not joined the members.
    pub(super) fn apart(&self, looked: &Looked) -> Vec<MoveClient> {
        let mut participants = self.participants(looked);
        participants.retain(|of| !(of.on_old && of.on_new && of.member));
        participants
    }

    /// The plain clients of the sides that are shut in the phase that was read.
    pub(super) fn outsiders(&self, looked: &Looked) -> Vec<MoveOutsider> {
        let shut = shut_in(looked.phase());
        let sides = SIDES.into_iter().filter(|side| shut.contains(side));
        sides.flat_map(|side| outside(looked, side, &self.marker(side))).collect()
    }

    /// The clients of the old side except operators.
    pub(super) fn left(&self, looked: &Looked) -> Vec<MoveOutsider> {
        outside(looked, Side::Old, &self.retired())
    }

    /// The reads as the decision takes them.
    pub(super) fn found(&self, looked: &Looked) -> Found {
        let [old, new] = &looked.stamps;
        let takes_part = self.participants(looked).into_iter().map(|of| TakesPart {
            on_old: of.on_old,
            on_new: of.on_new,
            member: of.member,
        });
        let stored = looked.values.as_ref().map(|[of_old, of_new]| {
            [(&self.old, of_old), (&self.new, of_new)].map(|(side, values)| Stored {
                any: !values.is_empty(),
                idle: values.iter().any(|of| of.go_idle),
                takes: side.takes_values(),
                takes_idle: side.coordinator.capabilities().idle_cells,
            })
        });
        Found {
            stage: looked.staged.as_ref().map(Staged::read_as),
            values: looked.staged.as_ref().map_or(ValuesAt::Old, |staged| staged.values),
            copies: looked.staged.as_ref().is_some_and(Staged::has_copies),
            record: self.record_in(new),
            markers: [self.standing(Side::Old, old.marker.as_ref()), self.standing_of_new(new)],
            epochs: [old.epoch, new.epoch],
            layouts: [old.has_records(), new.has_records()],
            outsiders: !self.outsiders(looked).is_empty(),
            left: !self.left(looked).is_empty(),
            participants: takes_part.collect(),
            members: looked.members.iter().map(|member| looked.says(member)).collect(),
            stored,
        }
    }

    /// The blockers of a call, after these reads.
    pub(super) fn blockers(&self, looked: &Looked, wanted: Wanted) -> Vec<MoveBlocker> {
        let found = self.found(looked);
        let obstacles = found.obstacles(wanted);
        obstacles.into_iter().map(|obstacle| self.blocker(looked, &found, obstacle)).collect()
    }

    /// Refuses a call if anything is in its way.
    ///
    /// # Errors
    /// `Conflict` naming the first blocker.
    pub(super) fn refuse(&self, looked: &Looked, wanted: Wanted) -> Result<()> {
        match self.blockers(looked, wanted).into_iter().next() {
            Some(blocker) => Err(blocker.into()),
            None => Ok(()),
        }
    }

    fn blocker(&self, looked: &Looked, found: &Found, obstacle: Obstacle) -> MoveBlocker {
        match obstacle {
            Obstacle::Contradicts(contradiction) if found.has_only_copy() => {
                MoveBlocker::OnlyCopy(contradiction)
            }
            Obstacle::Contradicts(contradiction) => MoveBlocker::Contradicts(contradiction),
            Obstacle::MemberAhead => {
                let version = looked.staged.as_ref().map(|staged| staged.version.number());
                let ahead = |says: MemberSays| says.stopped.is_some() || says.is_ahead(version);
                let members = looked.members.iter().filter(|member| ahead(looked.says(member)));
                MoveBlocker::MembersAhead(members.map(late).collect())
            }
            Obstacle::Outsiders => MoveBlocker::Outsiders(self.outsiders(looked)),
            Obstacle::StillConnected => MoveBlocker::StillConnected(self.left(looked)),
            Obstacle::Marked(side) => {
                let stamp = &looked.stamps[side as usize];
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
            Obstacle::Apart => MoveBlocker::Apart(self.apart(looked)),
            Obstacle::ValuesThere => {
                MoveBlocker::ValuesThere(looked.values.as_ref().map_or_else(Vec::new, |of| of[1].clone()))
            }
            Obstacle::ValuesStay(side, lacks) => MoveBlocker::ValuesStay { side, lacks },
        }
    }
}

impl Looked {
    /// The report of a member about the move of the stage.
    pub(super) fn says(&self, member: &MemberRecord) -> MemberSays {
        member.says_of(self.staged.as_ref().map(|staged| staged.id))
    }

    fn phase(&self) -> MovePhase {
        self.staged.as_ref().map_or(MovePhase::Old, |staged| staged.stage.phase)
    }
}

/// The clients of a side that a marker does not admit.
fn outside(looked: &Looked, side: Side, marker: &GateMarker) -> Vec<MoveOutsider> {
    let clients = looked.clients[side as usize].iter();
    let outside = clients.filter(|client| !GateMarker::admits(Some(marker), client.who()));
    outside.map(|client| MoveOutsider { side, client: client.clone() }).collect()
}
