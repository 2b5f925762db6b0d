use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use latchwork_conformance::summary::{Counts, Expected, Summary};
use latchwork_conformance::{EXCUSED, report};

use super::Outcome;

pub(super) fn summary(reports: &[PathBuf], expected: Expected, matrix: Option<&Path>) -> Outcome<ExitCode> {
    let mut rows = Vec::new();
    for path in reports {
        let read = report::read(path).map_err(|error| format!("a report cannot be read: {error}"))?;
        rows.extend(read);
    }
    let summary = Summary::of(rows, expected);
    print!("{}", summary.brief());
    if let Some(file) = matrix {
        let shown = file.display();
        fs::write(file, summary.matrix())
            .map_err(|error| format!("the matrix cannot be written to {shown}: {error}"))?;
        println!("the whole matrix: {shown}");
    }
    let Counts { passed, failed, excused, .. } = summary.counts();
    println!("{passed} passed, {failed} failed");
    Ok(match (passed, failed, excused) {
        (1.., 0, 0) => ExitCode::SUCCESS,
        (_, 0, 1..) => ExitCode::from(EXCUSED),
        _ => ExitCode::FAILURE,
    })
}
