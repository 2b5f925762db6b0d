use latchwork_core::backend::NodeId;
use latchwork_core::backend::decide::barrier::{Disagreement, Passage, Place};

use super::{Barrier, Cell, Doing, Fault, Node, OTHERS, PARTIES, State, passage};

impl Barrier {
    pub(super) fn parties(&self, client: usize) -> u32 {
        if self.mixed && client + 1 == self.clients { OTHERS } else { PARTIES }
    }

    fn places(&self, queue: &[Node]) -> Vec<Place> {
        let place = |(sequence, client): &Node| {
            let member = if self.fault == Some(Fault::CountsNodes) { *sequence } else { *client as u64 };
            let parties = match self.fault {
                Some(Fault::CountsOthers) => PARTIES,
                _ => self.parties(*client),
            };
            Place {
                sequence: *sequence,
                member: NodeId::from_bytes(u128::from(member).to_be_bytes()),
                parties,
            }
        };
        queue.iter().map(place).collect()
    }

    pub(super) fn rechecks(&self) -> bool {
        self.deaths > 0 || self.losses > 0 || self.mixed
    }

    pub(super) fn next(&self, cell: Cell, queue: &[Node], leaves: bool) -> Option<Passage> {
        let (now, numbers) = (passage(cell), || queue.iter().map(|(number, _)| *number));
        let emptied = now.emptied(numbers()).filter(|_| self.emptied);
        if emptied.is_none() && (leaves || self.emptied && now.left < now.passed) {
            return None;
        }
        if self.fault == Some(Fault::CountsThePassed) {
            let all = Passage { passed: 0, left: 0, ..now }.next(false, self.places(queue));
            return all.filter(|all| all.passed > now.passed).or_else(|| {
                let behind = numbers().filter(|number| *number > now.passed).last();
                behind.filter(|_| queue.len() >= PARTIES as usize).map(|passed| Passage { passed, ..now })
            });
        }
        emptied.unwrap_or(now).next(self.emptied, self.places(queue)).or(emptied)
    }

    /// Returns whether the cell was still as read.
    fn writes(&self, state: &mut State, cell: Cell, next: Passage, queue: &[Node]) -> bool {
        let is_as_read = cell == state.cell || self.fault == Some(Fault::ComparesNothing);
        if is_as_read {
            let before = passage(state.cell).passed;
            if next.passed != before {
                self.counts(state, before, next, queue);
            }
            state.versions += 1;
            state.cell = Some((state.versions, next.passed, next.left, next.parties));
        }
        is_as_read
    }

    fn counts(&self, state: &mut State, before: u64, next: Passage, queue: &[Node]) {
        let last = |client| queue.iter().rev().find(|node| node.1 == client).map_or(0, |node| node.0);
        let is_counted = |client: &usize| {
            (before + 1..=next.passed).contains(&last(*client)) && self.parties(*client) == next.parties
        };
        let counted: Vec<_> = (0..self.clients).filter(is_counted).collect();
        let number = u32::try_from(counted.len()).expect("few");
        state.passages.push((before, next.passed, next.parties.saturating_sub(number)));
        let waits = |client: &usize| match state.clients[*client].0 {
            Doing::Waiting(..) | Doing::HasCell(..) | Doing::HasBoth(..) => true,
            Doing::Lost(_) | Doing::LostCell(..) | Doing::Gone(..) => true,
            _ => false,
        };
        let owed: Vec<_> = counted.into_iter().filter(waits).collect();
        state.owed.extend(owed);
    }

    fn joins(&self, state: &mut State, who: usize) -> Doing {
        let late = u32::from(self.fault == Some(Fault::LooksLate));
        let looks = state.queue.len() >= (self.parties(who) - 1 + late) as usize;
        state.last += 1;
        state.queue.push((state.last, who));
        Doing::Waiting(state.last, looks)
    }

    pub(super) fn has_passed(&self, state: &State, who: usize, number: u64) -> bool {
        let now = passage(state.cell);
        now.passed >= number && now.parties == self.parties(who)
    }

    fn passes(&self, state: &mut State, who: usize) {
        state.owed.retain(|owed| *owed != who);
    }

    fn acts(&self, state: &mut State, who: usize, number: u64, cell: Cell, queue: &[Node]) -> Doing {
        let (now, parties) = (passage(cell), self.parties(who));
        let next = if now.parties == parties {
            self.next(cell, queue, false)
        } else {
            match now.disagrees(number, parties, self.emptied, &self.places(queue)) {
                Disagreement::Store(next) => Some(next),
                Disagreement::Conflict(_) => return Doing::Refused(number),
                Disagreement::Wait if self.fault == Some(Fault::ReplacesAtOnce) => {
                    Some(Passage { parties, ..now })
                }
                Disagreement::Wait => return Doing::Waiting(number, true),
            }
        };
        let Some(next) = next else { return Doing::Waiting(number, false) };
        self.writes(state, cell, next, queue);
        Doing::Waiting(number, true)
    }

    pub(super) fn goes(&self, state: &mut State, who: usize, doing: Doing) {
        state.clients[who].0 = match doing {
            Doing::Outside => {
                state.clients[who].1 += 1;
                self.joins(state, who)
            }
            Doing::Waiting(number, _) if self.has_passed(state, who, number) => {
                state.uncounted |= !state.owed.contains(&who);
                self.passes(state, who);
                Doing::Passed(number)
            }
            Doing::Waiting(number, _) => Doing::HasCell(number, state.cell),
            Doing::HasCell(number, cell) => Doing::HasBoth(number, cell, state.queue.clone()),
            Doing::HasBoth(number, cell, queue) => self.acts(state, who, number, cell, &queue),
            Doing::Passed(number) | Doing::Refused(number) => {
                state.queue.retain(|other| *other != (number, who));
                Doing::Leaves
            }
            Doing::Leaves => Doing::LeavesCell(state.cell),
            Doing::LeavesCell(cell) => Doing::LeavesBoth(cell, state.queue.clone()),
            Doing::LeavesBoth(Some(cell), queue) => self.leaves(state, Some(cell), &queue),
            Doing::LeavesBoth(None, _) => Doing::Outside,
            Doing::Dead => Doing::Dead,
            lost => self.returns(state, who, lost),
        };
    }

    /// The steps of a member that has lost its lease.
    fn returns(&self, state: &mut State, who: usize, doing: Doing) -> Doing {
        match doing {
            Doing::Lost(number) if self.has_passed(state, who, number) => {
                self.passes(state, who);
                Doing::Leaves
            }
            Doing::Lost(_) if matches!(self.fault, Some(Fault::CountsNodes | Fault::JoinsAtOnce)) => {
                self.joins(state, who)
            }
            Doing::Lost(number) => Doing::LostCell(number, state.cell),
            Doing::LostCell(number, _) if state.queue.contains(&(number, who)) => Doing::Lost(number),
            Doing::LostCell(number, cell) => Doing::Gone(number, cell),
            Doing::Gone(..) if self.fault == Some(Fault::WritesNothing) => self.joins(state, who),
            Doing::Gone(number, cell) if cell != state.cell => Doing::Lost(number),
            Doing::Gone(_, cell) => {
                let parties = self.parties(who);
                let again = cell.map_or(Passage { parties, ..Passage::default() }, |_| passage(cell));
                self.writes(state, cell, again, &[]);
                self.joins(state, who)
            }
            other => other,
        }
    }

    /// The steps of a member that has left.
    fn leaves(&self, state: &mut State, cell: Cell, queue: &[Node]) -> Doing {
        if queue.is_empty() {
            if cell == state.cell || self.fault == Some(Fault::DeletesBlindly) {
                state.cell = None;
                // A member that returns after all others have left joins the next passage.
                state.owed.clear();
            }
            return Doing::Outside;
        }
        let silent = self.fault == Some(Fault::LeavesSilently);
        match self.next(cell, queue, true).filter(|_| self.emptied && !silent) {
            Some(next) if !self.writes(state, cell, next, queue) => Doing::Leaves,
            _ => Doing::Outside,
        }
    }
}
