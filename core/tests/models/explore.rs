//! Two ways to explore a model: every state breadth-first (stateright), or long seeded walks.
//!
//! The walks are our own. Stateright's simulation ends a run at the first state that it saw before,
//! and a seed and a number of steps should be enough to repeat a run.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property, Representative};

/// What the models watch for. The model must find a planted fault as one of these.
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
    /// A count is not the sum of what was applied, or its writer was told something else.
    Miscounted,
    /// A read shows less than was confirmed, or shown by a read, before it began.
    ReadBack,
    /// Fewer members than a barrier has parties pass it together.
    PassedAlone,
    /// A client works below the layout that is stamped.
    TooOld,
    /// A client works beside a move that it takes no part in.
    Outside,
    /// A stamp went back to an earlier layout.
    StampBack,
}

/// A model and what is wrong in a state of it, if anything.
pub(crate) trait Protocol:
    Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>
    + Send
    + Sync
    + 'static
{
    fn verdict(&self, state: &Self::State) -> Option<Broken>;
}

/// The only property of every model.
pub(crate) fn sound<P: Protocol>() -> Vec<Property<P>> {
    vec![Property::always(SOUND, |model: &P, state| model.verdict(state).is_none())]
}

const SOUND: &str = "nothing is broken";

/// A violation and the steps to it.
#[derive(Debug)]
struct Found {
    broken: Broken,
    trace: Vec<String>,
}

/// Whether `LATCHWORK_LONG` asks for larger bounds.
pub(crate) fn long() -> bool {
    std::env::var_os("LATCHWORK_LONG").is_some_and(|value| value != "0")
}

/// Visits every state within the model's bounds, breadth-first on one thread, so that the trace is
/// a shortest one.
fn exhaustively<P: Protocol>(name: &str, model: P) -> Option<Found> {
    let begun = Instant::now();
    reported(name, begun, model.checker().finish_when(HasDiscoveries::Any).spawn_bfs().join())
}

/// The same, depth-first, and of all states that differ only by which client is which, one. That
/// is sound where the model treats its clients alike. The trace need not be a shortest one.
fn up_to_symmetry<P: Protocol<State: Representative>>(name: &str, model: P) -> Option<Found> {
    let begun = Instant::now();
    let checker = model.checker().symmetry().finish_when(HasDiscoveries::Any);
    reported(name, begun, checker.spawn_dfs().join())
}

fn reported<P: Protocol>(name: &str, begun: Instant, checker: impl Checker<P>) -> Option<Found> {
    let found = checker.discovery(SOUND).map(|path| Found {
        broken: checker.model().verdict(path.last_state()).expect("the discovery is a violation"),
        trace: path.into_actions().iter().map(|action| format!("{action:?}")).collect(),
    });
    println!(
        "{name}: {} states, depth {}, {:.1?}{}",
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed(),
        found.as_ref().map_or(String::from(": nothing broken"), |found| format!(
            ": {:?} after {} steps",
            found.broken,
            found.trace.len()
        )),
    );
    found
}

/// Asserts that every state within the bounds is sound. Several rules share an exploration, which
/// runs once.
pub(crate) fn assert_sound<P: Protocol + Debug>(name: &str, model: P) {
    sound_once(name, model, exhaustively);
}

/// The same, where clients are interchangeable.
pub(crate) fn assert_sound_up_to_symmetry<P>(name: &str, model: P)
where
    P: Protocol<State: Representative> + Debug,
{
    sound_once(name, model, up_to_symmetry);
}

fn sound_once<P: Protocol + Debug>(name: &str, model: P, explored: fn(&str, P) -> Option<Found>) {
    static RUN: LazyLock<Mutex<HashMap<String, Arc<Mutex<bool>>>>> = LazyLock::new(Mutex::default);
    let bounds = format!("{model:?}");
    let run = Arc::clone(RUN.lock().expect("not poisoned").entry(bounds).or_default());
    let mut sound = run.lock().expect("the exploration that this rule shares is sound");
    if !*sound {
        if let Some(found) = explored(name, model) {
            panic!("{name}: {:?}\n{}", found.broken, found.trace.join("\n"));
        }
        *sound = true;
    }
}

/// Asserts that the planted fault is found, and prints the trace.
pub(crate) fn assert_found<P: Protocol>(name: &str, faulty: P) {
    found(name, exhaustively(name, faulty));
}

/// The same, and that it is found as this.
pub(crate) fn assert_found_as<P: Protocol>(name: &str, faulty: P, expected: Broken) {
    assert_eq!(found(name, exhaustively(name, faulty)).broken, expected, "{name}");
}

/// The same, where clients are interchangeable.
pub(crate) fn assert_found_up_to_symmetry<P>(name: &str, faulty: P, expected: Broken)
where
    P: Protocol<State: Representative>,
{
    assert_eq!(found(name, up_to_symmetry(name, faulty)).broken, expected, "{name}");
}

fn found(name: &str, found: Option<Found>) -> Found {
    let found = found.unwrap_or_else(|| panic!("{name}: the planted fault was not found"));
    println!("  {}", found.trace.join("\n  "));
    found
}

/// Walks `LATCHWORK_STEPS` random steps (by default `steps`) from the seed `LATCHWORK_SEED` (by
/// default from the time of day). Begins anew after every `run` steps, and where no step is
/// possible.
pub(crate) fn walk<P: Protocol>(name: &str, model: &P, run: usize, steps: usize) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("LATCHWORK_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        now.as_secs() ^ u64::from(now.subsec_nanos())
    });
    let factor = if long() { 30 } else { 1 };
    let steps =
        number("LATCHWORK_STEPS").map_or(steps * factor, |steps| usize::try_from(steps).expect("fits"));
    println!("{name}: walking {steps} steps, LATCHWORK_SEED={seed}");
    let mut random = Random(seed);
    let mut taken = 0;
    while taken < steps {
        let mut state = model.init_states().remove(0);
        let mut trace = Vec::new();
        for _ in 0..run {
            let Some(action) = random.step(model, &state) else { break };
            trace.push(action.clone());
            taken += 1;
            if let Some(next) = model.next_state(&state, action) {
                state = next;
            }
            if let Some(broken) = model.verdict(&state) {
                let trace: Vec<_> = trace.iter().map(|action| format!("{action:?}")).collect();
                panic!("{name}: {broken:?} with LATCHWORK_SEED={seed}, after\n{}", trace.join("\n"));
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

    /// One of the steps that are possible, if any is.
    pub(crate) fn step<P: Protocol>(&mut self, model: &P, state: &P::State) -> Option<P::Action> {
        let mut steps = Vec::new();
        model.actions(state, &mut steps);
        (!steps.is_empty()).then(|| steps.swap_remove(self.below(steps.len())))
    }
}
