//! Why a cell could not be read or written.

use latchwork_core::{Error, ErrorKind};

use crate::error::Fault;
use crate::layout::CellPaths;

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

impl Trouble {
    pub(super) fn used_up(paths: &CellPaths) -> Self {
        let why = format!(
            "the server's count of writes to {} or {} has come around to -1, which it does not compare: write the cell once \
             without a condition, or make another one",
            paths.cell, paths.directory
        );
        Trouble::Refused(Error::new(ErrorKind::Misconfigured, why))
    }

    pub(super) fn has_children(paths: &CellPaths) -> Self {
        let why =
            format!("{} has children of another program: it cannot be deleted or made anew", paths.cell);
        Trouble::Refused(Error::new(ErrorKind::Conflict, why))
    }
}
