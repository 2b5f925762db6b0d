//! `run`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use latchwork_conformance::report::{self, Row};
use latchwork_conformance::selection::Selection;
use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::{Case, play};

use super::{Outcome, backends};

pub(super) fn run(
    backend: &str,
    selection: &Selection,
    json: Option<&Path>,
    fast_clocks: bool,
) -> Outcome<ExitCode> {
    let cases = selection.cases();
    let runtime = super::runtime()?;
    let testbed: &'static dyn Testbed = Box::leak(backends::open(&runtime, backend, fast_clocks)?);
    // A panic of a case is shown with its result.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let rows = play_all(testbed, &cases);
    let took = started.elapsed();
    runtime.block_on(testbed.close());
    report::store(&rows)?;
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&rows)?;
        fs::write(file, text).map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    }
    let failures: Vec<_> = rows.iter().filter_map(|row| Some((row, row.failure.as_ref()?))).collect();
    for (row, failure) in &failures {
        println!(
            "\n{}::{} ({})\n    {}",
            row.backend,
            row.title(),
            row.clause,
            failure.replace('\n', "\n    ")
        );
    }
    let name = rows.first().map_or(backend, |row| &row.backend);
    println!("\n{name}: {} cases in {:.1} s", rows.len(), took.as_secs_f64());
    println!("{} passed, {} failed", rows.len() - failures.len(), failures.len());
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays those that bear others beside them side by side, then the rest one by one.
fn play_all(testbed: &'static dyn Testbed, cases: &[Case]) -> Vec<Row> {
    let progress = Progress::new(testbed.name(), cases.len());
    let (beside, alone): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| !case.alone);
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let play_one = |case: &Case| {
        let started = Instant::now();
        let outcome = play(testbed, case);
        let row = Row::new(testbed.name(), case, &outcome, started.elapsed());
        progress.show(&row);
        rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    };
    thread::scope(|scope| {
        for _ in 0..latchwork_conformance::beside(testbed) {
            scope.spawn(|| {
                while let Some(case) = beside.get(next.fetch_add(1, Ordering::AcqRel)) {
                    play_one(case);
                }
            });
        }
    });
    alone.into_iter().for_each(play_one);
    progress.bar.finish_and_clear();
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    let place = |row: &Row| cases.iter().position(|case| case.title() == row.title());
    rows.sort_by_key(place);
    rows
}

/// A bar where it is seen by somebody; a line for each case in any event.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn new(backend: &str, cases: usize) -> Self {
        // Hidden by itself where standard error is no terminal.
        let bar = ProgressBar::new(cases as u64).with_prefix(backend.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {elapsed}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    fn show(&self, row: &Row) {
        let verdict = if row.failure.is_none() { "ok    " } else { "FAILED" };
        self.bar.suspend(|| println!("{verdict} {:5.1} s  {}", row.seconds, row.title()));
        self.bar.inc(1);
    }
}
