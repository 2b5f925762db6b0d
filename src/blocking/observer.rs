//! Who leads, as it changes.

use std::fmt;
use std::time::Duration;

use super::home::Home;
use super::iter::Answers;
use crate::{Leading, Result};

/// Who leads, as it changes. As [`latchwork::Observer`](crate::Observer).
#[must_use = "an observer that is dropped at once observes nothing"]
pub struct Observer {
    observer: crate::Observer,
    key: String,
    home: Home,
}

impl Observer {
    pub(super) fn new(observer: crate::Observer, key: &str, home: &Home) -> Self {
        Self { observer, key: key.to_owned(), home: home.clone() }
    }

    /// Who was seen to lead last, without a request. As [`Observer::latest`](crate::Observer::latest).
    ///
    /// # Errors
    /// Why the observer has ended.
    pub fn latest(&self) -> Result<Option<Leading>> {
        self.observer.latest()
    }

    /// Whether the server is watched now.
    pub fn is_current(&self) -> bool {
        self.observer.is_current()
    }

    /// Waits until another leads, or nobody does, and answers who. As
    /// [`Observer::changed`](crate::Observer::changed), with its errors, and `InAsyncCode`.
    pub fn changed(&mut self) -> Result<Option<Leading>> {
        self.home.run(self.observer.changed())
    }

    /// As [`changed`](Self::changed), for this long at most.
    ///
    /// # Errors
    /// `Timeout` when nothing has changed until then. Others as [`changed`](Self::changed).
    pub fn changed_within(&mut self, within: Duration) -> Result<Option<Leading>> {
        self.home.run_within("observe", &self.key, within, self.observer.changed())
    }
}

/// The answers of [`changed`](Observer::changed), until an error.
impl IntoIterator for Observer {
    type Item = Result<Option<Leading>>;
    type IntoIter = Answers<Option<Leading>>;

    fn into_iter(self) -> Self::IntoIter {
        Answers::of(self.observer.into_stream(), &self.home)
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.observer.fmt(f)
    }
}
