//! What a process was granted, and when it had asked for it.

use serde::{Deserialize, Serialize};

use crate::hold_record::HoldRecord;

/// A hold, and when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// When it was asked for, on the clock of the hold.
    pub(super) asked: u64,
    /// For how long it certainly held, and what: of one that has just begun, for no time.
    #[serde(flatten)]
    pub(super) held: HoldRecord,
}
