//! `summary`.

use std::path::PathBuf;
use std::process::ExitCode;

use latchwork_conformance::report;
use latchwork_conformance::summary::{Counts, Expected, Summary};

use super::Outcome;

pub(super) fn summary(reports: &[PathBuf], expected: Expected) -> Outcome<ExitCode> {
    let mut rows = Vec::new();
    for path in reports {
        let read = report::read(path).map_err(|error| format!("no report can be read: {error}"))?;
        rows.extend(read);
    }
    let summary = Summary::of(rows, expected);
    let Counts { passed, failed, left_out, not_run } = summary.counts();
    print!("{}", summary.render());
    println!("{passed} passed, {failed} failed; {left_out} that a testbed cannot play, {not_run} not run");
    // No result at all is no success either.
    Ok(if passed > 0 && failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
