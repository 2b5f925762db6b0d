use std::fmt;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::Instant;

use latchwork_core::Connector;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

use crate::bounds::NOISE;
use crate::case::Case;
use crate::cases;
use crate::harness::play;
use crate::report::{self, Row};
use crate::roles::contender_main;
use crate::runtime::runtime;
use crate::selection::{self, Selection};
use crate::testbed::Testbed;
use crate::witness;

/// More than cores, because most cases wait. With 40 on each of three servers, a server on two cores was
/// silent for longer than a TTL.
const AT_ONCE: usize = 12;
/// A run is short there.
const AT_ONCE_ON_A_TOPOLOGY: usize = 16;

/// The exit code of a run with excused cases and no failure.
pub const EXCUSED: u8 = 3;

/// The testbeds of a run.
#[derive(Clone, Copy)]
pub struct Beds {
    /// For cases at the same time.
    pub shared: &'static dyn Testbed,
    /// For cases that must be alone. Otherwise these stop all others, as cases about the log or metrics always do.
    pub alone: Option<&'static dyn Testbed>,
}

impl fmt::Debug for Beds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beds")
            .field("shared", &self.shared.name())
            .field("alone", &self.alone.is_some())
            .finish()
    }
}

impl From<&'static dyn Testbed> for Beds {
    fn from(shared: &'static dyn Testbed) -> Self {
        Self { shared, alone: None }
    }
}

/// The results.
#[derive(Debug)]
pub struct Ended {
    /// One row for each played case.
    pub rows: Vec<Row>,
    /// Success if all passed.
    pub code: ExitCode,
}

/// Runs the suite against one testbed, as the `main` of a test target. The arguments of `cargo test` and
/// [`selection::VARIABLE`](crate::selection::VARIABLE) choose the cases.
///
/// ```no_run
/// // tests/conformance.rs
/// fn main() -> std::process::ExitCode {
///     latchwork_conformance::main(vec![latchwork_core::memory::connector()], |_runtime| {
///         Ok(Box::new(latchwork_conformance::testbeds::MemoryTestbed::new()))
///     })
/// }
/// ```
pub fn main(
    connectors: Vec<Arc<dyn Connector>>,
    open: impl FnOnce(&Runtime) -> Result<Box<dyn Testbed>, String>,
) -> ExitCode {
    if let Some(code) = contender_main(&connectors) {
        return code;
    }
    let ended = Selection::from_environment().and_then(|selection| {
        let runtime = runtime(false);
        let testbed =
            open(&runtime).map_err(|error| format!("the backend under test does not open: {error}"))?;
        let testbed: &'static dyn Testbed = Box::leak(testbed);
        let ended = run(Arguments::from_args(), testbed, selection.cases());
        runtime.block_on(testbed.close());
        report::store(&ended.rows).map_err(|error| format!("the results cannot be stored: {error}"))?;
        Ok(ended.code)
    });
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Runs `cases`, each as a test. A long pause of the machine excuses a [clock case](Case::clock), which plays again at the end; a
/// second excuse ends the run with [`EXCUSED`].
pub fn run(mut arguments: Arguments, beds: impl Into<Beds>, mut cases: Vec<Case>) -> Ended {
    let stage = Arc::new(Stage::new(beds.into()));
    witness::begin();
    if !arguments.list {
        stage.warm_up();
    }
    // A waiting case takes a thread, but no processor. Cases that stop all others come when few are left.
    cases.sort_by_key(|case| (stage.stops_others(case), !case.alone, !case.lasting));
    let waiting = cases.iter().filter(|case| case.alone && !stage.stops_others(case)).count();
    arguments.test_threads.get_or_insert(at_once(stage.beds.shared) + waiting);
    let trials = cases.into_iter().map(|case| {
        let stage = Arc::clone(&stage);
        let name = format!("{}::{}", stage.beds.shared.name(), case.title());
        Trial::test(name, move || stage.play(&case).map_err(Failed::from))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let again = stage.play_excused();
    let code = match (conclusion.has_failed() || again == Again::Failed, again) {
        (true, _) => ExitCode::FAILURE,
        (false, Again::Excused) => ExitCode::from(EXCUSED),
        (false, _) => ExitCode::SUCCESS,
    };
    Ended { rows: std::mem::take(&mut *lock(&stage.rows)), code }
}

impl Ended {
    /// Returns whether all passed.
    pub fn has_passed(&self) -> bool {
        self.code == ExitCode::SUCCESS
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Passed,
    Excused,
    Failed,
}

struct Stage {
    beds: Beds,
    rows: Mutex<Vec<Row>>,
    excused: Mutex<Vec<Case>>,
    /// A case that must be alone is the writer, other cases are readers.
    quiet: RwLock<()>,
    alone: Mutex<()>,
}

impl Stage {
    fn new(beds: Beds) -> Self {
        Self {
            beds,
            rows: Mutex::default(),
            excused: Mutex::default(),
            quiet: RwLock::default(),
            alone: Mutex::default(),
        }
    }

    /// On a busy machine, the first requests to a new server take longer than some leases last.
    fn warm_up(&self) {
        let first = cases::all().into_iter().find(|case| case.name == "node_wait_a_handoff_is_an_event");
        let first = first.expect("a case of the suite");
        for testbed in
            [Some(self.beds.shared), self.beds.alone].into_iter().flatten().filter(|bed| !bed.is_paused())
        {
            if let Err(why) = play(testbed, &first) {
                eprintln!("{}: the warm-up case failed: {why}", testbed.name());
            }
        }
    }

    fn stops_others(&self, case: &Case) -> bool {
        case.alone && (self.beds.alone.is_none() || case.clause.starts_with("SEEN-"))
    }

    fn play(&self, case: &Case) -> Result<(), String> {
        let (outcome, row) = self.play_once(case);
        let is_excused = row.excused.is_some();
        lock(&self.rows).push(row);
        if is_excused {
            lock(&self.excused).push(*case);
            return Ok(());
        }
        outcome
    }

    fn play_excused(&self) -> Again {
        let mut again = Again::Passed;
        for case in std::mem::take(&mut *lock(&self.excused)) {
            let (outcome, row) = self.play_once(&case);
            let name = format!("{}::{}", row.backend, row.title());
            again = match (&outcome, &row.excused) {
                (Ok(()), _) => again,
                (Err(_), Some(_)) if again != Again::Failed => Again::Excused,
                _ => Again::Failed,
            };
            match outcome {
                Ok(()) => eprintln!("excused, and passed when it was played once more: {name}"),
                Err(why) => eprintln!("excused, and failed when it was played once more: {name}: {why}"),
            }
            lock(&self.rows).push(row);
        }
        again
    }

    fn play_once(&self, case: &Case) -> (Result<(), String>, Row) {
        let timed = |testbed| {
            let started = Instant::now();
            (play(testbed, case), started)
        };
        let shared = self.beds.shared;
        let (outcome, started) = match self.beds.alone {
            _ if self.stops_others(case) => {
                let _alone = self.quiet.write().unwrap_or_else(PoisonError::into_inner);
                timed(shared)
            }
            Some(alone) if case.alone => {
                let _turn = lock(&self.alone);
                let _shared = self.quiet.read().unwrap_or_else(PoisonError::into_inner);
                timed(alone)
            }
            _ => {
                let _shared = self.quiet.read().unwrap_or_else(PoisonError::into_inner);
                timed(shared)
            }
        };
        let still = witness::stood_still_since(started);
        let stood_still = !shared.is_paused() && still > NOISE;
        let outcome = outcome.map_err(|why| match stood_still {
            true => {
                format!("{why}\n(the machine paused for {still:.1?}; the bounds of cases allow {NOISE:?})")
            }
            false => why,
        });
        let mut row = Row::new(shared.name(), case, &outcome, started.elapsed());
        if outcome.is_err() && stood_still && is_excusable(case) {
            row.excused = Some(format!("the machine paused for {still:.1?}"));
        }
        (outcome.map(drop), row)
    }
}

/// The other cases measure the library's own effect on the machine.
fn is_excusable(case: &Case) -> bool {
    case.keeps_time() && !case.alone && case.clause != "LEASE-CLOSE"
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn at_once(testbed: &dyn Testbed) -> usize {
    match testbed.is_paused() {
        true => thread::available_parallelism().map_or(1, usize::from),
        false if selection::is_topology(testbed.name()) => AT_ONCE_ON_A_TOPOLOGY,
        false => AT_ONCE,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::adapter::Adapter;
    use crate::testbeds::MemoryTestbed;

    fn case(title: &str) -> Case {
        cases::all().into_iter().find(|case| case.title() == title).expect("a case")
    }

    #[test]
    fn only_a_case_in_real_time_is_excused() {
        assert!(is_excusable(&case("lease_expiry_frees_the_holds_of_a_dead_client")));
        for title in [
            "lease_expiry_frees_the_holds_of_a_dead_client@semaphore-1",
            "lease_close_has_a_margin",
            "mutex_excludes",
            "seen_outage_is_counted",
        ] {
            assert!(!is_excusable(&case(title)), "{title}");
        }
        assert!(cases::all().iter().all(|case| !(case.alone && is_excusable(case))));
    }

    fn excused(play: for<'a> fn(&'a crate::Context) -> futures_util::future::BoxFuture<'a, ()>) -> Stage {
        let testbed: &'static dyn Testbed = Box::leak(Box::new(MemoryTestbed::new()));
        let stage = Stage::new(testbed.into());
        lock(&stage.excused).push(Case { play, adapter: Adapter::Mutex, ..case("mutex_excludes") });
        stage
    }

    #[test]
    fn excused_case_plays_once_more() {
        static PLAYS: AtomicUsize = AtomicUsize::new(0);
        let stage = excused(|_| Box::pin(async { _ = PLAYS.fetch_add(1, Ordering::AcqRel) }));
        assert_eq!(stage.play_excused(), Again::Passed);
        assert_eq!(PLAYS.load(Ordering::Acquire), 1);
        assert_eq!(lock(&stage.rows).len(), 1, "the second play has a separate row");
    }

    #[test]
    fn excused_case_that_fails_without_a_pause_has_failed() {
        let stage = excused(|_| Box::pin(async { panic!("the control fails") }));
        assert_eq!(stage.play_excused(), Again::Failed);
        assert!(lock(&stage.rows)[0].failure.as_ref().is_some_and(|why| why.contains("the control fails")));
    }
}
