//! What became of the cases: stored by each run, merged into one summary of backends x cases x adapters.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::adapter::Adapter;
use crate::case::Case;
use crate::cases;
use crate::played::Played;

/// The environment variable that names the folder in which a run stores its results.
pub const VARIABLE: &str = "LATCHWORK_REPORTS";

/// What became of one case, with one adapter, on one backend.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The backend.
    pub backend: String,
    /// The case.
    pub case: String,
    /// With what it was played.
    #[serde(default)]
    pub adapter: Adapter,
    /// Its clause.
    pub clause: String,
    /// The failure, or `None` when it did not fail.
    pub failure: Option<String>,
    /// Why it was not played: what its testbed has not.
    #[serde(default)]
    pub left_out: Option<String>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Row {
    /// What became of `case`.
    pub fn new(backend: &str, case: &Case, outcome: &Result<Played, String>, took: Duration) -> Self {
        let (failure, left_out) = match outcome {
            Ok(Played::Whole) => (None, None),
            Ok(Played::LeftOut(why)) => (None, Some((*why).to_owned())),
            Err(message) => (Some(message.clone()), None),
        };
        Self {
            backend: backend.to_owned(),
            case: case.name.to_owned(),
            adapter: case.adapter,
            clause: case.clause.to_owned(),
            failure,
            left_out,
            seconds: took.as_secs_f64(),
        }
    }

    /// The case and its adapter, as the test is named.
    pub fn title(&self) -> String {
        match self.adapter {
            Adapter::Mutex => self.case.clone(),
            adapter => format!("{}@{adapter}", self.case),
        }
    }
}

/// Stores the rows of a run where [`VARIABLE`] says; nowhere when it is not set.
///
/// # Errors
/// When the folder cannot be written.
pub fn store(rows: &[Row]) -> io::Result<()> {
    let (Some(folder), Some(first)) = (std::env::var_os(VARIABLE), rows.first()) else { return Ok(()) };
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{}.json", first.backend));
    fs::write(file, serde_json::to_string_pretty(rows)?)
}

/// What became of the cases, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Played to their end.
    pub passed: usize,
    /// Failed, or without a result.
    pub failed: usize,
    /// Not played, since the testbed has not what they need.
    pub left_out: usize,
}

/// The summary of all rows stored in a folder.
#[derive(Debug)]
pub struct Summary {
    rows: BTreeMap<(String, Adapter, String), Row>,
    backends: BTreeSet<String>,
    left_out: BTreeSet<String>,
}

impl Summary {
    /// Reads a folder. `expected` backends must each have a result for every case with every adapter; `left_out` ones are shown as left out.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(folder: &Path, expected: &[String], left_out: &[String]) -> io::Result<Self> {
        let mut summary = Self {
            rows: BTreeMap::new(),
            backends: expected.iter().cloned().collect(),
            left_out: left_out.iter().cloned().collect(),
        };
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let rows: Vec<Row> = serde_json::from_str(&fs::read_to_string(&path)?)?;
            for row in rows {
                summary.backends.insert(row.backend.clone());
                summary.rows.insert((row.case.clone(), row.adapter, row.backend.clone()), row);
            }
        }
        // A result that is there is shown, whatever was said before.
        let Self { backends, left_out, .. } = &mut summary;
        left_out.retain(|name| !backends.contains(name));
        Ok(summary)
    }

    /// The sums. A missing result is a failure (nothing is left out in silence), and what is left of a case that there is no more
    /// counts for nothing.
    pub fn counts(&self) -> Counts {
        let cases = cases::all();
        let mut counts = Counts::default();
        for row in cases.iter().flat_map(|case| self.backends.iter().map(|backend| self.row(case, backend))) {
            match row {
                Some(Row { failure: None, left_out: None, .. }) => counts.passed += 1,
                Some(Row { failure: None, .. }) => counts.left_out += 1,
                _ => counts.failed += 1,
            }
        }
        counts
    }

    fn row(&self, case: &Case, backend: &str) -> Option<&Row> {
        self.rows.get(&(case.name.to_owned(), case.adapter, backend.to_owned()))
    }

    /// A table of cases x backends with a line for each adapter, and the failures. [`counts`](Summary::counts) has the sums.
    pub fn render(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
        let mut header = vec!["clause".to_owned(), "case".to_owned(), "as".to_owned()];
        header.extend(self.backends.iter().cloned());
        header.extend(self.left_out.iter().cloned());
        table.set_header(header);
        let mut failures = String::new();
        let cases = cases::all();
        // All of a case in one row of the table, a line for each adapter.
        for plays in cases.chunk_by(|case, next| case.name == next.name) {
            let column =
                |cell: &mut dyn FnMut(&Case) -> String| plays.iter().map(cell).collect::<Vec<_>>().join("\n");
            let mut cells = vec![plays[0].clause.to_owned(), plays[0].name.to_owned()];
            cells.push(column(&mut |case| {
                if case.adapted { case.adapter.to_string() } else { String::new() }
            }));
            for backend in &self.backends {
                cells.push(column(&mut |case| match self.row(case, backend) {
                    Some(Row { failure: None, left_out: Some(why), .. }) => format!("- {why}"),
                    Some(Row { failure: None, seconds, .. }) => format!("ok {seconds:.1}s"),
                    Some(Row { failure: Some(why), .. }) => {
                        failures.push_str(&format!("\n{backend}::{}: {why}\n", case.title()));
                        "FAILED".to_owned()
                    }
                    None => "MISSING".to_owned(),
                }));
            }
            cells.extend(self.left_out.iter().map(|_| "left out".to_owned()));
            table.add_row(cells);
        }
        let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        format!(
            "{table}\n{failures}\n{} backends x {} cases, {} with their adapters\n",
            self.backends.len(),
            names.len(),
            cases.len()
        )
    }
}
