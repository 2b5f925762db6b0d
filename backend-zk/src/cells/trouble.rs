//! Why a cell could not be read or written.

use latchwork_core::{Error, ErrorKind};

use crate::driver::Stat;
use crate::error::Fault;
use crate::layout::CellPaths;
use crate::lease::SessionLease;

pub(super) type Attempt<T> = std::result::Result<T, Trouble>;

/// What failed: a request, or a cell that cannot be changed so.
#[derive(Debug)]
pub(super) enum Trouble {
    Fault(Fault),
    Refused(Error),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Trouble::Fault(fault)
    }
}

/// The stat of what a transaction has written, which the session has seen from then on.
pub(super) fn written_stat(lease: &SessionLease, written: Option<Stat>) -> Attempt<Stat> {
    let Some(stat) = written else {
        let why = "the server has written a cell, and answered no stat of it";
        return Err(Trouble::Refused(Error::new(ErrorKind::OutcomeUnknown, why)));
    };
    lease.saw(stat.mzxid);
    Ok(stat)
}

pub(super) fn used_up(paths: &CellPaths) -> Error {
    let why = format!(
        "the server's count of writes to {} or {} has come around to -1, which it does not compare: write the cell once without a \
         condition, or make another one",
        paths.cell, paths.directory
    );
    Error::new(ErrorKind::Misconfigured, why)
}

pub(super) fn has_children(paths: &CellPaths) -> Error {
    let why = format!("{} has children of another program: it cannot be deleted or made anew", paths.cell);
    Error::new(ErrorKind::Conflict, why)
}
