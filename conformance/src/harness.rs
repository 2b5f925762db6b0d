use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::adapter::Adapter;
use crate::case::Case;
use crate::context::Context;
use crate::played::Played;
use crate::runtime::{STACK, runtime};
use crate::testbed::Testbed;

const LIMIT: Duration = Duration::from_secs(300);
const LONG_LIMIT: Duration = Duration::from_secs(600);

const ENDING: Duration = Duration::from_secs(30);

/// Plays one case on its own runtime.
///
/// # Errors
/// The message of the failed assertion.
pub fn play(testbed: &'static dyn Testbed, case: &Case) -> Result<Played, String> {
    let (case, limit) = (*case, if case.long { LONG_LIMIT } else { LIMIT });
    watched(limit + ENDING, move || {
        let open = Context::open(testbed, case.adapter, case.keeps_time());
        play_within(limit, testbed, open, async |context| (case.play)(context).await)
    })
}

/// In real time: a paused clock stops in an endless case, whose thread is abandoned.
fn watched(
    limit: Duration,
    play: impl FnOnce() -> Result<Played, String> + Send + 'static,
) -> Result<Played, String> {
    let (sender, outcome) = mpsc::sync_channel(1);
    on_thread(move || sender.send(play()))?;
    outcome.recv_timeout(limit).unwrap_or_else(|_| Err(format!("no end after {limit:?} of real time")))
}

pub(crate) fn on_thread<T: Send + 'static>(
    play: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, String> {
    let thread = std::thread::Builder::new().stack_size(STACK);
    thread.spawn(play).map_err(|error| format!("the system starts no thread for the case: {error}"))
}

pub(crate) fn play_with(
    testbed: &'static dyn Testbed,
    adapter: Adapter,
    case: impl AsyncFnOnce(&Context),
) -> Result<Played, String> {
    play_within(LIMIT, testbed, Context::open(testbed, adapter, false), case)
}

pub(crate) fn play_beside(
    lasts: Duration,
    testbed: &'static dyn Testbed,
    case: impl AsyncFnOnce(&Context),
) -> Result<Played, String> {
    play_within(lasts + LIMIT, testbed, Context::open(testbed, Adapter::Mutex, false), case)
}

fn play_within(
    limit: Duration,
    testbed: &'static dyn Testbed,
    open: impl Future<Output = latchwork_core::Result<Context>>,
    case: impl AsyncFnOnce(&Context),
) -> Result<Played, String> {
    let runtime = runtime(testbed.is_paused());
    let played = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let context = open.await.map_err(|error| format!("the testbed gives no fixture: {error}"))?;
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
    // Tasks that a crash leaves must not delay the next case.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Like a paused clock that does not advance.
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

    /// A smaller stack overflows here, and ends the process.
    #[test]
    fn thread_that_plays_cases_has_a_large_stack() {
        let large = on_thread(|| std::hint::black_box([1_u8; STACK / 4]).len());
        assert_eq!(large.expect("a thread").join().expect("no panic"), STACK / 4);
    }
}
