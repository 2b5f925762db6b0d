//! What the library writes to the log, read by a test, and held against the guide's table of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// Only what never comes meets this bound.
const PATIENCE: Duration = Duration::from_secs(60);

/// One line of the log.
#[derive(Clone, Debug)]
pub struct Line {
    /// How loud it is.
    pub level: Level,
    /// What it says.
    pub message: String,
    /// Its fields, as a reader sees them.
    pub fields: BTreeMap<String, String>,
}

impl Line {
    /// The text of a field; empty where there is none.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
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

/// The lines of this library from now on, of what runs on the current thread.
#[derive(Debug)]
pub struct Log {
    lines: Arc<watch::Sender<Vec<Line>>>,
    _listening: DefaultGuard,
}

impl Log {
    /// Listens on this thread until it is dropped: a test on a current-thread runtime hears all of
    /// its clients.
    pub fn listen() -> Self {
        let lines = Arc::new(watch::Sender::default());
        let _listening = tracing::subscriber::set_default(Ear(Arc::clone(&lines)));
        Self { lines, _listening }
    }

    /// All lines up to now.
    pub fn lines(&self) -> Vec<Line> {
        self.lines.borrow().clone()
    }

    /// Waits until so many lines have said this, and answers the last of them.
    ///
    /// # Panics
    /// When it never comes.
    pub async fn nth(&self, message: &str, count: usize) -> Line {
        let mut lines = self.lines.subscribe();
        let said = |lines: &Vec<Line>| lines.iter().filter(|line| line.message == message).count() >= count;
        let heard = tokio::time::timeout(PATIENCE, lines.wait_for(said)).await;
        assert!(matches!(heard, Ok(Ok(_))), "{message:?} was not said {count} times: {:#?}", self.lines());
        drop(heard);
        self.lines().into_iter().filter(|line| line.message == message).nth(count - 1).expect("waited for")
    }

    /// The lines at info and above that are not in the guide's table as they were written.
    pub fn undocumented(&self) -> Vec<Line> {
        let table = table();
        let known = |line: &Line| {
            table.iter().any(|row| {
                row.level == line.level && row.says(&line.message) && line.fields.keys().eq(row.fields.iter())
            })
        };
        self.lines().into_iter().filter(|line| line.level <= Level::INFO && !known(line)).collect()
    }
}

struct Ear(Arc<watch::Sender<Vec<Line>>>);

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("latchwork")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // Spans are not distinguished here.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line =
            Line { level: *event.metadata().level(), message: String::new(), fields: BTreeMap::new() };
        event.record(&mut line);
        self.0.send_modify(|lines| lines.push(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A row of the guide's table of events.
#[derive(Clone, Debug)]
pub struct Row {
    /// How loud it is.
    pub level: Level,
    /// What it says; one that ends in `…` goes on.
    pub message: String,
    /// Its fields, sorted.
    pub fields: Vec<String>,
}

impl Row {
    /// Whether this row describes a line.
    pub fn says(&self, message: &str) -> bool {
        match self.message.strip_suffix('…') {
            Some(start) => message.starts_with(start.trim_end()),
            None => message == self.message,
        }
    }
}

/// The events of the guide's page for those who are called at night; spans have a table row too,
/// and are left out.
///
/// # Panics
/// When the page cannot be read.
pub fn table() -> Vec<Row> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/guide/on_call.md");
    let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let &[level, event, fields, _] = cells.as_slice() else { return None };
        let level = level.parse::<Level>().ok()?;
        let quoted =
            |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let message = quoted(event).into_iter().next().filter(|_| !event.starts_with("span"))?;
        let mut fields = quoted(fields);
        fields.sort();
        Some(Row { level, message, fields })
    });
    rows.collect()
}
