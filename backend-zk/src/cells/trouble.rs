use latchwork_core::{Error, ErrorKind};

use crate::error::Fault;
use crate::layout::CellPaths;

pub(super) type Attempt<T> = std::result::Result<T, Trouble>;

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
            "the server's count of writes to {} or {} has wrapped around to -1, which the server cannot compare: write the value once \
             without a condition, or use another key",
            paths.cell, paths.directory
        );
        Trouble::Refused(Error::new(ErrorKind::Misconfigured, why))
    }

    pub(super) fn has_children(paths: &CellPaths) -> Self {
        let why = format!(
            "{} has children of another program, so it cannot be deleted or created again: delete the children first",
            paths.cell
        );
        Trouble::Refused(Error::new(ErrorKind::Conflict, why))
    }
}
