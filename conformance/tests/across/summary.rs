use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use latchwork_conformance::report::{self, Row};
use latchwork_conformance::selection::{self, Selection};
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
    let table = whole.matrix();
    let gaps: Vec<_> = table.lines().filter(|line| line.contains("MISSING")).collect();
    assert!(gaps.len() == 1 && gaps[0].contains("rwlock-writer") && gaps[0].contains("ok 1.0s"), "{gaps:?}");
}

#[test]
fn unselected_cases_are_listed_and_do_not_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = selected(&["key-*"]);
    store(folder.path(), "one.json", &passed("one", &keys.cases()));
    store(folder.path(), "other.json", &passed("other", &selected(&["key-*", "mutex_is_fair@*"]).cases()));

    let part = summary(folder.path(), keys.clone());
    let (all, run) = (cases::all().len(), 2 * keys.cases().len() + Adapter::ALL.len() - 1);
    assert_eq!(part.counts(), Counts { passed: run, not_run: 2 * all - run, ..Counts::default() });
    let table = part.matrix();
    let nowhere = table.lines().find(|line| line.starts_with("not run on any backend: ")).expect("a line");
    assert!(nowhere.contains("mutex_under_chaos") && !nowhere.contains("mutex_is_fair"), "{nowhere}");
    let half = table.lines().find(|line| line.contains("semaphore-1") && line.contains("not run"));
    assert!(half.is_some_and(|line| line.contains("ok 1.0s")), "{table}");
}

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
        assert!(summary.matrix().contains("it failed"), "{name}");
        fs::remove_file(folder.path().join(name)).expect("removed");
    }
}

#[test]
fn a_part_shows_how_much_was_played_and_misses_nothing_of_it() {
    let cases = cases::all();
    let part: Vec<_> = cases.iter().filter(|case| case.is_on_every_topology()).copied().collect();
    let summary = |played: &[Case]| {
        let rows = [passed("one", &cases), passed("etcd-3", played)].concat();
        let expected = Expected {
            backends: vec!["one".to_owned()],
            parts: vec!["etcd-3".to_owned(), "one".to_owned()],
            ..Expected::default()
        };
        Summary::of(rows, expected)
    };
    let (all, played) = (cases.len(), part.len());
    let whole = summary(&part);
    let counts = Counts { passed: all + played, not_run: all - played, ..Counts::default() };
    assert_eq!(whole.counts(), counts);
    let table = whole.matrix();
    assert!(table.contains(&format!("{played} of {all}")), "{table}");
    assert!(whole.brief().contains(&format!(" {played} of {all}")), "{}", whole.brief());
    let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
    let whole = format!("1 backends x {} cases, {all} with their adapters", names.len());
    assert!(table.contains("1 backends x their cases of tier 2") && table.contains(&whole), "{table}");
    assert_eq!(summary(&part[1..]).counts().failed, 1);
    assert!(summary(&part[1..]).matrix().contains("MISSING"));
}

#[test]
fn unreadable_report_is_named_in_the_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("notes.json");
    fs::write(&file, "{}").expect("written");
    for path in [folder.path(), &file, &folder.path().join("nowhere.json")] {
        let error = report::read(path).expect_err("no report").to_string();
        assert!(error.contains(".json: "), "{error}");
    }
}

/// With the largest possible number of reasons and excuses.
fn success() -> (Vec<Row>, Expected) {
    let whole = ["memory", "redis", "zookeeper", "etcd"];
    let parts = [&selection::TOPOLOGIES[..], &["own", "own-too"]].concat();
    let cases = cases::all();
    let part: Vec<_> = cases.iter().filter(|case| case.is_on_every_topology()).copied().collect();
    let mut rows: Vec<_> = whole.iter().flat_map(|backend| passed(backend, &cases)).collect();
    rows.extend(parts.iter().flat_map(|backend| passed(backend, &part)));
    for (number, row) in rows.iter_mut().enumerate().take(40) {
        row.left_out = Some(format!("it has no {}", number % 20));
    }
    let [whole, parts] =
        [whole.as_slice(), parts.as_slice()].map(|of| of.iter().map(|name| (*name).to_owned()).collect());
    (rows, Expected { backends: whole, parts, left_out: vec!["consul".to_owned()], ..Expected::default() })
}

fn excused(row: &Row) -> Row {
    let excused = Some("the machine stopped for 3.0 s".to_owned());
    Row { failure: Some("lost".to_owned()), excused, ..row.clone() }
}

/// The program adds three lines.
#[test]
fn success_takes_at_most_60_lines() {
    let (mut rows, expected) = success();
    let last: Vec<_> = rows.iter().rev().take(30).map(excused).collect();
    rows.splice(0..0, last);
    let summary = Summary::of(rows, expected);
    let Counts { failed, excused, left_out, .. } = summary.counts();
    assert_eq!((failed, excused, left_out), (0, 0, 40));
    let brief = summary.brief();
    assert!(brief.lines().count() <= 57, "{brief}");
}

#[test]
fn the_short_form_counts_by_contract_and_names_the_slowest() {
    let (rows, expected) = success();
    let (all, keys) = (cases::all(), selected(&["key-*"]).cases());
    let mut rows: Vec<_> = rows.into_iter().map(|row| Row { left_out: None, ..row }).collect();
    let lock = rows.iter_mut().find(|row| row.backend == "redis" && row.title() == keys[0].title());
    lock.expect("it was played").left_out = Some("it has no processes".to_owned());
    let slow =
        rows.iter_mut().rfind(|row| row.backend == "etcd" && row.title() == "mutex_is_fair@rwlock-writer");
    slow.expect("it was played").seconds = 7.2;
    let brief = Summary::of(rows, expected).brief();
    let cells = |name: &str| -> Vec<String> {
        let row = brief.lines().find(|line| line.split_whitespace().next() == Some(name)).expect(name);
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let whole = keys.len().to_string();
    let less = format!("{} -1", keys.len() - 1);
    assert!(cells("KEY").contains(&whole) && cells("KEY").contains(&less), "{brief}");
    assert!(cells("all").contains(&all.len().to_string()), "{brief}");
    let slowest = brief.lines().skip_while(|line| *line != "slowest plays:").nth(1);
    assert_eq!(slowest.map(str::trim), Some("7.2 s  etcd::mutex_is_fair@rwlock-writer"));
    assert!(brief.contains("\nleft out:\n    1  it has no processes\n"), "{brief}");
    assert!(brief.contains("\nleft out, as asked: consul\n"), "{brief}");
}

#[test]
fn failures_and_missing_results_are_shown_in_full() {
    let cases = cases::all();
    let mut rows = passed("one", &cases[1..]);
    let failed = row("one", &cases[1], Err("expected this\nand got that".to_owned()));
    let expected = Expected { backends: vec!["one".to_owned()], ..Expected::default() };
    rows.push(failed);
    let brief = Summary::of(rows, expected).brief();
    let title = cases[1].title();
    assert!(brief.contains(&format!("\none::{title}: expected this\nand got that\n")), "{brief}");
    let missing = format!("\nexpected, and without a result:\n  one::{}\n", cases[0].title());
    assert!(brief.contains(&missing), "{brief}");
    assert!(brief.contains(" 2 FAILED "), "{brief}");
}

#[test]
fn an_excused_failure_waits_for_another_result() {
    let cases = cases::all();
    let good = passed("one", &cases);
    let title = cases[0].title();
    let failed = row("one", &cases[0], Err("lost".to_owned()));
    let summary = |rows: &[&Row]| {
        let rows = rows.iter().map(|row| (*row).clone()).chain(good[1..].iter().cloned());
        Summary::of(rows, Expected { backends: vec!["one".to_owned()], ..Expected::default() })
    };
    let (excused, passed) = (&excused(&good[0]), &good[0]);
    for (rows, outcome, since) in [
        (vec![excused], (0, 1), "and no result"),
        (vec![excused, excused], (0, 1), "and no result"),
        (vec![excused, passed], (0, 0), "and it passed"),
        (vec![excused, &failed], (1, 0), "and it failed"),
        (vec![&failed, excused], (1, 0), "and it failed"),
    ] {
        let summary = summary(&rows);
        let counts = summary.counts();
        assert_eq!((counts.failed, counts.excused), outcome, "{since}");
        let line = format!("one::{title}: the machine stopped for 3.0 s, {since}\n");
        for text in [summary.brief(), summary.matrix()] {
            assert!(text.contains(&line), "{text}");
        }
    }
}

#[cfg(feature = "bench")]
#[test]
fn the_program_ends_with_the_sums_and_its_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = cases::all();
    let good = passed("one", &cases);
    let report = folder.path().join("one.json");
    let ends = |rows: &[Row]| {
        fs::write(&report, serde_json::to_string(rows).expect("rows are JSON")).expect("written");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_latchwork-conformance"));
        command.arg("summary").arg(&report).arg("--matrix").arg(folder.path().join("matrix"));
        let output = command.output().expect("the program starts");
        let printed = String::from_utf8(output.stdout).expect("what it prints is UTF-8");
        (output.status.code(), printed.lines().last().expect("a line").to_owned())
    };
    let all = cases.len();
    assert_eq!(ends(&good), (Some(0), format!("{all} passed, 0 failed")));
    let matrix = fs::read_to_string(folder.path().join("matrix")).expect("written");
    assert!(matrix.contains("mutex_is_fair") && matrix.contains("ok 1.0s"), "{matrix}");
    let rest = [vec![excused(&good[0])], good[1..].to_vec()].concat();
    assert_eq!(ends(&rest), (Some(3), format!("{} passed, 0 failed", all - 1)));
    let failed = row("one", &cases[1], Err("lost".to_owned()));
    assert_eq!(ends(&[rest, vec![failed]].concat()), (Some(1), format!("{} passed, 1 failed", all - 2)));
}
