use std::io::Write;
use std::process::ExitCode;

use latchwork_conformance::Case;
use latchwork_conformance::selection::{Selection, Tier, is_played_on};
use latchwork_servers::Kind;

pub(super) fn clock(selection: &Selection) -> ExitCode {
    let mut cases: Vec<_> = selection.cases().into_iter().filter(Case::keeps_time).collect();
    cases.sort_by_key(|case| case.clause);
    columns(cases.iter().map(|case| {
        let on = Kind::ALL.map(|kind| kind.to_string()).into_iter();
        let on: Vec<_> = on.filter(|server| is_played_on(case, server, Tier::One)).collect();
        [case.clause.to_owned(), case.name.to_owned(), on.join(" ")]
    }))
}

pub(super) fn list(selection: &Selection) -> ExitCode {
    let cases = selection.cases();
    columns(cases.iter().map(|case| [case.clause.to_owned(), case.title(), case.line.trim().to_owned()]))
}

fn columns(rows: impl Iterator<Item = [String; 3]>) -> ExitCode {
    let rows: Vec<_> = rows.collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let mut out = std::io::stdout().lock();
    for [clause, name, more] in &rows {
        if writeln!(out, "{clause:first$}  {name:second$}  {more}").is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}
