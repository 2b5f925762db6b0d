use serde::{Deserialize, Serialize};

use crate::hold_record::HoldRecord;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// The call, on the clock of the hold.
    pub(super) asked: u64,
    #[serde(flatten)]
    pub(super) held: HoldRecord,
}
