//! A granted hold, and the time of its call.

use serde::{Deserialize, Serialize};

use crate::hold_record::HoldRecord;

/// A hold, and the time of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// The time of the call, on the clock of the hold.
    pub(super) asked: u64,
    /// The certain time of the hold, and its key. A hold that has just started has no length.
    #[serde(flatten)]
    pub(super) held: HoldRecord,
}
