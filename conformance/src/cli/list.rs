//! `list`.

use std::io::Write;
use std::process::ExitCode;

use latchwork_conformance::Case;
use latchwork_conformance::selection::{Selection, Tier, is_played_on};
use latchwork_servers::Kind;

use super::Outcome;

/// The clock class: each clause that has a time in it, with its cases, and the servers that play them in real time.
pub(super) fn clock(selection: &Selection) -> Outcome<ExitCode> {
    let mut cases: Vec<_> = selection.cases().into_iter().filter(Case::keeps_time).collect();
    cases.sort_by_key(|case| case.clause);
    let width = |of: fn(&Case) -> usize| cases.iter().map(of).max().unwrap_or(0);
    let (clauses, names) = (width(|case| case.clause.len()), width(|case| case.name.len()));
    let mut out = std::io::stdout().lock();
    for case in cases {
        let Case { clause, name, .. } = case;
        let on = Kind::ALL.map(|kind| kind.to_string()).into_iter();
        let on: Vec<_> = on.filter(|server| is_played_on(&case, server, Tier::One)).collect();
        let servers = on.join(" ");
        if writeln!(out, "{clause:clauses$}  {name:names$}  {servers}").is_err() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

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
