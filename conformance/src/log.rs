//! What the library writes to the log, read by a test, and held against its vocabulary.

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

/// Only what never comes meets this bound.
const PATIENCE: Duration = Duration::from_secs(60);

/// One line of the log.
#[derive(Clone, Debug)]
pub struct Line {
    /// How loud it is.
    pub level: Level,
    /// The name of the event, or of the span that begins; of a detail that is in no vocabulary, its
    /// place in the sources.
    pub name: &'static str,
    /// What it says.
    pub message: String,
    /// Its fields, as a reader sees them.
    pub fields: BTreeMap<String, String>,
}

impl Line {
    fn of(metadata: &Metadata<'static>, record: impl FnOnce(&mut dyn Visit)) -> Self {
        let (message, fields) = (String::new(), BTreeMap::new());
        let mut line = Self { level: *metadata.level(), name: metadata.name(), message, fields };
        record(&mut line);
        line
    }

    /// The text of a field; empty where there is none.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Whether the vocabulary has this line as it was written.
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

/// The lines of this library from now on.
#[derive(Debug)]
pub struct Log {
    lines: Lines,
    // Until this is dropped, a thread listens.
    _listening: Option<DefaultGuard>,
}

impl Log {
    /// Listens on this thread until it is dropped. A test on a current-thread runtime hears all of its
    /// clients, and no client of a test on another thread.
    pub fn listen() -> Self {
        enable_all_threads();
        let lines = Lines::default();
        let listening = tracing::subscriber::set_default(Ear(Arc::new(Mutex::new(Some(Arc::clone(&lines))))));
        Self { lines, _listening: Some(listening) }
    }

    /// Listens on all threads of this process until it is dropped, or another listens so: for a
    /// case that is alone.
    ///
    /// # Panics
    /// Where the process has another subscriber.
    pub fn everywhere() -> Self {
        assert!(enable_all_threads(), "another subscriber listens to this process");
        let lines = Lines::default();
        *everywhere().lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&lines));
        Self { lines, _listening: None }
    }

    /// All lines up to now.
    pub fn lines(&self) -> Vec<Line> {
        self.lines.borrow().clone()
    }

    /// How many lines have this name up to now.
    pub fn count(&self, name: &str) -> usize {
        self.lines.borrow().iter().filter(|line| line.name == name).count()
    }

    /// Waits until the event of this name has come so often, and answers the last of them.
    ///
    /// # Panics
    /// When it never comes.
    pub async fn nth(&self, name: &str, count: usize) -> Line {
        let mut lines = self.lines.subscribe();
        let said = |lines: &Vec<Line>| lines.iter().filter(|line| line.name == name).count() >= count;
        let heard = tokio::time::timeout(PATIENCE, lines.wait_for(said)).await;
        assert!(matches!(heard, Ok(Ok(_))), "{name:?} did not come {count} times: {:#?}", self.lines());
        drop(heard);
        self.lines().into_iter().filter(|line| line.name == name).nth(count - 1).expect("waited for")
    }

    /// The lines at info and above that the vocabulary does not have as they were written.
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

/// Enables the log statements of this library on every thread, so that a thread's own subscriber
/// misses none. Returns whether [`Log::everywhere`] works: false if the process has another subscriber.
///
/// `tracing` asks once per log statement whether a subscriber wants it. While the process has a single
/// subscriber, it asks only that of the thread which arrives first. If that thread has none, the statement
/// stays disabled on all threads.
pub fn enable_all_threads() -> bool {
    static IS_OURS: LazyLock<bool> = LazyLock::new(|| {
        let is_ours = tracing::subscriber::set_global_default(Ear(Arc::clone(everywhere()))).is_ok();
        // Another thread may have asked while the subscriber was being set.
        tracing::callsite::rebuild_interest_cache();
        is_ours
    });
    *IS_OURS
}

/// The listener of [`Log::everywhere`].
fn everywhere() -> &'static Arc<Mutex<Option<Lines>>> {
    static EVERYWHERE: LazyLock<Arc<Mutex<Option<Lines>>>> = LazyLock::new(Arc::default);
    &EVERYWHERE
}

/// Hears events, and the beginnings of spans.
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
        // Spans are not distinguished here.
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

    /// In a process of its own, in which no other test has enabled the log statements.
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
