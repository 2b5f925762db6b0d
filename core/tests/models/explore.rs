//! Two ways to explore a model: every state breadth-first (stateright), or long seeded walks.
//!
//! The walks are not stateright's simulation, which ends a run at the first known state. A walk can be
//! repeated with its seed and number of steps.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property, Representative};

/// The damage that the models look for. The model must find a planted fault as one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    /// Two clients believe that they hold, and their claims exclude each other.
    TwoHolders,
    /// An exclusive holder has a token that is not above all earlier ones.
    TokenBack,
    /// A node was admitted although an earlier, unexpired node waits.
    Overtaken,
    /// A leave removed the node of another attempt.
    ForeignLeave,
    /// One attempt has two nodes.
    TwoNodes,
    /// A node has no owner any more, and no client will remove it.
    Ghost,
    /// A node is admitted and its client sleeps: no message was lost, and none is on its way to it.
    Uninformed,
    /// One departure woke more waiters than the bound.
    Crowd,
    /// A fault-free run from here never serves a live waiter, or leaves a node.
    Stuck,
    /// A fault-free run from here serves a live waiter later than the bound.
    Slow,
    /// A client counts on a node that the server has given up.
    Believes,
    /// A client that saw the loss believes again that it holds.
    Revived,
    /// A count is not the sum of the applied operations, or its writer got a wrong answer.
    Miscounted,
    /// A read shows less than was confirmed, or shown by a read, before it began.
    ReadBack,
    /// Fewer members than a barrier has parties pass it together.
    PassedAlone,
    /// A member waits on after a passage that counted it.
    LeftBehind,
    /// A client works below the layout in the stamp.
    TooOld,
    /// A plain client works while a move needs it to be away.
    Outside,
    /// A stamp went back to an earlier layout.
    StampBack,
}

/// Returns the first damage of the list. A model may judge `only` one kind of damage.
pub(crate) fn damage<const N: usize>(only: Option<Broken>, found: [(bool, Broken); N]) -> Option<Broken> {
    let judged = |broken| only.is_none_or(|only| only == broken);
    found.into_iter().find(|(is_there, broken)| *is_there && judged(*broken)).map(|(_, broken)| broken)
}

/// A model of a protocol.
pub(crate) trait Protocol: Clone + Debug + Send + Sync + 'static {
    type State: Clone + Debug + Hash + PartialEq + Send + Sync;
    type Action: Clone + Debug + PartialEq;

    fn init_states(&self) -> Vec<Self::State>;
    /// Adds the possible steps of a state.
    fn actions(&self, state: &Self::State, steps: &mut Vec<Self::Action>);
    fn step(&self, state: &mut Self::State, step: Self::Action);
    /// The damage in a state, if any.
    fn verdict(&self, state: &Self::State) -> Option<Broken>;
}

/// Adds a step if it is possible.
pub(crate) fn offer<S>(steps: &mut Vec<S>, possible: bool, step: S) {
    if possible {
        steps.push(step);
    }
}

/// A protocol as stateright sees it, with the only property of every model.
struct Explored<P>(P);

impl<P: Protocol> Model for Explored<P> {
    type State = P::State;
    type Action = P::Action;

    fn init_states(&self) -> Vec<P::State> {
        self.0.init_states()
    }

    fn actions(&self, state: &P::State, steps: &mut Vec<P::Action>) {
        self.0.actions(state, steps);
    }

    fn next_state(&self, before: &P::State, step: P::Action) -> Option<P::State> {
        let mut state = before.clone();
        self.0.step(&mut state, step);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(SOUND, |model: &Self, state| model.0.verdict(state).is_none())]
    }
}

const SOUND: &str = "nothing is broken";

/// A test for each row: the calls that it makes, each with the test's name as the first argument.
macro_rules! tests {
    ($($(#[$about:meta])* $test:ident: $($call:ident($($what:expr),*)),+;)*) => { $(
        $(#[$about])*
        #[test]
        fn $test() {
            $($call(concat!(module_path!(), "::", stringify!($test)), $($what),*);)+
        }
    )* };
}
pub(crate) use tests;

/// A violation and the steps to it.
type Found = (Broken, Vec<String>);

/// Whether `LATCHWORK_LONG` asks for larger bounds.
pub(crate) fn long() -> bool {
    std::env::var_os("LATCHWORK_LONG").is_some_and(|value| value != "0")
}

/// Visits every state within the model's bounds, breadth-first on one thread, so that the trace is
/// a shortest one.
fn exhaustively<P: Protocol>(name: &str, model: P) -> Option<Found> {
    let begun = Instant::now();
    reported(name, begun, Explored(model).checker().finish_when(HasDiscoveries::Any).spawn_bfs().join())
}

/// The same, depth-first. Of all states that differ only in the order of the clients, it visits one. That is
/// sound if the model treats its clients alike. The trace need not be a shortest one.
fn up_to_symmetry<P: Protocol<State: Representative>>(name: &str, model: P) -> Option<Found> {
    let begun = Instant::now();
    let checker = Explored(model).checker().symmetry().finish_when(HasDiscoveries::Any);
    reported(name, begun, checker.spawn_dfs().join())
}

fn reported<P: Protocol>(name: &str, begun: Instant, checker: impl Checker<Explored<P>>) -> Option<Found> {
    let model = &checker.model().0;
    let found = checker.discovery(SOUND).map(|path| {
        let broken = model.verdict(path.last_state()).expect("the discovery is a violation");
        (broken, shown(&path.into_actions()))
    });
    let outcome = found.as_ref().map_or(String::from("nothing broken"), |(broken, trace)| {
        format!("{broken:?} after {} steps", trace.len())
    });
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{name}: {states} states, depth {depth}, {:.1?}: {outcome}: {model:?}", begun.elapsed());
    found
}

fn shown<A: Debug>(trace: &[A]) -> Vec<String> {
    trace.iter().map(|action| format!("{action:?}")).collect()
}

/// Asserts that every state within the bounds is sound. Several rules share an exploration, which
/// runs once.
pub(crate) fn assert_sound<P: Protocol>(name: &str, model: P) {
    sound_once(name, model, exhaustively);
}

/// The same, if clients are interchangeable.
pub(crate) fn assert_sound_up_to_symmetry<P: Protocol<State: Representative>>(name: &str, model: P) {
    sound_once(name, model, up_to_symmetry);
}

fn sound_once<P: Protocol>(name: &str, model: P, explored: fn(&str, P) -> Option<Found>) {
    static RUN: LazyLock<Mutex<HashMap<String, Arc<Mutex<bool>>>>> = LazyLock::new(Mutex::default);
    let bounds = format!("{model:?}");
    let run = Arc::clone(RUN.lock().expect("not poisoned").entry(bounds).or_default());
    let mut sound = run.lock().expect("the exploration that this rule shares is sound");
    if !*sound {
        if let Some((broken, trace)) = explored(name, model) {
            panic!("{name}: {broken:?}\n{}", trace.join("\n"));
        }
        *sound = true;
    }
}

/// Asserts that the planted fault is found as this damage, and prints the trace.
pub(crate) fn assert_found_as<P: Protocol>(name: &str, faulty: P, expected: Broken) {
    found_as(name, exhaustively(name, faulty), expected);
}

/// The same, if clients are interchangeable.
pub(crate) fn assert_found_up_to_symmetry<P>(name: &str, faulty: P, expected: Broken)
where
    P: Protocol<State: Representative>,
{
    found_as(name, up_to_symmetry(name, faulty), expected);
}

fn found_as(name: &str, found: Option<Found>, expected: Broken) {
    let (broken, trace) = found.unwrap_or_else(|| panic!("{name}: the planted fault was not found"));
    println!("  {}", trace.join("\n  "));
    assert_eq!(broken, expected, "{name}");
}

/// Walks `LATCHWORK_STEPS` random steps (by default `steps`) from the seed `LATCHWORK_SEED` (by default from
/// the time of day). Begins at the first state again after every `run` steps, and when no step is possible.
pub(crate) fn walk<P: Protocol>(name: &str, model: &P, run: usize, steps: usize) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("LATCHWORK_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        now.as_secs() ^ u64::from(now.subsec_nanos())
    });
    let steps = if long() { 30 * steps } else { steps };
    let steps = number("LATCHWORK_STEPS").map_or(steps, |steps| usize::try_from(steps).expect("fits"));
    println!("{name}: walking {steps} steps, LATCHWORK_SEED={seed}");
    let (mut random, mut taken) = (Random(seed), 0);
    while taken < steps {
        let (mut state, mut trace) = (model.init_states().remove(0), Vec::new());
        for _ in 0..run {
            let Some(action) = random.step(model, &state) else { break };
            trace.push(action.clone());
            taken += 1;
            model.step(&mut state, action);
            if let Some(broken) = model.verdict(&state) {
                panic!("{name}: {broken:?} with LATCHWORK_SEED={seed}, after\n{}", shown(&trace).join("\n"));
            }
        }
        // Without this the walk of a model that has no step would never end.
        assert!(!trace.is_empty(), "{name}: nothing can happen");
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): a walk must be the same on every machine and with every
/// version.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).expect("fits")).expect("below a usize")
    }

    /// Returns one of the possible steps, or `None` if no step is possible.
    pub(crate) fn step<P: Protocol>(&mut self, model: &P, state: &P::State) -> Option<P::Action> {
        let mut steps = Vec::new();
        model.actions(state, &mut steps);
        (!steps.is_empty()).then(|| steps.swap_remove(self.below(steps.len())))
    }
}
