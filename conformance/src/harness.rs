//! Runs the cases of a testbed, each as its own reported test.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use latchwork_core::Connector;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Builder, Runtime};

use crate::adapter::Adapter;
use crate::bounds::NOISE;
use crate::case::Case;
use crate::contender::contend;
use crate::context::Context;
use crate::order::{self, Order};
use crate::played::Played;
use crate::report::{self, Row};
use crate::selection::{self, Selection};
use crate::testbed::Testbed;
use crate::witness;

/// No case may take longer, on a busy machine either; a paused clock runs fast.
const LIMIT: Duration = Duration::from_secs(300);
/// Nor one of the long tier.
const LONG_LIMIT: Duration = Duration::from_secs(600);

/// What a case that took too long may need to say so.
const ENDING: Duration = Duration::from_secs(30);

/// How many cases run at once on a real server: far more than there are cores, since most of them wait.
const AT_ONCE: usize = 40;
/// The same on a topology, where a run is short and each case talks to several servers.
const AT_ONCE_ON_A_TOPOLOGY: usize = 16;

/// The exit code of a run in which no case failed, but a case was excused and has no other result.
pub const EXCUSED: u8 = 3;

/// The testbeds of a run.
#[derive(Clone, Copy)]
pub struct Beds {
    /// Where cases play next to each other.
    pub shared: &'static dyn Testbed,
    /// A server for the cases that need one for themselves. Without it, such a case stops all others. A case about the
    /// log or the metrics stops all others in any case: these are of the whole process.
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

/// What became of a run.
#[derive(Debug)]
pub struct Ended {
    /// The result of each case that was not filtered out.
    pub rows: Vec<Row>,
    /// Zero when each case passed.
    pub code: ExitCode,
}

/// Runs the suite against one testbed, as the `main` of a test target with `harness = false`: all that a backend
/// crate adds. Understands the arguments of `cargo test`, and
/// [`selection::VARIABLE`](crate::selection::VARIABLE). The suite starts the same program again as a client process
/// when a case asks for one.
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
            open(&runtime).map_err(|error| format!("the backend under test cannot be opened: {error}"))?;
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

/// Acts as a contender when the suite started this process as one.
pub fn contender_main(connectors: &[Arc<dyn Connector>]) -> Option<ExitCode> {
    contended(connectors).map(|ended| if ended { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Acts as a contender, and ends the process, when a test of the program started this process as one. To be called by a
/// test `contender` at the top level of a program of the standard test harness.
pub fn contender_test(connectors: &[Arc<dyn Connector>]) {
    if let Some(ended) = contended(connectors) {
        // The harness would print a result behind the events.
        std::process::exit(if ended { 0 } else { 1 });
    }
}

/// Whether this process has ended in order as a contender. `None` when it is none.
fn contended(connectors: &[Arc<dyn Connector>]) -> Option<bool> {
    let order = match Order::from_environment()? {
        Ok(order) => order,
        Err(error) => {
            eprintln!("{}: {error}", order::VARIABLE);
            return Some(false);
        }
    };
    // What goes on in the background when work ends early gets no thread of its own to finish on.
    let runtime = if order.early.is_some() { current_thread() } else { runtime(false) };
    Some(match runtime.block_on(contend(connectors, order)) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("contender: {error}");
            false
        }
    })
}

/// Runs `cases`, each as a test of its own.
///
/// A pause of the machine that is longer than the bounds of a [clock case](Case::clock) allow excuses its failure.
/// An excused case plays once more at the end. The run ends with [`EXCUSED`] when it is excused again.
pub fn run(mut arguments: Arguments, beds: impl Into<Beds>, mut cases: Vec<Case>) -> Ended {
    let stage = Arc::new(Stage::new(beds.into()));
    witness::begin();
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
    /// Whether each case passed.
    pub fn has_passed(&self) -> bool {
        self.code == ExitCode::SUCCESS
    }
}

/// What the second play of the excused cases has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Passed,
    Excused,
    Failed,
}

/// Where the cases of a run play, and what became of them.
struct Stage {
    beds: Beds,
    rows: Mutex<Vec<Row>>,
    excused: Mutex<Vec<Case>>,
    /// Held to read by cases that bear others, and to write by one that must be alone on a shared server.
    quiet: RwLock<()>,
    /// Held by the case that plays on the server for one.
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

    /// Whether no other case of this process may play at the same time.
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

    /// Answers the outcome and its row, which says so if the machine excuses a failure.
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
            true => format!(
                "{why}\n(the machine stood still for {still:.1?}: the bounds of cases allow {NOISE:?})"
            ),
            false => why,
        });
        let mut row = Row::new(shared.name(), case, &outcome, started.elapsed());
        if outcome.is_err() && stood_still && case.is_excusable() {
            row.excused = Some(format!("the machine stood still for {still:.1?}"));
        }
        (outcome.map(drop), row)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many cases run at once on a testbed.
fn at_once(testbed: &dyn Testbed) -> usize {
    match testbed.is_paused() {
        // They compute.
        true => thread::available_parallelism().map_or(1, usize::from),
        false if selection::is_topology(testbed.name()) => AT_ONCE_ON_A_TOPOLOGY,
        false => AT_ONCE,
    }
}

/// Plays one case on a runtime of its own.
///
/// # Errors
/// The message of the failed assertion.
pub fn play(testbed: &'static dyn Testbed, case: &Case) -> Result<Played, String> {
    let (case, limit) = (*case, limit(case.long));
    watched(limit + ENDING, move || {
        play_within(limit, testbed, case.adapter, async |context| (case.play)(context).await)
    })
}

/// A paused clock stands still while anything is busy, so only a real one sees that a case has no
/// end. Its thread is left alone then.
fn watched(
    limit: Duration,
    play: impl FnOnce() -> Result<Played, String> + Send + 'static,
) -> Result<Played, String> {
    let (sender, outcome) = mpsc::sync_channel(1);
    std::thread::spawn(move || sender.send(play()));
    outcome.recv_timeout(limit).unwrap_or_else(|_| Err(format!("no end after {limit:?} of real time")))
}

fn limit(long: bool) -> Duration {
    if long { LONG_LIMIT } else { LIMIT }
}

/// Plays what is no case of the suite, as [`play`] does.
pub(crate) fn play_with(
    testbed: &'static dyn Testbed,
    adapter: Adapter,
    case: impl AsyncFnOnce(&Context),
) -> Result<Played, String> {
    play_within(LIMIT, testbed, adapter, case)
}

/// As [`play_with`], for so long and a while more.
pub(crate) fn play_beside(
    lasts: Duration,
    testbed: &'static dyn Testbed,
    case: impl AsyncFnOnce(&Context),
) -> Result<Played, String> {
    play_within(lasts + LIMIT, testbed, Adapter::Mutex, case)
}

fn play_within(
    limit: Duration,
    testbed: &'static dyn Testbed,
    adapter: Adapter,
    case: impl AsyncFnOnce(&Context),
) -> Result<Played, String> {
    let runtime = runtime(testbed.is_paused());
    let played = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let context =
                Context::open(testbed, adapter).await.map_err(|error| format!("no fixture: {error}"))?;
            let whole = async {
                case(&context).await;
                context.end().await;
                context.assert_nothing_left().await;
                context.played()
            };
            let limit = if testbed.is_paused() { limit * 20 } else { limit };
            tokio::time::timeout(limit, whole).await.map_err(|_| format!("took longer than {limit:?}"))
        })
    }));
    // What a case leaves running (a backend's tasks after a crash) must not hold up the next.
    runtime.shutdown_background();
    played.unwrap_or_else(|panic| Err(message(&*panic)))
}

fn message(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text.clone(),
        (_, Some(text)) => (*text).to_owned(),
        _ => "a panic without a message".to_owned(),
    }
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime starts")
}

fn runtime(paused: bool) -> Runtime {
    let mut builder = if paused { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    if paused {
        builder.start_paused(true);
    } else {
        builder.worker_threads(2);
    }
    builder.enable_all().build().expect("a runtime starts")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As of a paused clock that nothing moves.
    #[test]
    fn a_case_that_spins_is_reported() {
        let outcome = watched(Duration::from_millis(50), || {
            loop {
                std::thread::park();
            }
        });
        assert!(outcome.is_err_and(|said| said.contains("no end after 50ms")));
        assert_eq!(watched(LIMIT, || Ok(Played::Whole)), Ok(Played::Whole));
    }
}
