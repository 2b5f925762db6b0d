//! The reports of one run or several as one table of backends x cases x adapters.

use std::collections::{BTreeMap, BTreeSet};

use crate::adapter::Adapter;
use crate::case::Case;
use crate::cases::{self, ON_EVERY_TOPOLOGY};
use crate::report::Row;
use crate::selection::Selection;

/// What became of the cases, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Played to their end.
    pub passed: usize,
    /// Failed, or expected and without a result.
    pub failed: usize,
    /// Not played, since the testbed has not what they need.
    pub left_out: usize,
    /// Neither expected nor run.
    pub not_run: usize,
}

/// What a summary expects: a result of every case of the selection on every backend.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// These, and those that have a result.
    pub backends: Vec<String>,
    /// Of these the cases of every topology alone, unless they are among `backends`.
    pub parts: Vec<String>,
    /// These cases.
    pub cases: Selection,
    /// Shown as left out, unless they have a result.
    pub left_out: Vec<String>,
}

/// What there is to say of one case on one backend.
enum Cell<'a> {
    Passed(&'a Row),
    Failed(&'a str),
    LeftOut(&'a str),
    Missing,
    NotRun,
}

/// The summary of reports.
#[derive(Debug)]
pub struct Summary {
    rows: BTreeMap<(String, Adapter, String), Row>,
    backends: BTreeSet<String>,
    parts: BTreeSet<String>,
    left_out: BTreeSet<String>,
    expected: Selection,
    cases: Vec<Case>,
}

impl Summary {
    /// Puts rows together. Of several rows of one case a failure counts, else the last. Cases of
    /// the long tier are part of it when one has a result, or in the long tier.
    pub fn of(rows: impl IntoIterator<Item = Row>, expected: Expected) -> Self {
        let mut backends: BTreeSet<_> = expected.backends.into_iter().collect();
        let parts: BTreeSet<_> = expected.parts.into_iter().filter(|name| !backends.contains(name)).collect();
        backends.extend(parts.iter().cloned());
        let mut merged = BTreeMap::<_, Row>::new();
        for row in rows {
            backends.insert(row.backend.clone());
            let key = (row.case.clone(), row.adapter, row.backend.clone());
            if merged.get(&key).is_none_or(|known| known.failure.is_none()) {
                merged.insert(key, row);
            }
        }
        // A result that is there is shown, whatever was said before.
        let left_out = expected.left_out.into_iter().filter(|name| !backends.contains(name)).collect();
        let mut cases = cases::of_both_tiers();
        let names: BTreeSet<_> = merged.keys().map(|(case, ..)| case.as_str()).collect();
        cases.retain(|case| !case.long || cases::is_long() || names.contains(case.name));
        Self { rows: merged, backends, parts, left_out, expected: expected.cases, cases }
    }

    fn cell(&self, case: &Case, backend: &str) -> Cell<'_> {
        match self.rows.get(&(case.name.to_owned(), case.adapter, backend.to_owned())) {
            Some(Row { failure: Some(why), .. }) => Cell::Failed(why),
            Some(Row { left_out: Some(why), .. }) => Cell::LeftOut(why),
            Some(row) => Cell::Passed(row),
            None if self.expects(case, backend) => Cell::Missing,
            None => Cell::NotRun,
        }
    }

    fn expects(&self, case: &Case, backend: &str) -> bool {
        self.expected.contains(case) && (!self.parts.contains(backend) || case.is_on_every_topology())
    }

    /// A backend's name, and of a part how much was played.
    fn title(&self, backend: &String) -> String {
        if !self.parts.contains(backend) {
            return backend.clone();
        }
        let is_played = |case: &&Case| matches!(self.cell(case, backend), Cell::Passed(_) | Cell::Failed(_));
        let played = self.cases.iter().filter(is_played).count();
        format!("{backend}\n{played} of {}", self.cases.len())
    }

    /// The sums. A missing result of what was expected is a failure, so that nothing is left out in
    /// silence; a row of a case that there is no more counts for nothing.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (case, backend) in
            self.cases.iter().flat_map(|case| self.backends.iter().map(move |backend| (case, backend)))
        {
            match self.cell(case, backend) {
                Cell::Passed(_) => counts.passed += 1,
                Cell::Failed(_) | Cell::Missing => counts.failed += 1,
                Cell::LeftOut(_) => counts.left_out += 1,
                Cell::NotRun => counts.not_run += 1,
            }
        }
        counts
    }

    /// A table of cases x backends with a line for each adapter, the failures, and what was run
    /// nowhere. [`counts`](Summary::counts) has the sums.
    pub fn render(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
        let mut header = vec!["clause".to_owned(), "case".to_owned(), "as".to_owned()];
        header.extend(self.backends.iter().map(|backend| self.title(backend)));
        header.extend(self.left_out.iter().cloned());
        table.set_header(header);
        let (mut failures, mut nowhere) = (String::new(), Vec::new());
        // All of a case in one row of the table, a line for each adapter.
        for plays in self.cases.chunk_by(|case, next| case.name == next.name) {
            let not_run = |case: &Case, backend| matches!(self.cell(case, backend), Cell::NotRun);
            if plays.iter().all(|case| self.backends.iter().all(|backend| not_run(case, backend))) {
                nowhere.push(plays[0].name);
                continue;
            }
            let column =
                |cell: &mut dyn FnMut(&Case) -> String| plays.iter().map(cell).collect::<Vec<_>>().join("\n");
            let mut cells = vec![plays[0].clause.to_owned(), plays[0].name.to_owned()];
            cells.push(column(&mut |case| {
                if case.adapted { case.adapter.to_string() } else { String::new() }
            }));
            for backend in &self.backends {
                cells.push(column(&mut |case| match self.cell(case, backend) {
                    Cell::Passed(row) => format!("ok {:.1}s", row.seconds),
                    Cell::LeftOut(why) => format!("- {why}"),
                    Cell::Failed(why) => {
                        failures.push_str(&format!("\n{backend}::{}: {why}\n", case.title()));
                        "FAILED".to_owned()
                    }
                    Cell::Missing => "MISSING".to_owned(),
                    // Most of a part's column.
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
                "{parts} topologies x the {} cases of every topology, no more: {}\n",
                ON_EVERY_TOPOLOGY.len(),
                self.parts.iter().cloned().collect::<Vec<_>>().join(", ")
            ),
        };
        format!(
            "{table}\n{failures}{nowhere}\n{whole} backends x {} cases, {} with their adapters\n{parts}",
            names.len(),
            self.cases.len()
        )
    }
}
