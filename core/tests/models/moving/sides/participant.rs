use latchwork_core::backend::decide::moving::evidence::{MoveVerdict, continues, judge};
use latchwork_core::backend::decide::moving::obstacles::MemberSays;
use latchwork_core::backend::decide::moving::values::ValuesAt;
use latchwork_core::backend::decide::moving::{Holding, MovePhase, Side, Sides, may_acknowledge};

use super::{Fault, Member, Places, State, Step, at};

impl Places {
    pub(super) fn steps_of(&self, state: &State, who: usize, steps: &mut Vec<Step>) {
        let client = state.clients[who];
        steps.push(Step::Reads(who));
        if client.known.is_some() {
            steps.push(Step::Acknowledges(who));
        }
        if client.hold == Sides::default() {
            if client.rounds < self.rounds {
                steps.push(Step::Acquires(who));
            }
        } else {
            steps.extend([Step::Covers(who), Step::Releases(who)]);
        }
        if state.uses < self.uses {
            steps.push(Step::Uses(who));
        }
    }

    pub(super) fn takes(&self, state: &mut State, step: Step) {
        match step {
            Step::Reads(who) => self.reads(state, who),
            Step::Acknowledges(who) => self.acknowledges(state, who),
            Step::Acquires(who) => self.acquires(state, who),
            Step::Covers(who) => self.covers(state, who),
            Step::Releases(who) => state.clients[who].hold = Sides::default(),
            Step::Uses(who) => self.uses_the_value(state, who),
            _ => unreachable!("a step of an operator, or of a server"),
        }
    }

    pub(super) fn reads(&self, state: &mut State, who: usize) {
        let (old, new) = self.participants[who];
        if state.clients[who].done {
            return;
        }
        if state.servers[old].now.members[who].is_none() {
            state.servers[old].now.members[who] = Some(Member::default());
        }
        state.clients[who].came = true;
        let staged = state.servers[old].now.stage;
        let (known, read) = (state.clients[who].known, staged);
        let record = state.servers[new].now.record;
        let verdict = match judge(known.map(|known| known.read), read.map(|read| read.read), record) {
            _ if self.has(Fault::IgnoresTheRecord) => match read {
                Some(_) => MoveVerdict::Follows,
                None => MoveVerdict::NoMove,
            },
            MoveVerdict::Stops(_) | MoveVerdict::Awaits
                if read.is_some() && self.has(Fault::RecordsNothing) =>
            {
                MoveVerdict::Follows
            }
            verdict => verdict,
        };
        let client = &mut state.clients[who];
        (client.is_read, client.stopped, client.awaits) = (true, None, false);
        let mut says = MemberSays::default();
        match verdict {
            MoveVerdict::NoMove => client.known = None,
            MoveVerdict::Done => client.done = true,
            MoveVerdict::Follows => client.known = staged,
            MoveVerdict::Awaits => (client.known, client.awaits) = (staged, true),
            MoveVerdict::Stops(found) => {
                client.stopped = Some(found);
                says.knows = client.known.map(|known| known.read.version);
                says.stopped = Some(found);
            }
        }
        let id = client.known.map(|known| known.read.id);
        if let Some(Some(member)) = state.servers[old].now.members.get_mut(who)
            && (member.says.knows, member.says.stopped) != (says.knows, says.stopped)
        {
            says.acknowledged = member.says.acknowledged.filter(|_| member.id == id);
            *member = Member { id, says };
        }
    }

    fn acknowledges(&self, state: &mut State, who: usize) {
        let client = state.clients[who];
        let Some(staged) = client.known else { return };
        if !self.is_ready(state, who) || client.awaits || client.stopped.is_some() {
            return;
        }
        let holds = (client.hold != Sides::default()).then_some(Holding { on: client.hold });
        if !may_acknowledge(staged.read.stage.phase, holds) {
            return;
        }
        let old = self.participants[who].0;
        if let Some(Some(member)) = state.servers[old].now.members.get_mut(who) {
            let says = MemberSays { acknowledged: Some(staged.read.version), ..MemberSays::default() };
            *member = Member { id: Some(staged.read.id), says };
        }
        if staged.read.stage.phase == MovePhase::Done {
            state.clients[who].done = true;
            state.servers[old].now.members[who] = None;
        }
    }

    fn is_ready(&self, state: &State, who: usize) -> bool {
        let client = &state.clients[who];
        let is_member = state.servers[self.participants[who].0].now.members[who].is_some();
        client.done || client.stopped.is_none() && client.is_read && is_member
    }

    fn acquires(&self, state: &mut State, who: usize) {
        if !self.is_ready(state, who) {
            return;
        }
        if State::phase(&state.clients[who]).is_read_while_held() {
            // A later stage of the same move needs no record.
            let (known, read) = (state.clients[who].known, state.servers[self.participants[who].0].now.stage);
            match (known, read) {
                (Some(known), Some(read))
                    if known.read.id == read.read.id && continues(known.read, read.read) =>
                {
                    state.clients[who].known = Some(read);
                }
                _ => self.reads(state, who),
            }
            if !self.is_ready(state, who) {
                return;
            }
        }
        let needs = State::phase(&state.clients[who]).needs();
        let free = self.servers_of(who, needs).into_iter().all(|server| state.is_free(self, who, server));
        if !free {
            return;
        }
        let epoch = state.clients[who].known.map_or(0, |known| known.read.stage.epoch);
        // A client that comes to a move that is done has the epoch of the new side's stamp.
        if !state.clients[who].done {
            state.token_back |= epoch < state.epoch;
            state.epoch = state.epoch.max(epoch);
        }
        let client = &mut state.clients[who];
        (client.hold, client.rounds) = (needs, client.rounds + 1);
    }

    /// Its hold takes the node that the phase needs, and gives back the others.
    fn covers(&self, state: &mut State, who: usize) {
        let phase = State::phase(&state.clients[who]);
        let holding = Holding { on: state.clients[who].hold };
        if let Some(side) = holding.joins(phase)
            && state.is_free(self, who, at(self.participants[who], side))
        {
            match side {
                Side::Old => state.clients[who].hold.old = true,
                Side::New => state.clients[who].hold.new = true,
            }
        }
        let client = &mut state.clients[who];
        client.hold = client.hold.without(Holding { on: client.hold }.gives_back(phase));
    }

    fn uses_the_value(&self, state: &mut State, who: usize) {
        if !self.is_ready(state, who) {
            return;
        }
        let client = state.clients[who];
        let values = match client.known {
            _ if client.done => ValuesAt::New,
            Some(staged) if !client.awaits => staged.read.values,
            _ => ValuesAt::Old,
        };
        let Some(side) = values.open() else { return };
        let server = at(self.participants[who], side);
        state.uses += 1;
        if state.wiped[server] {
            return;
        }
        if let Some(latest) = &mut state.latest {
            state.lost_value |= !latest[server];
            *latest = [0, 1, 2].map(|other| other == server);
        }
    }
}
