//! `summary`.

use std::path::Path;
use std::process::ExitCode;

use latchwork_conformance::report::{Counts, Summary};

use super::Outcome;

pub(super) fn summary(folder: &Path, backends: &[String], left_out: &[String]) -> Outcome<ExitCode> {
    let summary = Summary::read(folder, backends, left_out)
        .map_err(|error| format!("the results in {} cannot be read: {error}", folder.display()))?;
    let Counts { passed, failed, left_out } = summary.counts();
    print!("{}", summary.render());
    println!("{passed} passed, {failed} failed; {left_out} that a testbed cannot play");
    // No result at all is no success either.
    Ok(if passed > 0 && failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
