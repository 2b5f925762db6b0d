use latchwork_core::backend::decide::moving::{AcquireNext, MovePhase, Side, Sides, may_acknowledge};

use super::{Fault, Id, Member, Moving, State, Step, Work};

impl Moving {
    pub(super) fn steps_of(&self, state: &State, who: Id, steps: &mut Vec<Step>) {
        let (client, member) = (state.client(who), state.members[usize::from(who)]);
        let places = state.places(who);
        let is_done = client.read.is_some_and(|(_, stage)| stage.phase == MovePhase::Done);
        if client.live.old && !is_done {
            steps.push(if member.registered { Step::Reads(who) } else { Step::Registers(who) });
            if self.has(Fault::ReadsFirst) && !member.registered && client.read.is_none() {
                steps.push(Step::Reads(who));
            }
        }
        if member.registered {
            steps.push(Step::Acknowledges(who));
            if state.repeats < self.repeats {
                steps.push(Step::AcknowledgesTwice(who));
            }
            if is_done {
                steps.push(Step::LeavesTheGroup(who));
            }
            if member.late.is_some() {
                steps.push(Step::LateAcknowledgement(who));
            }
        }
        match client.work {
            Work::Idle if places == Sides::default() && client.rounds < self.rounds => {
                steps.push(Step::Begins(who));
            }
            Work::Idle => {}
            Work::Acquiring(..) => steps.push(Step::Acquires(who)),
            Work::Holding => steps.extend([Step::Extends(who), Step::Trims(who), Step::Releases(who)]),
        }
        for side in [Side::Old, Side::New] {
            let has_something = places.has(side) || side == Side::Old && member.registered;
            match (client.live.has(side), has_something) {
                (true, true) => {
                    if client.work == Work::Idle && places.has(side) {
                        steps.push(Step::GivesBack(who, side));
                    }
                    if state.losses < self.losses {
                        steps.push(Step::Loses(who, side));
                    }
                }
                (true, false) => {}
                (false, true) => steps.push(Step::Expires(who, side)),
                (false, false) => steps.push(Step::Returns(who, side)),
            }
        }
    }

    pub(super) fn takes(&self, state: &mut State, step: Step) {
        match step {
            Step::Registers(who) => *state.member(who) = Member { registered: true, ..Member::default() },
            Step::Reads(who) => state.client_mut(who).read = Some((state.version, state.stage)),
            Step::Acknowledges(who) => self.acknowledges(state, who, false),
            Step::AcknowledgesTwice(who) => self.acknowledges(state, who, true),
            Step::LateAcknowledgement(who) => {
                let member = state.member(who);
                member.acknowledged = member.late.take();
            }
            Step::LeavesTheGroup(who) => *state.member(who) = Member::default(),
            Step::Begins(who) => self.begins(state, who),
            Step::Acquires(who) => self.acquires(state, who),
            Step::Extends(who) => self.extends(state, who),
            Step::Trims(who) => self.trims(state, who),
            Step::Releases(who) => state.client_mut(who).work = Work::Idle,
            Step::GivesBack(who, side) => state.server_mut(side).leave(who),
            Step::Loses(who, side) => self.loses(state, who, side),
            Step::Expires(who, side) => {
                state.server_mut(side).leave(who);
                if side == Side::Old {
                    *state.member(who) = Member::default();
                }
            }
            Step::Returns(who, side) => *state.live_mut(who, side) = true,
            Step::Checks(..) | Step::Writes(_) => unreachable!("an operator's"),
        }
    }

    fn acknowledges(&self, state: &mut State, who: Id, twice: bool) {
        let (client, holding) = (state.client(who), state.holding(who));
        let Some((version, stage)) = client.read else { return };
        let holds = (client.work == Work::Holding).then_some(holding);
        let ack = Some((version, stage.phase));
        let member = &state.members[usize::from(who)];
        let may = self.has(Fault::AcknowledgesAtOnce) || may_acknowledge(stage.phase, holds);
        if !may || member.acknowledged == ack || twice && member.late.is_some() {
            return;
        }
        state.member(who).acknowledged = ack;
        if twice {
            state.member(who).late = ack;
            state.repeats += 1;
        }
    }

    fn begins(&self, state: &mut State, who: Id) {
        let live = state.client(who).live;
        let Some((_, stage)) = state.client(who).read else { return };
        let is_member = state.members[usize::from(who)].registered && live.old;
        let is_let = is_member || !stage.phase.needs_membership() || self.has(Fault::NeedsNoMembership);
        if is_let {
            let client = state.client_mut(who);
            client.work = Work::Acquiring(stage.phase, false);
            client.rounds += 1;
        }
    }

    fn acquires(&self, state: &mut State, who: Id) {
        let (client, holding, places) = (*state.client(who), state.holding(who), state.places(who));
        let (Work::Acquiring(began, read), Some((_, stage))) = (client.work, client.read) else { return };
        let phase = if self.has(Fault::DecidesAtStart) { began } else { stage.phase };
        let read = read || self.has(Fault::TrustsWhatItRead);
        let queued_on_new = places.new && !self.has(Fault::KeepsTheNewSide);
        match holding.next(phase, queued_on_new, read) {
            AcquireNext::GiveBackNew => state.new.leave(who),
            // It waits on the side where it has a place, and continues there.
            _ if places.without(holding.on) != Sides::default() => {}
            AcquireNext::Join(side) => {
                if client.live.has(side) {
                    state.server_mut(side).join(who);
                }
            }
            AcquireNext::Read => {
                let now = (state.version, state.stage);
                let client = state.client_mut(who);
                (client.read, client.work) = (Some(now), Work::Acquiring(began, true));
            }
            AcquireNext::Complete(side) => {
                state.client_mut(who).work = Work::Holding;
                let (_, sequence) = state.server(side).queue[0];
                let token = (stage.epoch, sequence);
                state.token_back |= state.highest.is_some_and(|highest| token <= highest);
                state.highest = state.highest.max(Some(token));
            }
        }
    }

    fn extends(&self, state: &mut State, who: Id) {
        let Some((_, stage)) = state.client(who).read else { return };
        if let Some(side) = state.holding(who).joins(stage.phase)
            && state.client(who).live.has(side)
            && !state.server(side).has(who)
        {
            state.server_mut(side).join(who);
        }
    }

    fn trims(&self, state: &mut State, who: Id) {
        let Some((_, stage)) = state.client(who).read else { return };
        let surplus = state.holding(who).gives_back(stage.phase);
        for side in [Side::Old, Side::New] {
            if surplus.has(side) {
                state.server_mut(side).leave(who);
            }
        }
    }

    /// The client counts a lease as lost, but the server still has its nodes.
    fn loses(&self, state: &mut State, who: Id, side: Side) {
        state.losses += 1;
        let (holding, places) = (state.holding(who), state.places(who));
        *state.live_mut(who, side) = false;
        let client = state.client_mut(who);
        let phase = client.read.map_or(MovePhase::Old, |(_, stage)| stage.phase);
        let keeps_on = self.has(Fault::NeedsNoMembership) || phase == MovePhase::Done;
        let is_kept = self.has(Fault::NeedsNoMembership) && !holding.on.old
            || self.has(Fault::KeptWhileOneLives) && holding.on == Sides::BOTH;
        let is_valid = is_kept || holding.is_valid(phase, client.live);
        match client.work {
            Work::Holding if !is_valid => client.work = Work::Idle,
            Work::Acquiring(..) if places.has(side) || side == Side::Old && !keeps_on => {
                client.work = Work::Idle;
            }
            _ => {}
        }
        if side == Side::Old && !keeps_on {
            client.read = None;
        }
    }
}
