//! Results of a run, as JSON.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::adapter::Adapter;
use crate::case::Case;
use crate::played::Played;

/// The folder in which runs store results.
pub const VARIABLE: &str = "LATCHWORK_REPORTS";

/// The result of a play on a backend.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The backend.
    pub backend: String,
    /// The case.
    pub case: String,
    /// The adapter.
    #[serde(default)]
    pub adapter: Adapter,
    /// The clause.
    pub clause: String,
    /// The failure.
    pub failure: Option<String>,
    /// The missing feature, if the case was left out.
    #[serde(default)]
    pub left_out: Option<String>,
    /// The pause of the machine that excuses the failure. The second play has another row.
    #[serde(default)]
    pub excused: Option<String>,
    /// The duration in seconds.
    pub seconds: f64,
}

impl Row {
    /// Creates the row of a result.
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
            excused: None,
            seconds: took.as_secs_f64(),
        }
    }

    /// Returns the name of the test.
    pub fn title(&self) -> String {
        self.adapter.title(&self.case)
    }
}

/// Stores rows in a new file of the folder [`VARIABLE`], if it is set.
///
/// # Errors
/// If the folder cannot be written.
pub fn store(rows: &[Row]) -> io::Result<()> {
    let (Some(folder), Some(first)) = (std::env::var_os(VARIABLE), rows.first()) else { return Ok(()) };
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let file = folder.join(format!("{}-{now}-{}.json", first.backend, std::process::id()));
    fs::write(file, serde_json::to_string_pretty(rows)?)
}

/// Returns the rows of a report, or of a folder of reports.
///
/// # Errors
/// If a file is not a report.
pub fn read(path: &Path) -> io::Result<Vec<Row>> {
    if !path.is_dir() {
        let text = fs::read_to_string(path).map_err(|error| named(path, error))?;
        return serde_json::from_str(&text).map_err(|error| named(path, error.into()));
    }
    let files: io::Result<Vec<_>> = fs::read_dir(path)?.map(|file| Ok(file?.path())).collect();
    let mut files = files?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    // In the order of their runs.
    files.sort();
    let rows: io::Result<Vec<_>> = files.iter().map(|file| read(file)).collect();
    Ok(rows?.concat())
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
