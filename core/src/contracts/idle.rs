use std::time::Duration;

use crate::error::{Error, Result};

/// The time that an unused cell stays (CELL-IDLE): from 1 second to 366 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeToIdle(Duration);

impl TimeToIdle {
    /// The shortest time: servers count in whole seconds.
    pub const SHORTEST: Duration = Duration::from_secs(1);
    /// The longest time.
    pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

    /// Creates it from a duration.
    ///
    /// # Errors
    /// `InvalidArgument` (`time_to_idle`): the time is out of range.
    pub fn new(time: Duration) -> Result<Self> {
        if !(Self::SHORTEST..=Self::LONGEST).contains(&time) {
            let (shortest, longest) = (Self::SHORTEST, Self::LONGEST);
            let why = format!("must be from {shortest:?} to {longest:?}, not {time:?}");
            return Err(Error::invalid("time_to_idle", why));
        }
        Ok(Self(time))
    }

    /// Returns it as a duration.
    pub fn get(self) -> Duration {
        self.0
    }

    /// Returns the time for which a backend need not report uses after a reported use. The server counts this
    /// time in addition.
    pub fn unreported(self) -> Duration {
        self.0 / 4
    }
}
