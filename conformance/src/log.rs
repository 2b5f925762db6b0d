//! The log of the library in a test.

mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use latchwork_core::seen::{EVENTS, SPANS};
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

pub use self::text::Text;

const PATIENCE: Duration = Duration::from_secs(60);

/// A line of the log.
#[derive(Clone, Debug)]
pub struct Line {
    /// The level.
    pub level: Level,
    /// The name of the event or span; of a detail outside the vocabulary, its place in the sources.
    pub name: &'static str,
    /// The text.
    pub message: String,
    /// The fields.
    pub fields: BTreeMap<String, String>,
}

impl Line {
    fn of(metadata: &Metadata<'static>, record: impl FnOnce(&mut dyn Visit)) -> Self {
        let (message, fields) = (String::new(), BTreeMap::new());
        let mut line = Self { level: *metadata.level(), name: metadata.name(), message, fields };
        record(&mut line);
        line
    }

    /// Returns the text of a field, or an empty text.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Returns whether the vocabulary has this line.
    pub fn is_known(&self) -> bool {
        let as_event = EVENTS.iter().any(|event| {
            let mut fields: Vec<_> = event.fields().collect();
            fields.sort_unstable();
            (event.name, event.level, event.message) == (self.name, self.level, self.message.as_str())
                && self.fields.keys().eq(fields.iter())
        });
        as_event || SPANS.iter().any(|span| span.name == self.name)
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => drop(self.fields.insert(name.to_owned(), format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

type Lines = Arc<watch::Sender<Vec<Line>>>;

/// A listener for the library's lines.
#[derive(Debug)]
pub struct Log {
    lines: Lines,
    _listening: Option<DefaultGuard>,
}

impl Log {
    /// Listens on this thread until a drop: on a current-thread runtime to all clients of one test.
    pub fn listen() -> Self {
        enable_all_threads();
        let lines = Lines::default();
        let listening = tracing::subscriber::set_default(Ear(Arc::new(Mutex::new(Some(Arc::clone(&lines))))));
        Self { lines, _listening: Some(listening) }
    }

    /// Listens on all threads until a drop or the next call. Panics if the process has another subscriber.
    pub fn everywhere() -> Self {
        assert!(
            enable_all_threads(),
            "the process has another subscriber: start the test in a separate process"
        );
        let lines = Lines::default();
        *everywhere().lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&lines));
        Self { lines, _listening: None }
    }

    /// Returns the lines.
    pub fn lines(&self) -> Vec<Line> {
        self.lines.borrow().clone()
    }

    /// Returns the number of lines with this name.
    pub fn count(&self, name: &str) -> usize {
        self.lines.borrow().iter().filter(|line| line.name == name).count()
    }

    /// Awaits the `count`-th event of this name, and returns it.
    pub async fn nth(&self, name: &str, count: usize) -> Line {
        let mut lines = self.lines.subscribe();
        let said = |lines: &Vec<Line>| lines.iter().filter(|line| line.name == name).count() >= count;
        let heard = tokio::time::timeout(PATIENCE, lines.wait_for(said)).await;
        assert!(matches!(heard, Ok(Ok(_))), "{name:?} did not come {count} times: {:#?}", self.lines());
        drop(heard);
        self.lines().into_iter().filter(|line| line.name == name).nth(count - 1).expect("waited for")
    }

    /// Returns lines at info and above outside the vocabulary.
    pub fn undocumented(&self) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.level <= Level::INFO && !line.is_known()).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self._listening.is_none() {
            *everywhere().lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Enables the library's log statements on all threads. Returns false if the process has another subscriber.
///
/// `tracing` asks once for each statement: with a single subscriber only on the first thread. Without one
/// there, the statement stays disabled on all threads.
pub fn enable_all_threads() -> bool {
    static IS_OURS: LazyLock<bool> = LazyLock::new(|| {
        let is_ours = tracing::subscriber::set_global_default(Ear(Arc::clone(everywhere()))).is_ok();
        // Another thread may have asked before.
        tracing::callsite::rebuild_interest_cache();
        is_ours
    });
    *IS_OURS
}

fn everywhere() -> &'static Arc<Mutex<Option<Lines>>> {
    static EVERYWHERE: LazyLock<Arc<Mutex<Option<Lines>>>> = LazyLock::new(Arc::default);
    &EVERYWHERE
}

struct Ear(Arc<Mutex<Option<Lines>>>);

impl Ear {
    fn hear(&self, line: impl FnOnce() -> Line) {
        if let Some(lines) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            lines.send_modify(|lines| lines.push(line()));
        }
    }
}

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("latchwork") && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.hear(|| Line::of(span.metadata(), |line| span.record(line)));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.hear(|| Line::of(event.metadata(), |line| event.record(line)));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_on_another_thread() {
        tracing::info!(name: "latchwork.first_on_another_thread", "seen");
    }

    #[test]
    fn a_statement_that_another_thread_reaches_first_is_heard() {
        if !crate::own_process!() {
            return;
        }
        let log = Log::listen();
        std::thread::spawn(first_on_another_thread).join().expect("it ends");
        assert_eq!(log.count("latchwork.first_on_another_thread"), 0, "heard from another thread");
        first_on_another_thread();
        assert_eq!(log.count("latchwork.first_on_another_thread"), 1);
    }
}
