//! Runs the cases of a testbed, each as a separate test.

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

/// The number of cases that run at once on a real server: more than the number of cores, because most of them wait. With 40 on
/// each of three servers, a server on two cores was silent for longer than the TTL of a lease.
const AT_ONCE: usize = 12;
/// The same on a topology: a run is short there.
const AT_ONCE_ON_A_TOPOLOGY: usize = 16;

/// The exit code of a run in which no case failed, but a case was excused and has no other result.
pub const EXCUSED: u8 = 3;

/// The testbeds of a run.
#[derive(Clone, Copy)]
pub struct Beds {
    /// The testbed of cases that run at the same time.
    pub shared: &'static dyn Testbed,
    /// A server for the cases that must be alone on it. Without it, such a case stops all others. A case about the log or the
    /// metrics always stops all others, because these belong to the whole process.
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

/// The results of a run.
#[derive(Debug)]
pub struct Ended {
    /// The result of each case that was not filtered out.
    pub rows: Vec<Row>,
    /// Success if each case passed.
    pub code: ExitCode,
}

/// Runs the suite against one testbed, as the `main` of a test target with `harness = false`. A backend crate needs nothing
/// more. The arguments of `cargo test` and [`selection::VARIABLE`](crate::selection::VARIABLE) choose the cases. The suite
/// starts the same program again for a case with client processes.
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

/// Runs `cases`, each as a separate test.
///
/// A pause of the machine that is longer than the bounds of a [clock case](Case::clock) allow excuses the failure of the
/// case. An excused case plays once more at the end. The run ends with [`EXCUSED`] if it is excused again.
pub fn run(mut arguments: Arguments, beds: impl Into<Beds>, mut cases: Vec<Case>) -> Ended {
    let stage = Arc::new(Stage::new(beds.into()));
    witness::begin();
    if !arguments.list {
        stage.warm_up();
    }
    // The longest first, since the run waits for the case that ends last. A waiting case that must be alone takes a
    // thread of the harness, but no processor. A case that stops all others comes at the end, when few are left.
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
    /// Returns whether each case passed.
    pub fn has_passed(&self) -> bool {
        self.code == ExitCode::SUCCESS
    }
}

/// The result of the second play of the excused cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Passed,
    Excused,
    Failed,
}

/// The servers of a run, and the results of its cases.
struct Stage {
    beds: Beds,
    rows: Mutex<Vec<Row>>,
    excused: Mutex<Vec<Case>>,
    /// Cases that may run with others hold it as readers. A case that must be alone on the shared server holds it as writer.
    quiet: RwLock<()>,
    /// Held by the case that uses the server for single cases.
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

    /// Plays a case on each server before the others begin. A new server loads its code with its first requests. On a busy
    /// machine that takes longer than some leases last.
    fn warm_up(&self) {
        let first = cases::all().into_iter().find(|case| case.name == "node_wait_a_handoff_is_an_event");
        let first = first.expect("a case of the suite");
        for testbed in
            [Some(self.beds.shared), self.beds.alone].into_iter().flatten().filter(|bed| !bed.is_paused())
        {
            // The result does not count: the cases that follow meet the same fault.
            if let Err(why) = play(testbed, &first) {
                eprintln!("{}: the warm-up case failed: {why}", testbed.name());
            }
        }
    }

    /// Returns whether no other case of this process may play at the same time.
    fn stops_others(&self, case: &Case) -> bool {
        case.alone && (self.beds.alone.is_none() || case.clause.starts_with("SEEN-"))
    }

    /// Plays a case in its place, and stores its row. [`play_excused`](Self::play_excused) plays an excused one again.
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

    /// Plays the excused cases once more, one by one, now that the other cases have ended.
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

    /// Returns the outcome and its row. The row says if a pause of the machine excuses a failure.
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
        // A paused clock does not advance during a pause of the machine.
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

/// Whether a pause of the machine excuses the failure of a case. Cases about load, a close or being alone measure what
/// the library does to the machine, so nothing excuses them.
fn is_excusable(case: &Case) -> bool {
    case.keeps_time() && !case.alone && case.clause != "LEASE-CLOSE"
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of cases that run at once on a testbed.
fn at_once(testbed: &dyn Testbed) -> usize {
    match testbed.is_paused() {
        // These cases compute all the time.
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

    /// A stage on memory, with this case to play once more after an excuse.
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
