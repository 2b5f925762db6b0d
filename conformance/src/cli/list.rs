//! `list`.

use std::io::Write;
use std::process::ExitCode;

use latchwork_conformance::{Case, cases};

use super::Outcome;

/// The cases whose name or clause contains `filter`.
pub(super) fn chosen(filter: &str) -> Vec<Case> {
    let wanted = filter.to_lowercase();
    let mut cases = cases::all();
    cases.retain(|case| case.title().contains(&wanted) || case.clause.to_lowercase().contains(&wanted));
    cases
}

pub(super) fn list(filter: &str) -> Outcome<ExitCode> {
    let cases = chosen(filter);
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
