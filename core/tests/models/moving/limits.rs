//! The model of a semaphore's stored limit during a move, over
//! [`values`](latchwork_core::backend::decide::moving::values) (MIGRATE-LIMITS).
//!
//! Participants store limits, each a new one, on the sides of their phase, one write for each step. They
//! learn of a stage late, and acknowledge it in a separate step. Operators copy before *both*, copy again
//! while no participant stores a limit, compare, and write the next stage. A state is broken if the side of
//! the tokens has a limit that a later one had replaced.

use latchwork_core::backend::decide::moving::values::{ValuesAt, WholeStage, WholeStep};
use latchwork_core::backend::decide::moving::{MovePhase, Side, Stage, Way};

use crate::explore::{Broken, Protocol, assert_found_as, assert_sound, long};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    CopiesNothing,
    /// A copy is written without a comparison with the stored limit.
    Overwrites,
    /// An operator reads the limit of the source before the limit that it writes over.
    ReadsTheSourceFirst,
    /// An operator does not read the stage again before it writes.
    LooksNotAgain,
    /// A participant acknowledges the stage of the copy while it stores a limit.
    AcknowledgesAtOnce,
}

#[derive(Clone, Debug)]
struct Limits {
    begins: WholeStage,
    limits: [u8; 2],
    sets: Vec<u8>,
    operators: usize,
    writes: u8,
    fault: Option<Fault>,
}

/// A stage, and the number of its write.
type Read = (u8, WholeStage);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Setter {
    Idle,
    /// It began by this stage. `before` has a bit for each limit that was completely stored at that time.
    Sets {
        limit: u8,
        by: Read,
        written: u8,
        before: u16,
    },
}

/// The limits that an operator has read, and whether it has read the stage again since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pair {
    target: Option<u8>,
    source: Option<u8>,
    looked: bool,
}

const UNREAD: Pair = Pair { target: None, source: None, looked: false };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operator {
    Idle,
    /// It copies, and then writes the next stage.
    Copies {
        read: Read,
        next: WholeStage,
        pair: Pair,
    },
    /// It waits until all participants acknowledge the stage that it wrote again, and compares.
    Compares {
        own: Read,
        next: WholeStage,
        pair: Pair,
    },
    Writes {
        read: Read,
        next: WholeStage,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    stage: Read,
    limits: [u8; 2],
    // The stage that each participant knows, and the version that it has acknowledged.
    known: Vec<Read>,
    acknowledged: Vec<u8>,
    setters: Vec<Setter>,
    sets: Vec<u8>,
    // Bits of the limits that are completely stored, and that a later one has replaced.
    ended: u16,
    replaced: u16,
    next_limit: u8,
    operators: Vec<Operator>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Learns(usize),
    Acknowledges(usize),
    Sets(usize),
    Goes(usize, Way),
    Operator(usize),
}

fn bit(limit: u8) -> u16 {
    1 << limit
}

impl State {
    fn limit(&mut self, side: Side) -> &mut u8 {
        &mut self.limits[usize::from(side == Side::New)]
    }

    /// Reads one limit for each call. Returns whether both are read.
    fn reads(&mut self, pair: &mut Pair, from: Side, source_first: bool) -> bool {
        match (pair.target, pair.source) {
            (Some(_), Some(_)) => return true,
            (None, None) if source_first => pair.source = Some(*self.limit(from)),
            (None, _) => pair.target = Some(*self.limit(from.other())),
            (_, None) => pair.source = Some(*self.limit(from)),
        }
        false
    }

    fn writes(&mut self, read: Read, next: WholeStage) -> Option<Read> {
        if self.stage != read {
            return None;
        }
        self.stage = (read.0 + 1, next);
        Some(self.stage)
    }
}

impl Limits {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn sets(&self, state: &mut State, who: usize) {
        match state.setters[who] {
            Setter::Idle => {
                let (limit, before) = (state.next_limit, state.ended);
                state.next_limit += 1;
                state.sets[who] += 1;
                state.setters[who] = Setter::Sets { limit, by: state.known[who], written: 0, before };
            }
            Setter::Sets { limit, by, written, before } => {
                let phase = by.1.stage.phase;
                let first = phase.token();
                let side = if written == 0 { first } else { first.other() };
                if phase.spans().has(side) {
                    *state.limit(side) = limit;
                }
                state.setters[who] = Setter::Sets { limit, by, written: written + 1, before };
                if written == 1 {
                    state.ended |= bit(limit);
                    state.replaced |= before;
                    state.setters[who] = Setter::Idle;
                }
            }
        }
    }

    fn may_acknowledge(&self, state: &State, who: usize) -> bool {
        let (version, whole) = state.known[who];
        let under_way = usize::from(state.setters[who] != Setter::Idle);
        let may = whole.values.may_acknowledge(under_way) || self.has(Fault::AcknowledgesAtOnce);
        may && state.acknowledged[who] != version
    }

    fn goes(&self, state: &mut State, who: usize, way: Way) {
        let read = state.stage;
        // The members are listed after the stage was written.
        let acknowledged = state.acknowledged.iter().map(|version| Some(*version));
        state.operators[who] = match read.1.step(&read.0, acknowledged, way) {
            WholeStep::Write(next) => {
                let begins = (read.1.stage.phase, next.stage.phase) == (MovePhase::Old, MovePhase::BothByOld);
                match begins && !self.has(Fault::CopiesNothing) {
                    true => Operator::Copies { read, next, pair: UNREAD },
                    false => Operator::Writes { read, next },
                }
            }
            WholeStep::Mirror { then: next, .. } => match state.writes(read, read.1) {
                Some(own) if self.has(Fault::CopiesNothing) => Operator::Compares { own, next, pair: UNREAD },
                Some(read) => Operator::Copies { read, next, pair: UNREAD },
                None => Operator::Idle,
            },
            WholeStep::Waits | WholeStep::Ends | WholeStep::NoEpoch => Operator::Idle,
        };
    }

    fn operator(&self, state: &mut State, who: usize) {
        let source_first = self.has(Fault::ReadsTheSourceFirst);
        state.operators[who] = match state.operators[who] {
            Operator::Idle => Operator::Idle,
            Operator::Copies { read, next, mut pair } => {
                let from = read.1.values.side();
                if !state.reads(&mut pair, from, source_first) {
                    Operator::Copies { read, next, pair }
                } else if pair.target == pair.source {
                    match read.1.values.open() {
                        Some(_) => Operator::Writes { read, next },
                        None => match state.writes(read, read.1) {
                            Some(own) => Operator::Compares { own, next, pair: UNREAD },
                            None => Operator::Idle,
                        },
                    }
                } else if !pair.looked && !self.has(Fault::LooksNotAgain) {
                    match state.stage == read {
                        true => Operator::Copies { read, next, pair: Pair { looked: true, ..pair } },
                        false => Operator::Idle,
                    }
                } else {
                    let to = state.limit(from.other());
                    if Some(*to) == pair.target || self.has(Fault::Overwrites) {
                        *to = pair.source.expect("it was read");
                    }
                    Operator::Copies { read, next, pair: UNREAD }
                }
            }
            Operator::Compares { own, next, .. } if self.has(Fault::CopiesNothing) => {
                Operator::Writes { read: own, next }
            }
            Operator::Compares { own, next, mut pair } => {
                if !state.reads(&mut pair, own.1.values.side(), source_first) {
                    Operator::Compares { own, next, pair }
                } else if pair.target == pair.source {
                    Operator::Writes { read: own, next }
                } else {
                    match state.writes(own, own.1) {
                        Some(read) => Operator::Copies { read, next, pair: UNREAD },
                        None => Operator::Idle,
                    }
                }
            }
            Operator::Writes { read, next } => {
                state.writes(read, next);
                Operator::Idle
            }
        };
    }
}

impl Protocol for Limits {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let stage = (0, self.begins);
        let stands = self.limits[usize::from(self.begins.values.side() == Side::New)];
        let other = self.limits.iter().filter(|limit| **limit != stands);
        vec![State {
            stage,
            limits: self.limits,
            known: vec![stage; self.sets.len()],
            acknowledged: vec![0; self.sets.len()],
            setters: vec![Setter::Idle; self.sets.len()],
            sets: vec![0; self.sets.len()],
            ended: bit(stands),
            // A different limit on the other side is of an earlier use.
            replaced: other.map(|limit| bit(*limit)).sum(),
            next_limit: 3,
            operators: vec![Operator::Idle; self.operators],
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (who, setter) in state.setters.iter().enumerate() {
            if state.known[who] != state.stage {
                steps.push(Step::Learns(who));
            }
            if self.may_acknowledge(state, who) {
                steps.push(Step::Acknowledges(who));
            }
            let begins = state.sets[who] < self.sets[who] && state.known[who].1.values.open().is_some();
            if *setter != Setter::Idle || begins {
                steps.push(Step::Sets(who));
            }
        }
        let may_write = state.stage.0 < self.writes;
        for (who, operator) in state.operators.iter().enumerate() {
            match operator {
                Operator::Idle if may_write => {
                    steps.extend([Step::Goes(who, Way::Forward), Step::Goes(who, Way::Back)]);
                }
                Operator::Idle => {}
                Operator::Compares { own, .. }
                    if state.acknowledged.iter().any(|version| *version != own.0) => {}
                _ => steps.push(Step::Operator(who)),
            }
        }
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Learns(who) => state.known[who] = state.stage,
            Step::Acknowledges(who) => state.acknowledged[who] = state.known[who].0,
            Step::Sets(who) => self.sets(state, who),
            Step::Goes(who, way) => self.goes(state, who, way),
            Step::Operator(who) => self.operator(state, who),
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let limit = state.limits[usize::from(state.stage.1.values.side() == Side::New)];
        (state.replaced & bit(limit) != 0).then_some(Broken::ReadBack)
    }
}

/// From *old*. The new side has a limit of an earlier use.
fn there() -> Limits {
    Limits {
        begins: WholeStage::before(0),
        limits: [1, 2],
        sets: vec![if long() { 2 } else { 1 }],
        operators: 2,
        writes: if long() { 9 } else { 7 },
        fault: None,
    }
}

fn back() -> Limits {
    let stage = Stage { phase: MovePhase::New, epoch: 1 };
    Limits { begins: WholeStage { stage, values: ValuesAt::New }, limits: [1, 1], ..there() }
}

/// One operator, and more limits to store.
fn busy(of: Limits) -> Limits {
    Limits { sets: if long() { vec![2, 2] } else { vec![2, 1] }, operators: 1, ..of }
}

fn planted(name: &str, bounds: Limits, fault: Fault) {
    assert_found_as(name, Limits { fault: Some(fault), ..bounds }, Broken::ReadBack);
}

#[test]
fn the_side_of_the_tokens_never_has_a_limit_that_was_replaced() {
    assert_sound("limits: two operators, there", there());
    assert_sound("limits: two operators, back", back());
    assert_sound("limits: two participants, there", busy(there()));
    assert_sound("limits: two participants, back", busy(back()));
}

#[test]
fn limits_that_are_not_copied_are_found() {
    planted("copies nothing", there(), Fault::CopiesNothing);
}

#[test]
fn late_copy_that_overwrites_any_value_is_found() {
    planted("overwrites", there(), Fault::Overwrites);
}

#[test]
fn copy_with_source_read_before_target_is_found() {
    planted("reads the source first", there(), Fault::ReadsTheSourceFirst);
}

#[test]
fn an_operator_that_does_not_look_again_is_found() {
    planted("looks not again", there(), Fault::LooksNotAgain);
}

#[test]
fn a_participant_that_acknowledges_while_it_stores_a_limit_is_found() {
    planted("acknowledges at once", there(), Fault::AcknowledgesAtOnce);
}
