//! Combines reports of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::adapter::Adapter;
use crate::case::Case;
use crate::cases;
use crate::report::Row;
use crate::selection::{self, Selection, Tier};

/// Numbers of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed cases.
    pub passed: usize,
    /// Failed cases, or cases without an expected result.
    pub failed: usize,
    /// Cases that failed during a pause of the machine, without a later result.
    pub excused: usize,
    /// Cases without support by the testbed.
    pub left_out: usize,
    /// Cases neither expected nor run.
    pub not_run: usize,
}

/// The expected results: the cases on each backend.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Backends in addition to those with a result.
    pub backends: Vec<String>,
    /// Backends with only cases of tier 2.
    pub parts: Vec<String>,
    /// The expected cases.
    pub cases: Selection,
    /// Backends that are left out, unless they have a result.
    pub left_out: Vec<String>,
}

enum Cell<'a> {
    Passed(&'a Row),
    Failed(&'a str),
    Excused,
    LeftOut(&'a str),
    Missing,
    NotRun,
}

const SLOWEST: usize = 10;
const LISTED: usize = 4;

/// The summary.
#[derive(Debug)]
pub struct Summary {
    rows: BTreeMap<(String, Adapter, String), Row>,
    excused: Vec<Row>,
    backends: BTreeSet<String>,
    parts: BTreeSet<String>,
    left_out: BTreeSet<String>,
    expected: Selection,
    cases: Vec<Case>,
}

impl Summary {
    /// Combines rows. A failure of a case counts, otherwise its last row; excused failures do not count. Cases of the long tier
    /// count only in it, or with a result.
    pub fn of(rows: impl IntoIterator<Item = Row>, expected: Expected) -> Self {
        let mut backends: BTreeSet<_> = expected.backends.into_iter().collect();
        let parts: BTreeSet<_> = expected.parts.into_iter().filter(|name| !backends.contains(name)).collect();
        backends.extend(parts.iter().cloned());
        let (mut merged, mut excused) = (BTreeMap::<_, Row>::new(), Vec::new());
        for row in rows {
            backends.insert(row.backend.clone());
            if row.excused.is_some() {
                excused.push(row.clone());
            }
            let key = (row.case.clone(), row.adapter, row.backend.clone());
            let has_failed = |known: &Row| known.failure.is_some() && known.excused.is_none();
            if !merged.get(&key).is_some_and(has_failed) {
                merged.insert(key, row);
            }
        }
        let left_out = expected.left_out.into_iter().filter(|name| !backends.contains(name)).collect();
        let mut cases = cases::of_both_tiers();
        let names: BTreeSet<_> = merged.keys().map(|(case, ..)| case.as_str()).collect();
        cases.retain(|case| !case.long || cases::is_long() || names.contains(case.name));
        Self { rows: merged, excused, backends, parts, left_out, expected: expected.cases, cases }
    }

    fn cell(&self, case: &Case, backend: &str) -> Cell<'_> {
        match self.rows.get(&(case.name.to_owned(), case.adapter, backend.to_owned())) {
            Some(Row { excused: Some(_), .. }) => Cell::Excused,
            Some(Row { failure: Some(why), .. }) => Cell::Failed(why),
            Some(Row { left_out: Some(why), .. }) => Cell::LeftOut(why),
            Some(row) => Cell::Passed(row),
            None if self.expects(case, backend) => Cell::Missing,
            None => Cell::NotRun,
        }
    }

    fn expects(&self, case: &Case, backend: &str) -> bool {
        let tier = match (self.parts.contains(backend), selection::is_topology(backend)) {
            (true, _) => Tier::Two,
            (false, true) => Tier::Three,
            (false, false) => Tier::One,
        };
        self.expected.contains(case) && selection::is_played_on(case, backend, tier)
    }

    fn title(&self, backend: &String) -> String {
        if !self.parts.contains(backend) {
            return backend.clone();
        }
        let is_played = |case: &&Case| matches!(self.cell(case, backend), Cell::Passed(_) | Cell::Failed(_));
        let played = self.cases.iter().filter(is_played).count();
        format!("{backend}\n{played} of {}", self.cases.len())
    }

    /// Returns the sums. A missing expected result is a failure.
    pub fn counts(&self) -> Counts {
        self.counts_of(self.plays())
    }

    fn plays(&self) -> impl Iterator<Item = (&Case, &String)> {
        self.cases.iter().flat_map(|case| self.backends.iter().map(move |backend| (case, backend)))
    }

    fn counts_of<'a>(&self, plays: impl Iterator<Item = (&'a Case, &'a String)>) -> Counts {
        let mut counts = Counts::default();
        for (case, backend) in plays {
            match self.cell(case, backend) {
                Cell::Passed(_) => counts.passed += 1,
                Cell::Failed(_) | Cell::Missing => counts.failed += 1,
                Cell::Excused => counts.excused += 1,
                Cell::LeftOut(_) => counts.left_out += 1,
                Cell::NotRun => counts.not_run += 1,
            }
        }
        counts
    }

    /// Returns the short form: at most 60 lines without failures.
    pub fn brief(&self) -> String {
        let mut text = format!("{}\n", self.contracts());
        let mut slowest: Vec<_> = self.rows.values().filter(|row| row.left_out.is_none()).collect();
        slowest.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        text.push_str("\nslowest plays:\n");
        for row in slowest.into_iter().take(SLOWEST) {
            let _ = writeln!(text, "  {:6.1} s  {}::{}", row.seconds, row.backend, row.title());
        }
        let mut reasons = BTreeMap::<&str, usize>::new();
        for why in self.rows.values().filter_map(|row| row.left_out.as_deref()) {
            *reasons.entry(why).or_default() += 1;
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, plays)| std::cmp::Reverse(*plays));
        list(&mut text, "left out", reasons.iter().map(|(why, plays)| format!("{plays:5}  {why}")));
        let names: Vec<_> = self.left_out.iter().map(String::as_str).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "\nleft out, as asked: {}", names.join(", "));
        }
        list(&mut text, "excused by a pause of the machine", self.excused.iter().map(|row| self.excuse(row)));
        text.push_str(&self.failures());
        let Counts { excused, left_out, not_run, .. } = self.counts();
        let _ = writeln!(text, "\n{left_out} left out, {not_run} not run, {excused} excused");
        text
    }

    fn excuse(&self, row: &Row) -> String {
        let why = row.excused.as_deref().unwrap_or_default();
        let last = self.rows.get(&(row.case.clone(), row.adapter, row.backend.clone()));
        let since = match last {
            Some(Row { excused: Some(_), .. }) => "and no result",
            Some(Row { failure: Some(_), .. }) => "and it failed",
            _ => "and it passed",
        };
        format!("  {}::{}: {why}, {since}", row.backend, row.title())
    }

    fn contracts(&self) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        let mut header = vec!["contract".to_owned()];
        header.extend(self.backends.iter().map(|backend| backend.replace('-', "\n")));
        table.set_header(header);
        let mut contracts = Vec::new();
        for contract in self.cases.iter().map(|case| contract(case.clause)) {
            if !contracts.contains(&contract) {
                contracts.push(contract);
            }
        }
        let counts = |of: &dyn Fn(&Case) -> bool| {
            let cases = || self.cases.iter().filter(|case| of(case));
            let of_backend = |backend| shown(self.counts_of(cases().map(|case| (case, backend))));
            self.backends.iter().map(of_backend).collect::<Vec<_>>()
        };
        for name in contracts {
            let row = counts(&|case| contract(case.clause) == name);
            table.add_row([vec![name.to_owned()], row].concat());
        }
        let all = counts(&|_| true).into_iter().zip(&self.backends).map(|(all, backend)| {
            if self.parts.contains(backend) { format!("{all} of {}", self.cases.len()) } else { all }
        });
        table.add_row(["all".to_owned()].into_iter().chain(all));
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
        table
    }

    fn failures(&self) -> String {
        let (mut failures, mut missing) = (String::new(), String::new());
        for (case, backend) in self.plays() {
            match self.cell(case, backend) {
                Cell::Failed(why) => {
                    let _ = writeln!(failures, "\n{backend}::{}: {why}", case.title());
                }
                Cell::Missing => {
                    let _ = writeln!(missing, "  {backend}::{}", case.title());
                }
                Cell::Passed(_) | Cell::Excused | Cell::LeftOut(_) | Cell::NotRun => {}
            }
        }
        match missing.is_empty() {
            true => failures,
            false => format!("{failures}\nexpected, and without a result:\n{missing}"),
        }
    }

    /// Returns the table of cases x backends, the failures, and the cases without any play.
    pub fn matrix(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
        let mut header = vec!["clause".to_owned(), "case".to_owned(), "as".to_owned()];
        header.extend(self.backends.iter().map(|backend| self.title(backend)));
        header.extend(self.left_out.iter().cloned());
        table.set_header(header);
        let mut nowhere = Vec::new();
        for plays in self.cases.chunk_by(|case, next| case.name == next.name) {
            let not_run = |case: &Case, backend| matches!(self.cell(case, backend), Cell::NotRun);
            if plays.iter().all(|case| self.backends.iter().all(|backend| not_run(case, backend))) {
                nowhere.push(plays[0].name);
                continue;
            }
            let column =
                |cell: &dyn Fn(&Case) -> String| plays.iter().map(cell).collect::<Vec<_>>().join("\n");
            let mut cells = vec![plays[0].clause.to_owned(), plays[0].name.to_owned()];
            cells.push(column(&|case| {
                if case.adapted { case.adapter.to_string() } else { String::new() }
            }));
            for backend in &self.backends {
                cells.push(column(&|case| match self.cell(case, backend) {
                    Cell::Passed(row) => format!("ok {:.1}s", row.seconds),
                    Cell::LeftOut(why) => format!("- {why}"),
                    Cell::Failed(_) => "FAILED".to_owned(),
                    Cell::Excused => "excused".to_owned(),
                    Cell::Missing => "MISSING".to_owned(),
                    Cell::NotRun if self.parts.contains(backend) => "·".to_owned(),
                    Cell::NotRun => "not run".to_owned(),
                }));
            }
            cells.extend(self.left_out.iter().map(|_| "left out".to_owned()));
            table.add_row(cells);
        }
        let names: BTreeSet<_> = self.cases.iter().map(|case| case.name).collect();
        let nowhere = match nowhere.as_slice() {
            [] => String::new(),
            names => format!("\nnot run on any backend: {}\n", names.join(", ")),
        };
        let whole = self.backends.len() - self.parts.len();
        let parts = match self.parts.len() {
            0 => String::new(),
            parts => format!(
                "{parts} backends x their cases of tier 2, no more: {}\n",
                self.parts.iter().cloned().collect::<Vec<_>>().join(", ")
            ),
        };
        let excused: String =
            self.excused.iter().map(|row| format!("\nexcused: {}\n", self.excuse(row).trim())).collect();
        format!(
            "{table}\n{}{excused}{nowhere}\n{whole} backends x {} cases, {} with their adapters\n{parts}",
            self.failures(),
            names.len(),
            self.cases.len()
        )
    }
}

fn contract(clause: &str) -> &str {
    clause.split('-').next().unwrap_or(clause)
}

fn shown(counts: Counts) -> String {
    let Counts { passed, failed, excused, left_out, .. } = counts;
    let part = |count: usize, text: String| (count > 0).then_some(text);
    let parts = [
        part(failed, format!("{failed} FAILED")),
        part(excused, format!("{excused} excused")),
        part(passed, passed.to_string()),
        part(left_out, format!("-{left_out}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn list(text: &mut String, heading: &str, lines: impl ExactSizeIterator<Item = String>) {
    let left = lines.len().saturating_sub(LISTED);
    if lines.len() > 0 {
        let _ = writeln!(text, "\n{heading}:");
    }
    for line in lines.take(LISTED) {
        let _ = writeln!(text, "{line}");
    }
    if left > 0 {
        let _ = writeln!(text, "  and {left} more: see the matrix");
    }
}
