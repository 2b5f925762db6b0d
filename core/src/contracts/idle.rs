//! How long a cell stays that nobody uses.

use std::time::Duration;

use crate::error::{Error, Result};

/// How long a cell stays that nobody uses (CELL-IDLE): a second to 366 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeToIdle(Duration);

impl TimeToIdle {
    /// The shortest: servers count in whole seconds.
    pub const SHORTEST: Duration = Duration::from_secs(1);
    /// The longest.
    pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

    /// This time.
    ///
    /// # Errors
    /// `InvalidArgument` naming `time_to_idle`.
    pub fn new(time: Duration) -> Result<Self> {
        if !(Self::SHORTEST..=Self::LONGEST).contains(&time) {
            let (shortest, longest) = (Self::SHORTEST, Self::LONGEST);
            let why = format!("must be from {shortest:?} to {longest:?}, not {time:?}");
            return Err(Error::invalid("time_to_idle", why));
        }
        Ok(Self(time))
    }

    /// As a duration.
    pub fn get(self) -> Duration {
        self.0
    }

    /// How long a backend may leave uses unreported that follow one which it has reported: a quarter
    /// of the time. It adds as much to the time that the server counts.
    pub fn unreported(self) -> Duration {
        self.0 / 4
    }
}
