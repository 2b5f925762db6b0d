//! The model of a semaphore's stored limit while a move goes there and back, over
//! [`MovePhase::limits_from`], the code that decides from which side it is copied.
//!
//! Participants store limits, each write and each read of the stage a step of its own; they acknowledge a
//! stage as they learn of it, and may learn late. Operators read the stage, copy, and write the next one.
//! One that sleeps, or dies, takes no step. Each limit that is stored is another one.
//!
//! A state is broken if the side of the tokens has a limit that a later one had replaced.

use latchwork_core::decide::moving::{MovePhase, Side, Stage, Step as Decision, Way};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, assert_found_as, assert_sound, long, sound};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// The operator copies nothing.
    CopiesNothing,
    /// It copies from the old side, whoever gives the tokens.
    CopiesFromOld,
    /// It writes over whatever is stored.
    Overwrites,
    /// A participant writes the side first to which limits are copied.
    OtherSideFirst,
    /// It does not look at the stage behind its writes.
    LooksNotAgain,
    /// It looks, and is content where it has written all sides that the stage spans.
    LooksAtSides,
}

#[derive(Clone, Debug)]
struct Limits {
    /// How many limits each participant stores.
    sets: Vec<u8>,
    operators: usize,
    /// How often the stage is written.
    writes: u8,
    fault: Option<Fault>,
}

/// A stage, and which write it was.
type Read = (u8, MovePhase);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Setter {
    Idle,
    /// It began by this stage, and has written so many sides. `before`: the limits whose storing had ended
    /// when it began, by their bits.
    Sets {
        limit: u8,
        by: Read,
        written: u8,
        before: u16,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operator {
    Idle,
    /// It copies before this next phase: the limit that it has read on the source, and then on the target.
    Copies {
        read: Read,
        next: MovePhase,
        source: Option<u8>,
        target: Option<u8>,
    },
    Writes {
        read: Read,
        next: MovePhase,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    stage: Read,
    // Of the old side and of the new one. 0: none.
    limits: [u8; 2],
    // What each participant knows, and has acknowledged.
    known: Vec<Read>,
    setters: Vec<Setter>,
    sets: Vec<u8>,
    // The limits whose storing has ended, and those that a later one has replaced, by their bits.
    ended: u16,
    replaced: u16,
    next_limit: u8,
    operators: Vec<Operator>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Learns(usize),
    Sets(usize),
    Goes(usize, Way),
    Operator(usize),
}

fn bit(limit: u8) -> u16 {
    1 << limit
}

fn index(side: Side) -> usize {
    usize::from(side == Side::New)
}

impl State {
    fn limit(&mut self, side: Side) -> &mut u8 {
        &mut self.limits[index(side)]
    }
}

impl Limits {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn sets(&self, state: &mut State, who: usize) {
        let known = state.known[who];
        match state.setters[who] {
            Setter::Idle => {
                let (limit, before) = (state.next_limit, state.ended);
                state.next_limit += 1;
                state.sets[who] += 1;
                state.setters[who] = Setter::Sets { limit, by: known, written: 0, before };
            }
            Setter::Sets { limit, by, written, before } => {
                let phase = by.1;
                let first = match self.has(Fault::OtherSideFirst) {
                    true => phase.token().other(),
                    false => phase.token(),
                };
                if written < 2 {
                    let side = if written == 0 { first } else { first.other() };
                    if phase.spans().has(side) {
                        *state.limit(side) = limit;
                    }
                    state.setters[who] = Setter::Sets { limit, by, written: written + 1, before };
                    return;
                }
                let now = if self.has(Fault::LooksNotAgain) { by } else { state.stage };
                if now == state.stage {
                    state.known[who] = now;
                }
                let stands = match self.has(Fault::LooksAtSides) {
                    true => phase.spans().cover(now.1.spans()),
                    false => now == by,
                };
                if stands {
                    state.ended |= bit(limit);
                    state.replaced |= before;
                    state.setters[who] = Setter::Idle;
                } else {
                    state.setters[who] = Setter::Sets { limit, by: now, written: 0, before };
                }
            }
        }
    }

    fn goes(&self, state: &mut State, who: usize, way: Way) {
        let read = state.stage;
        // The members are listed behind the stage.
        let acknowledged = state.known.iter().map(|known| Some(known.0));
        let step = Stage { phase: read.1, epoch: 0 }.step(&read.0, acknowledged, way);
        let Decision::Write(Stage { phase: next, .. }) = step else { return };
        state.operators[who] = match read.1.limits_from(next).filter(|_| !self.has(Fault::CopiesNothing)) {
            Some(_) => Operator::Copies { read, next, source: None, target: None },
            None => Operator::Writes { read, next },
        };
    }

    fn operator(&self, state: &mut State, who: usize) {
        state.operators[who] = match state.operators[who] {
            Operator::Idle => Operator::Idle,
            Operator::Copies { read, next, source, target } => {
                let from = match self.has(Fault::CopiesFromOld) {
                    true => Side::Old,
                    false => read.1.token(),
                };
                match (source, target) {
                    (None, _) => Operator::Copies { read, next, source: Some(*state.limit(from)), target },
                    (Some(source), None) => match *state.limit(from.other()) {
                        target if target == source || source == 0 => Operator::Writes { read, next },
                        target => Operator::Copies { read, next, source: Some(source), target: Some(target) },
                    },
                    (Some(source), Some(target)) => {
                        if *state.limit(from.other()) == target || self.has(Fault::Overwrites) {
                            *state.limit(from.other()) = source;
                        }
                        Operator::Copies { read, next, source: None, target: None }
                    }
                }
            }
            Operator::Writes { read, next } => {
                if state.stage == read {
                    state.stage = (read.0 + 1, next);
                }
                Operator::Idle
            }
        };
    }
}

impl Model for Limits {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let stage = (0, MovePhase::Old);
        vec![State {
            stage,
            // The new side has one of an earlier use.
            limits: [1, 2],
            known: vec![stage; self.sets.len()],
            setters: vec![Setter::Idle; self.sets.len()],
            sets: vec![0; self.sets.len()],
            ended: bit(1),
            replaced: bit(2),
            next_limit: 3,
            operators: vec![Operator::Idle; self.operators],
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (who, setter) in state.setters.iter().enumerate() {
            if state.known[who] != state.stage {
                steps.push(Step::Learns(who));
            }
            if *setter != Setter::Idle || state.sets[who] < self.sets[who] {
                steps.push(Step::Sets(who));
            }
        }
        for (who, operator) in state.operators.iter().enumerate() {
            match operator {
                Operator::Idle if state.stage.0 < self.writes => {
                    steps.extend([Step::Goes(who, Way::Forward), Step::Goes(who, Way::Back)]);
                }
                Operator::Idle => {}
                _ => steps.push(Step::Operator(who)),
            }
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Learns(who) => state.known[who] = state.stage,
            Step::Sets(who) => self.sets(&mut state, who),
            Step::Goes(who, way) => self.goes(&mut state, who, way),
            Step::Operator(who) => self.operator(&mut state, who),
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Protocol for Limits {
    fn verdict(&self, state: &State) -> Option<Broken> {
        let limit = state.limits[index(state.stage.1.token())];
        (state.replaced & bit(limit) != 0).then_some(Broken::ReadBack)
    }
}

fn bounds() -> Limits {
    Limits { sets: vec![2], operators: 2, writes: if long() { 8 } else { 6 }, fault: None }
}

fn two() -> Limits {
    Limits { sets: vec![1, 1], operators: 1, ..bounds() }
}

fn planted(name: &str, fault: Fault) {
    assert_found_as(name, Limits { fault: Some(fault), ..bounds() }, Broken::ReadBack);
}

#[test]
fn the_side_of_the_tokens_never_has_a_limit_that_was_replaced() {
    assert_sound("limits: two operators", bounds());
    assert_sound("limits: two participants", two());
}

#[test]
fn limits_that_are_not_copied_are_found() {
    planted("copies nothing", Fault::CopiesNothing);
}

#[test]
fn limits_that_are_copied_from_the_wrong_side_are_found() {
    planted("copies from the old side", Fault::CopiesFromOld);
}

#[test]
fn a_late_copy_over_whatever_is_stored_is_found() {
    planted("overwrites", Fault::Overwrites);
}

#[test]
fn a_participant_that_writes_the_other_side_first_is_found() {
    planted("the other side first", Fault::OtherSideFirst);
}

#[test]
fn a_participant_that_does_not_look_again_is_found() {
    planted("looks not again", Fault::LooksNotAgain);
}

#[test]
fn a_participant_that_looks_at_the_sides_alone_is_found() {
    planted("looks at the sides", Fault::LooksAtSides);
}
