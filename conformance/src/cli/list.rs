//! `list`.

use std::io::Write;
use std::process::ExitCode;

use latchwork_conformance::{Case, cases};

use super::Outcome;

/// The cases whose name or clause contains `filter`.
pub(super) fn chosen(filter: &str) -> Vec<Case> {
    let wanted = filter.to_lowercase();
    let mut cases = cases::all();
    cases.retain(|case| case.name.contains(&wanted) || case.clause.to_lowercase().contains(&wanted));
    cases
}

pub(super) fn list(filter: &str) -> Outcome<ExitCode> {
    let cases = chosen(filter);
    let width = |of: fn(&Case) -> &str| cases.iter().map(|case| of(case).len()).max().unwrap_or(0);
    let (clauses, names) = (width(|case| case.clause), width(|case| case.name));
    let mut out = std::io::stdout().lock();
    for Case { name, clause, line, .. } in &cases {
        // A pipe that is closed early (`| head`) is no failure.
        if writeln!(out, "{clause:clauses$}  {name:names$}  {}", line.trim()).is_err() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}
