//! Reports of several runs as one summary.

use std::fs;
use std::path::Path;
use std::time::Duration;

use latchwork_conformance::report::{self, Row};
use latchwork_conformance::selection::Selection;
use latchwork_conformance::summary::{Counts, Expected, Summary};
use latchwork_conformance::{Adapter, Case, Played, cases};

fn selected(patterns: &[&str]) -> Selection {
    let patterns = patterns.iter().map(|pattern| pattern.parse().expect("a pattern"));
    Selection::new(patterns.collect()).expect("each fits a case")
}

fn passed(backend: &str, cases: &[Case]) -> Vec<Row> {
    cases.iter().map(|case| row(backend, case, Ok(Played::Whole))).collect()
}

fn row(backend: &str, case: &Case, outcome: Result<Played, String>) -> Row {
    Row::new(backend, case, &outcome, Duration::from_secs(1))
}

fn store(folder: &Path, name: &str, rows: &[Row]) {
    fs::write(folder.join(name), serde_json::to_string(rows).expect("rows are JSON")).expect("written");
}

fn summary(reports: &Path, cases: Selection) -> Summary {
    let backends = vec!["one".to_owned(), "other".to_owned()];
    let expected = Expected { backends, cases, ..Expected::default() };
    Summary::of(report::read(reports).expect("read"), expected)
}

/// One result that is not there, of whatever backend, case and adapter, makes the summary fail.
#[test]
fn a_missing_result_of_any_adapter_shows_and_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = cases::all();
    store(folder.path(), "one.json", &passed("one", &cases));
    let mut others = passed("other", &cases);
    others.retain(|row| row.title() != "mutex_is_fair@rwlock-writer");
    store(folder.path(), "other.json", &others);

    let whole = summary(folder.path(), Selection::default());
    let counts = Counts { passed: 2 * cases.len() - 1, failed: 1, ..Counts::default() };
    assert_eq!(whole.counts(), counts);
    let table = whole.render();
    let gaps: Vec<_> = table.lines().filter(|line| line.contains("MISSING")).collect();
    assert!(gaps.len() == 1 && gaps[0].contains("rwlock-writer") && gaps[0].contains("ok 1.0s"), "{gaps:?}");
}

#[test]
fn what_was_not_asked_for_is_named_and_does_not_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = selected(&["key-*"]);
    store(folder.path(), "one.json", &passed("one", &keys.cases()));
    store(folder.path(), "other.json", &passed("other", &selected(&["key-*", "mutex_is_fair@*"]).cases()));

    let part = summary(folder.path(), keys.clone());
    let (all, run) = (cases::all().len(), 2 * keys.cases().len() + Adapter::ALL.len() - 1);
    assert_eq!(part.counts(), Counts { passed: run, not_run: 2 * all - run, ..Counts::default() });
    let table = part.render();
    let nowhere = table.lines().find(|line| line.starts_with("not run on any backend: ")).expect("a line");
    assert!(nowhere.contains("mutex_under_chaos") && !nowhere.contains("mutex_is_fair"), "{nowhere}");
    let half = table.lines().find(|line| line.contains("semaphore-1") && line.contains("not run"));
    assert!(half.is_some_and(|line| line.contains("ok 1.0s")), "{table}");
}

/// Runs of parts, each with a report of its own, are put together to the whole.
#[test]
fn reports_of_several_runs_add_up_and_a_failure_in_one_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let (keys, rest): (Vec<_>, Vec<_>) =
        cases::all().into_iter().partition(|case| case.clause.starts_with("KEY-"));
    for backend in ["one", "other"] {
        store(folder.path(), &format!("{backend}-1.json"), &passed(backend, &keys));
        store(folder.path(), &format!("{backend}-2.json"), &passed(backend, &rest));
    }
    let counts = summary(folder.path(), Selection::default()).counts();
    assert_eq!(counts, Counts { passed: 2 * cases::all().len(), ..Counts::default() });

    for (name, before_or_after) in [("a.json", "before"), ("z.json", "after")] {
        let failed = row("one", &keys[0], Err(format!("it failed {before_or_after}")));
        store(folder.path(), name, &[failed]);
        let summary = summary(folder.path(), Selection::default());
        assert_eq!(summary.counts().failed, 1, "{name}");
        assert!(summary.render().contains("it failed"), "{name}");
        fs::remove_file(folder.path().join(name)).expect("removed");
    }
}

/// A topology of which a part is expected is never shown as if the whole suite had been played, and of
/// that part nothing may be missing.
#[test]
fn a_part_shows_how_much_was_played_and_misses_nothing_of_it() {
    let cases = cases::all();
    let part: Vec<_> = cases.iter().filter(|case| case.is_on_every_topology()).copied().collect();
    let summary = |played: &[Case]| {
        let rows = [passed("one", &cases), passed("one-3", played)].concat();
        let expected = Expected {
            backends: vec!["one".to_owned()],
            parts: vec!["one-3".to_owned(), "one".to_owned()],
            ..Expected::default()
        };
        Summary::of(rows, expected)
    };
    let (all, played) = (cases.len(), part.len());
    let whole = summary(&part);
    let counts = Counts { passed: all + played, not_run: all - played, ..Counts::default() };
    assert_eq!(whole.counts(), counts);
    let table = whole.render();
    assert!(table.contains(&format!("{played} of {all}")), "{table}");
    assert!(table.contains("1 topologies x") && table.contains("1 backends x"), "{table}");
    assert_eq!(summary(&part[1..]).counts().failed, 1);
    assert!(summary(&part[1..]).render().contains("MISSING"));
}

#[test]
fn what_is_no_report_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("notes.json");
    fs::write(&file, "{}").expect("written");
    for path in [folder.path(), &file, &folder.path().join("nowhere.json")] {
        let error = report::read(path).expect_err("no report").to_string();
        assert!(error.contains(".json: "), "{error}");
    }
}
