use latchwork_core::backend::decide::moving::evidence::{MoveVerdict, judge};
use latchwork_core::backend::decide::moving::gate::{GateMarker, Who};
use latchwork_core::backend::decide::moving::{AcquireNext, MovePhase, Side, Sides, may_acknowledge};

use super::super::Id;
use super::state::{Entry, Member, State, Work};
use super::{Ends, Fault, Step};

impl Ends {
    pub(super) fn steps_of(&self, state: &State, who: Id, steps: &mut Vec<Step>) {
        let (client, member) = (state.client(who), state.member(who));
        let places = state.places(who);
        let is_done = client.phase() == MovePhase::Done;
        if client.live {
            match client.entry {
                Entry::Registered => steps.push(Step::ReadsTheMarker(who)),
                Entry::In if member.registered && is_done => {
                    steps.extend([Step::Acknowledges(who), Step::LeavesTheGroup(who)]);
                }
                Entry::In if member.registered => {
                    steps.extend([Step::Reads(who), Step::Acknowledges(who)]);
                }
                Entry::In if is_done && !places.old => steps.push(Step::LeavesTheOldSide(who)),
                Entry::In if !is_done => steps.push(Step::Registers(who)),
                Entry::In | Entry::Out => {}
            }
        }
        match client.work {
            Work::Idle if places == Sides::default() && client.rounds < self.rounds => {
                steps.push(Step::Begins(who));
            }
            Work::Idle => {}
            Work::Acquiring(_) => steps.push(Step::Acquires(who)),
            Work::Holding => steps.extend([Step::Extends(who), Step::Trims(who), Step::Releases(who)]),
        }
        for side in [Side::Old, Side::New] {
            let may = side == Side::New || client.live;
            if client.work == Work::Idle && places.has(side) && may {
                steps.push(Step::GivesBack(who, side));
            }
        }
        match (client.live, client.entry) {
            (true, _) if state.losses < self.losses && usize::from(who) < self.cut_off => {
                steps.push(Step::Loses(who));
            }
            (true, _) => {}
            (false, Entry::Out) if is_done => {}
            (false, Entry::Out) => steps.push(Step::Enters(who)),
            (false, _) => steps.push(Step::Expires(who)),
        }
    }

    pub(super) fn takes(&self, state: &mut State, step: Step) {
        match step {
            Step::Enters(who) => {
                let client = state.client_mut(who);
                (client.entry, client.live) = (Entry::Registered, true);
            }
            Step::ReadsTheMarker(who) => {
                let marker = state.stamp.mark.marker();
                let client = state.client_mut(who);
                match GateMarker::admits(marker.as_ref(), Who::Participant("m")) {
                    true => client.entry = Entry::In,
                    false => (client.entry, client.live) = (Entry::Out, false),
                }
            }
            Step::Registers(who) => {
                *state.member_mut(who) = Member { registered: true, acknowledged: None };
                state.client_mut(who).is_read = false;
            }
            Step::Reads(who) => self.reads(state, who),
            Step::Acknowledges(who) => {
                let (client, holding) = (*state.client(who), state.holding(who));
                let holds = (client.work == Work::Holding).then_some(holding);
                let settled = client.is_read && !client.awaits && !client.stopped;
                if settled && may_acknowledge(client.phase(), holds) {
                    state.member_mut(who).acknowledged = client.known.map(|known| known.version);
                }
            }
            Step::LeavesTheGroup(who) => *state.member_mut(who) = Member::default(),
            Step::LeavesTheOldSide(who) => {
                let client = state.client_mut(who);
                (client.entry, client.live) = (Entry::Out, false);
            }
            Step::Begins(who) => {
                if self.is_ready(state, who) {
                    let client = state.client_mut(who);
                    client.work = Work::Acquiring(false);
                    client.rounds += 1;
                }
            }
            Step::Acquires(who) => self.acquires(state, who),
            Step::Extends(who) => {
                if let Some(side) = state.holding(who).joins(state.client(who).phase())
                    && !state.server(side).has(who)
                {
                    state.server_mut(side).join(who);
                }
            }
            Step::Trims(who) => {
                let surplus = state.holding(who).gives_back(state.client(who).phase());
                for side in [Side::Old, Side::New] {
                    if surplus.has(side) {
                        state.server_mut(side).leave(who);
                    }
                }
            }
            Step::Releases(who) => state.client_mut(who).work = Work::Idle,
            Step::GivesBack(who, side) => state.server_mut(side).leave(who),
            Step::Loses(who) => self.loses(state, who),
            Step::Expires(who) => {
                state.old.leave(who);
                *state.member_mut(who) = Member::default();
                state.client_mut(who).entry = Entry::Out;
            }
            _ => unreachable!("this is a step of an operator or of the server"),
        }
    }

    /// Reads the cell, the record and the stamp.
    fn reads(&self, state: &mut State, who: Id) {
        let read = state.cell.read();
        let epoch = match read {
            Some(read) if read.stage.phase != MovePhase::Old => read.stage.epoch,
            _ => state.stamp.epoch,
        };
        let (known, knew) = (state.client(who).known, state.client(who).phase());
        // MIGRATE-BACK-TO-OLD.
        let is_gone = read.is_none() && !matches!(knew, MovePhase::Old | MovePhase::Done);
        let verdict = match judge(known, read, state.record) {
            _ if is_gone && self.has(Fault::GoesOnByWhatItKnew) => {
                state.client_mut(who).is_read = true;
                return;
            }
            _ if is_gone && self.has(Fault::GoesBackUnasked) => MoveVerdict::NoMove,
            verdict => verdict,
        };
        let client = state.client_mut(who);
        client.is_read = true;
        // The stamp of the new side has the epoch of a move that is done.
        let of_done = u16::from(verdict == MoveVerdict::Done);
        client.epoch = client.epoch.max(epoch).max(of_done).max(read.map_or(0, |read| read.stage.epoch));
        (client.awaits, client.stopped) = (false, false);
        match verdict {
            MoveVerdict::NoMove => client.known = None,
            MoveVerdict::Done => client.done = true,
            MoveVerdict::Follows => {
                client.known = read;
                client.done |= read.is_some_and(|read| read.stage.phase == MovePhase::Done);
            }
            MoveVerdict::Awaits => (client.known, client.awaits) = (read, true),
            MoveVerdict::Stops(_) => client.stopped = true,
        }
        let is_behind = read.is_none() && !matches!(client.phase(), MovePhase::Old | MovePhase::Done);
        state.left_behind |= is_behind && !state.forgotten;
    }

    fn is_ready(&self, state: &State, who: Id) -> bool {
        let client = state.client(who);
        let is_member = state.member(who).registered && client.live && client.is_read && !client.stopped;
        is_member || !client.phase().needs_membership()
    }

    fn acquires(&self, state: &mut State, who: Id) {
        let (client, holding, places) = (*state.client(who), state.holding(who), state.places(who));
        let Work::Acquiring(read) = client.work else { return };
        if !self.is_ready(state, who) {
            return;
        }
        match holding.next(client.phase(), places.new, read) {
            AcquireNext::GiveBackNew => {
                state.new.leave(who);
                state.client_mut(who).work = Work::Acquiring(false);
            }
            // It waits on the side where it has a place, and continues there.
            _ if places.without(holding.on) != Sides::default() => {}
            AcquireNext::Join(side) => {
                if client.live || side == Side::New {
                    state.server_mut(side).join(who);
                }
            }
            AcquireNext::Read => {
                self.reads(state, who);
                state.client_mut(who).work = Work::Acquiring(true);
            }
            AcquireNext::Complete(side) => {
                state.client_mut(who).work = Work::Holding;
                let (_, sequence) = state.server(side).queue[0];
                let token = (client.epoch, sequence);
                state.token_back |= state.highest.is_some_and(|highest| token <= highest);
                state.highest = state.highest.max(Some(token));
            }
        }
    }

    /// The client counts its lease as lost, but the server still has its nodes. An acquisition without a node
    /// on the old side continues later.
    fn loses(&self, state: &mut State, who: Id) {
        state.losses += 1;
        let (holding, places) = (state.holding(who), state.places(who));
        let client = state.client_mut(who);
        (client.live, client.is_read) = (false, false);
        let live = Sides { old: false, new: true };
        match client.work {
            Work::Holding if !holding.is_valid(client.phase(), live) => client.work = Work::Idle,
            Work::Acquiring(_) if places.old => client.work = Work::Idle,
            _ => {}
        }
    }
}
