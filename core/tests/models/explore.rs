//! Two ways to explore a model: every state (stateright), or long random walks. A walk is repeated with its
//! seed and number of steps. stateright's own simulation ends a run at the first known state.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property, Representative};

/// The damage that a model finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    /// Two clients with conflicting claims believe that they hold.
    TwoHolders,
    /// A token of an exclusive holder is not above all earlier ones.
    TokenBack,
    /// A node was admitted although an earlier node waits and has not expired.
    Overtaken,
    /// A leave removed the node of another attempt.
    ForeignLeave,
    /// One attempt has two nodes.
    TwoNodes,
    /// A node has no owner, and no client will remove it.
    Ghost,
    /// A node is admitted, and its client sleeps although no message was lost or is on its way.
    Uninformed,
    /// A departure woke more waiters than the bound.
    Crowd,
    /// A run without faults from here does not serve a live waiter, or leaves a node.
    Stuck,
    /// A run without faults from here serves a live waiter later than the bound.
    Slow,
    /// A client counts on a node that the server has given up.
    Believes,
    /// A client that saw the loss believes again that it holds.
    Revived,
    /// A count is not the sum of the applied operations, or a writer got a wrong answer.
    Miscounted,
    /// A read shows less than was confirmed or shown before it began.
    ReadBack,
    /// Fewer members than parties pass a barrier together.
    PassedAlone,
    /// A member waits on after a passage that counted it.
    LeftBehind,
    /// A client works below the layout in the stamp.
    TooOld,
    /// A plain client works during a phase that needs it to be away.
    Outside,
    /// A stamp went back to an earlier layout.
    StampBack,
}

/// Returns the first damage, or the first of the kind `only`.
pub(crate) fn damage<const N: usize>(only: Option<Broken>, found: [(bool, Broken); N]) -> Option<Broken> {
    let judged = |broken| only.is_none_or(|only| only == broken);
    found.into_iter().find(|(is_there, broken)| *is_there && judged(*broken)).map(|(_, broken)| broken)
}

pub(crate) trait Protocol: Clone + Debug + Send + Sync + 'static {
    type State: Clone + Debug + Hash + PartialEq + Send + Sync;
    type Action: Clone + Debug + PartialEq;

    fn init_states(&self) -> Vec<Self::State>;
    fn actions(&self, state: &Self::State, steps: &mut Vec<Self::Action>);
    fn step(&self, state: &mut Self::State, step: Self::Action);
    fn verdict(&self, state: &Self::State) -> Option<Broken>;
}

pub(crate) fn offer<S>(steps: &mut Vec<S>, possible: bool, step: S) {
    if possible {
        steps.push(step);
    }
}

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

/// A test for each row. Each of its calls gets the test's name as the first argument.
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

type Found = (Broken, Vec<String>);

pub(crate) fn long() -> bool {
    std::env::var_os("LATCHWORK_LONG").is_some_and(|value| value != "0")
}

/// Visits every state breadth-first on one thread, so that the trace is a shortest one.
fn exhaustively<P: Protocol>(name: &str, model: P) -> Option<Found> {
    let begun = Instant::now();
    reported(name, begun, Explored(model).checker().finish_when(HasDiscoveries::Any).spawn_bfs().join())
}

/// Visits depth-first one of all states that differ only in the order of the clients. That is sound if the
/// model treats all clients alike. The trace need not be a shortest one.
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

/// Asserts that every state within the bounds is sound. Several rules share one exploration.
pub(crate) fn assert_sound<P: Protocol>(name: &str, model: P) {
    sound_once(name, model, exhaustively);
}

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

pub(crate) fn assert_found_as<P: Protocol>(name: &str, faulty: P, expected: Broken) {
    found_as(name, exhaustively(name, faulty), expected);
}

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

/// Walks `LATCHWORK_STEPS` steps (default `steps`) from `LATCHWORK_SEED` (default: the time). After `run`
/// steps, or if no step is possible, it begins again.
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
        // Otherwise the walk of a model without steps would never end.
        assert!(!trace.is_empty(), "{name}: nothing can happen");
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014), so that a walk is the same on every machine and with every version.
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

    pub(crate) fn step<P: Protocol>(&mut self, model: &P, state: &P::State) -> Option<P::Action> {
        let mut steps = Vec::new();
        model.actions(state, &mut steps);
        (!steps.is_empty()).then(|| steps.swap_remove(self.below(steps.len())))
    }
}
