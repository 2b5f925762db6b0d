use latchwork_core::backend::decide::moving::evidence::{MoveId, MoveRecord, StageRead};
use latchwork_core::backend::decide::moving::gate::{Course, GateMarker};
use latchwork_core::backend::decide::moving::{Holding, MovePhase, Side, Sides, Stage};

use super::super::{Id, Server};
use super::operator::Operator;

/// The plain clients that a marker refuses are in the model of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mark {
    Nothing,
    /// Admits participants.
    Leaves,
    /// Admits no client.
    Retired,
}

impl Mark {
    pub(super) fn marker(self) -> Option<GateMarker> {
        let name = match self {
            Mark::Nothing => return None,
            Mark::Leaves => Some("m".to_owned()),
            Mark::Retired => None,
        };
        Some(GateMarker { course: Course::Leaves, name, url: "memory://there".to_owned() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    pub(super) version: u8,
    pub(super) mark: Mark,
    pub(super) epoch: u16,
}

/// The cell with the stage. Versions are not used again, even after a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cell {
    pub(super) id: u8,
    pub(super) version: u8,
    pub(super) stage: Option<Stage>,
}

/// A participant's place among the old side's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    Out,
    /// It has not read the marker.
    Registered,
    In,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) registered: bool,
    pub(super) acknowledged: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Idle,
    /// The flag: it has read the cell since it was admitted on both sides.
    Acquiring(bool),
    Holding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) entry: Entry,
    // It counts on its lease on the old side.
    pub(super) live: bool,
    // The stage that it read last, and whether it acts by it.
    pub(super) known: Option<StageRead>,
    pub(super) awaits: bool,
    pub(super) stopped: bool,
    pub(super) done: bool,
    pub(super) epoch: u16,
    // It has read the cell since it became a member.
    pub(super) is_read: bool,
    pub(super) work: Work,
    pub(super) rounds: u8,
}

impl Client {
    pub(super) fn phase(&self) -> MovePhase {
        match self.known {
            _ if self.done => MovePhase::Done,
            Some(known) if !self.awaits => known.stage.phase,
            _ => MovePhase::Old,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(super) cell: Cell,
    pub(super) stamp: Stamp,
    pub(super) record: Option<MoveRecord>,
    pub(super) ids: u8,
    pub(super) old: Server,
    pub(super) new: Server,
    pub(super) members: Vec<Member>,
    pub(super) clients: Vec<Client>,
    pub(super) operators: Vec<Operator>,
    pub(super) highest: Option<(u16, u8)>,
    pub(super) losses: u8,
    pub(super) forgotten: bool,
    pub(super) token_back: bool,
    pub(super) left_behind: bool,
}

impl Cell {
    pub(super) fn read(self) -> Option<StageRead> {
        let (id, version) = (MoveId::new(self.id.into()), self.version.into());
        self.stage.map(|stage| StageRead { id, version, stage, values: stage.phase.token().into() })
    }
}

impl State {
    pub(super) fn server(&self, side: Side) -> &Server {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    pub(super) fn server_mut(&mut self, side: Side) -> &mut Server {
        match side {
            Side::Old => &mut self.old,
            Side::New => &mut self.new,
        }
    }

    pub(super) fn client(&self, who: Id) -> &Client {
        &self.clients[usize::from(who)]
    }

    pub(super) fn client_mut(&mut self, who: Id) -> &mut Client {
        &mut self.clients[usize::from(who)]
    }

    pub(super) fn member(&self, who: Id) -> Member {
        self.members[usize::from(who)]
    }

    pub(super) fn member_mut(&mut self, who: Id) -> &mut Member {
        &mut self.members[usize::from(who)]
    }

    /// The sides on which the participant is admitted and counts on its lease.
    pub(super) fn holding(&self, who: Id) -> Holding {
        let first = |side| self.server(side).first() == Some(who);
        Holding { on: Sides { old: self.client(who).live && first(Side::Old), new: first(Side::New) } }
    }

    pub(super) fn places(&self, who: Id) -> Sides {
        Sides { old: self.old.has(who), new: self.new.has(who) }
    }
}
