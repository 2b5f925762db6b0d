//! `list`.

use std::io::Write;
use std::process::ExitCode;

use latchwork_conformance::Case;
use latchwork_conformance::selection::Selection;

use super::Outcome;

pub(super) fn list(selection: &Selection) -> Outcome<ExitCode> {
    let cases = selection.cases();
    let width = |of: fn(&Case) -> usize| cases.iter().map(of).max().unwrap_or(0);
    let (clauses, titles) = (width(|case| case.clause.len()), width(|case| case.title().len()));
    let mut out = std::io::stdout().lock();
    for case in &cases {
        let (Case { clause, line, .. }, title) = (case, case.title());
        // A pipe that is closed early (`| head`) is no failure.
        if writeln!(out, "{clause:clauses$}  {title:titles$}  {}", line.trim()).is_err() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}
