//! The guide's table of events, held against what is logged and against the sources.

use std::path::Path;
use std::time::Duration;

use latchwork_conformance::log::{Log, table};
use latchwork_core::recipes::Acquire;
use latchwork_core::{Config, Release, connect, memory};

/// Each event of a hold's life is logged as the table has it: level, words and fields.
#[tokio::test]
async fn the_life_of_a_hold_is_logged_as_the_guide_has_it() {
    let log = Log::listen();
    let config: Config = "memory://".parse().expect("a good URL");
    let client = connect(&[memory::connector()], &config).await.expect("connected");
    let mutex = client.mutex("a").expect("a good key");
    let hold = mutex.acquire().await.expect("free");
    let error = mutex.acquire_within(Duration::from_millis(1)).await.expect_err("held");
    let late = log.nth("not acquired", 1).await;
    assert!(
        late.field("key") == "a" && late.field("error").contains("the deadline passed"),
        "{late:?} {error}"
    );
    assert_eq!(hold.release().await.expect("released"), Release::Released);
    let short = mutex.acquire_with(Acquire::new().max_hold(Duration::from_millis(1))).await.expect("free");
    short.lost().await;
    drop(short);
    let last = mutex.acquire().await.expect("free");
    client.close().await.expect("closed");
    drop(last);

    let seen = log.lines();
    for message in [
        "connected",
        "acquired",
        "not acquired",
        "released",
        "a hold was lost before it was given back",
        "a hold was lost by a close",
    ] {
        let line = seen
            .iter()
            .find(|line| line.message == message)
            .unwrap_or_else(|| panic!("{message}: {seen:#?}"));
        let told = table().into_iter().find(|row| row.message == message).expect(message);
        assert_eq!(
            (line.level, line.fields.keys().cloned().collect::<Vec<_>>()),
            (told.level, told.fields),
            "{message}"
        );
    }
    assert!(log.undocumented().is_empty(), "{:#?}", log.undocumented());
}

/// What the sources log at info and above stands in the table, and the table has nothing that no
/// source logs.
#[test]
fn the_table_and_the_sources_have_the_same_events() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut logged = Vec::new();
    for folder in ["core/src", "backend-redis/src", "backend-zk/src", "backend-etcd/src"] {
        collect(&root.join(folder), &mut logged);
    }
    assert!(
        logged.iter().any(|(level, message)| *level == "warn" && message == "disconnected"),
        "{logged:?}"
    );
    let table = table();
    for (level, message) in logged.iter().filter(|(level, _)| *level != "debug") {
        let told =
            table.iter().any(|row| row.level.as_str().eq_ignore_ascii_case(level) && row.says(message));
        assert!(told, "{level}: {message:?} is not in src/guide/on_call.md");
    }
    for row in &table {
        let known = logged
            .iter()
            .any(|(level, message)| row.level.as_str().eq_ignore_ascii_case(level) && row.says(message));
        assert!(known, "no source logs {row:?}");
    }
}

/// The events of all sources in a folder: level, and the first text without a `=` before it.
fn collect(folder: &Path, into: &mut Vec<(&'static str, String)>) {
    for entry in std::fs::read_dir(folder).expect("the sources stand beside the suite") {
        let path = entry.expect("read").path();
        if path.is_dir() {
            collect(&path, into);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("read");
        for level in ["debug", "info", "warn", "error"] {
            for event in text.split(&format!("tracing::{level}!(")).skip(1) {
                into.push((level, message(event).unwrap_or_else(|| panic!("{}: {event}", path.display()))));
            }
        }
    }
}

/// The text that an event says: the first that is no field's, which stand behind a `=` or in a
/// call.
fn message(event: &str) -> Option<String> {
    let mut texts = event.split('"');
    let mut before = texts.next()?;
    loop {
        let text = texts.next()?;
        if !before.trim_end().ends_with(['=', '(']) || before.trim().is_empty() {
            return Some(text.to_owned());
        }
        before = texts.next()?;
    }
}
