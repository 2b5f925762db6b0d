//! Runs the cases of a testbed, each as its own reported test.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, RwLock, mpsc};
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
use crate::selection::{Selection, is_whole_on};
use crate::testbed::Testbed;
use crate::testbeds::ServerTestbed;
use crate::witness;
use latchwork_servers::{Kind, Options, Server};

/// No case may take longer, on a busy machine either; a paused clock runs fast.
const LIMIT: Duration = Duration::from_secs(300);
/// Nor one of the long tier.
const LONG_LIMIT: Duration = Duration::from_secs(600);

/// What a case that took too long may need to say so.
const ENDING: Duration = Duration::from_secs(30);

/// How much of the suite is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    /// The cases of every topology.
    OfEveryTopology,
}

/// How many cases of a part run side by side: a few, since such parts are many and short, and begin
/// when their servers do.
const BESIDE_IN_A_PART: usize = 4;

/// Runs the suite against one testbed, as the `main` of a test target with `harness = false`: the
/// whole of what a backend crate adds. Understands the arguments of `cargo test`, and
/// [`selection::VARIABLE`](crate::selection::VARIABLE); runs as a client process when the suite
/// asks for one.
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
    main_of(connectors, open, Part::Whole)
}

/// As [`main`], with those cases of the selection that are in this part.
fn main_of(
    connectors: Vec<Arc<dyn Connector>>,
    open: impl FnOnce(&Runtime) -> Result<Box<dyn Testbed>, String>,
    part: Part,
) -> ExitCode {
    if let Some(code) = contender_main(&connectors) {
        return code;
    }
    let mut arguments = Arguments::from_args();
    let selection = match Selection::from_environment() {
        Ok(selection) => selection,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = runtime(false);
    let testbed = match open(&runtime) {
        Ok(testbed) => testbed,
        Err(error) => {
            eprintln!("the backend under test cannot be had: {error}");
            return ExitCode::FAILURE;
        }
    };
    let testbed: &'static dyn Testbed = Box::leak(testbed);
    let mut cases = selection.cases();
    if part == Part::OfEveryTopology {
        cases.retain(Case::is_on_every_topology);
        arguments.test_threads.get_or_insert(BESIDE_IN_A_PART);
    }
    let (conclusion, rows) = run(arguments, testbed, cases);
    runtime.block_on(testbed.close());
    if let Err(error) = report::store(&rows) {
        eprintln!("the results cannot be stored: {error}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

/// As [`main`], with a server of this kind: from the environment, a container, or this machine.
pub fn main_with_server(
    connectors: Vec<Arc<dyn Connector>>,
    kind: Kind,
    testbed: impl FnOnce(Server) -> latchwork_core::Result<ServerTestbed>,
) -> ExitCode {
    main(connectors, |runtime| {
        let server =
            runtime.block_on(Server::start(kind, Options::new())).map_err(|error| error.to_string())?;
        Ok(Box::new(testbed(server).map_err(|error| error.to_string())?))
    })
}

/// As [`main`], on servers of a topology: all of the suite in the long tier, or when
/// [`selection::TOPOLOGY`](crate::selection::TOPOLOGY) names it, else
/// [the cases of every topology](crate::cases::ON_EVERY_TOPOLOGY).
pub fn main_on<T: Testbed + 'static>(
    topology: &str,
    connector: Arc<dyn Connector>,
    open: impl AsyncFnOnce() -> Result<T, Box<dyn Error>>,
) -> ExitCode {
    let part = if is_whole_on(topology) { Part::Whole } else { Part::OfEveryTopology };
    let open = |runtime: &Runtime| match runtime.block_on(open()) {
        Ok(testbed) => Ok(Box::new(testbed) as Box<dyn Testbed>),
        Err(error) => Err(error.to_string()),
    };
    main_of(vec![connector], open, part)
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

/// Runs `cases` against a testbed, and answers what became of each that was not filtered out.
pub fn run(
    mut arguments: Arguments,
    testbed: &'static dyn Testbed,
    mut cases: Vec<Case>,
) -> (libtest_mimic::Conclusion, Vec<Row>) {
    arguments.test_threads.get_or_insert(beside(testbed));
    witness::begin();
    // A case that must be alone waits for those that run, and none may begin meanwhile. At the end
    // it holds up no other.
    cases.sort_by_key(|case| (case.alone, !case.lasting));
    let rows = Arc::new(Mutex::new(Vec::new()));
    let quiet = Arc::new(RwLock::new(()));
    let trials = cases
        .into_iter()
        .map(|case| {
            let (rows, quiet) = (Arc::clone(&rows), Arc::clone(&quiet));
            Trial::test(format!("{}::{}", testbed.name(), case.title()), move || {
                let timed = || {
                    let started = Instant::now();
                    let outcome =
                        play(testbed, &case).map_err(|why| beside_the_machine(testbed, started, why));
                    (outcome, started.elapsed())
                };
                let (outcome, took) = match case.alone {
                    true => {
                        let _alone = quiet.write().unwrap_or_else(|poisoned| poisoned.into_inner());
                        timed()
                    }
                    false => {
                        let _beside = quiet.read().unwrap_or_else(|poisoned| poisoned.into_inner());
                        timed()
                    }
                };
                let row = Row::new(testbed.name(), &case, &outcome, took);
                rows.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(row);
                outcome.map(|_| ()).map_err(Failed::from)
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let rows = std::mem::take(&mut *rows.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    (conclusion, rows)
}

/// Says beside a failure whether the machine stood still meanwhile for longer than the cases' bounds allow for:
/// leases end by that too.
fn beside_the_machine(testbed: &dyn Testbed, begun: Instant, why: String) -> String {
    let still = witness::stood_still_since(begun);
    match !testbed.is_paused() && still > NOISE {
        true => format!(
            "{why}\n(the machine stood still for {still:.1?} meanwhile: its bounds allow for {NOISE:?})"
        ),
        false => why,
    }
}

/// How many cases run side by side: more than there are cores, since they wait most of the time.
pub fn beside(testbed: &dyn Testbed) -> usize {
    if testbed.is_paused() { 2 } else { 16 }
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
