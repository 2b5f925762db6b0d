//! A value that all clients share.

use std::fmt;
use std::time::Duration;

use super::forward::{forward, keyed, recipe};
use super::guard::Guard;
use super::home::Home;
use super::iter::Answers;
use crate::contracts::{Cell, Expected, Version};
use crate::{Hold, Result, Stored};

recipe! {
    /// A value that all clients share. As [`latchwork::SharedValue`](crate::SharedValue).
    ///
    /// ```
    /// use latchwork::blocking;
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let limits = coordinator.shared_value("limits")?;
    /// let hold = coordinator.mutex("limits")?.acquire()?;
    /// limits.write_while(&hold, b"10 a second")?; // refused once another may hold
    /// for seen in limits.watch()? {
    ///     let seen = seen?.expect("it was written");
    ///     assert_eq!(&*seen.value, b"10 a second");
    ///     break; // or wait for the next one
    /// }
    /// # drop(hold);
    /// # coordinator.close() }
    /// ```
    SharedValue
}

impl SharedValue {
    /// From the next write by this handle on, it goes when nobody has used it for `time`. Validates,
    /// no I/O. As [`SharedValue::with_time_to_idle`](crate::SharedValue::with_time_to_idle), with its errors.
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.recipe = self.recipe.with_time_to_idle(time)?;
        Ok(self)
    }

    /// Writes it, whatever it was. As [`SharedValue::write`](crate::SharedValue::write), with its errors,
    /// and `InAsyncCode`.
    pub fn write(&self, value: impl AsRef<[u8]>) -> Result<Version> {
        self.home.run(self.recipe.write(value))
    }

    /// Writes it while `hold` stands on the server. As
    /// [`SharedValue::write_while`](crate::SharedValue::write_while), with its errors, and `InAsyncCode`.
    pub fn write_while<G: Hold>(&self, hold: &Guard<G>, value: impl AsRef<[u8]>) -> Result<Version> {
        self.home.run(self.recipe.write_while(&hold.hold, value))
    }

    /// Writes it if it is as expected. As
    /// [`SharedValue::compare_and_set`](crate::SharedValue::compare_and_set), with its errors, and
    /// `InAsyncCode`.
    pub fn compare_and_set(&self, expected: Expected, value: impl AsRef<[u8]>) -> Result<Stored> {
        self.home.run(self.recipe.compare_and_set(expected, value))
    }

    /// Watches it, once it was read. As [`SharedValue::watch`](crate::SharedValue::watch), with its errors,
    /// and `InAsyncCode`.
    pub fn watch(&self) -> Result<ValueWatch> {
        let watch = self.home.run(self.recipe.watch())?;
        Ok(ValueWatch { watch, key: self.key().to_owned(), home: self.home.clone() })
    }

    forward! { SharedValue:
        /// The value and its version; `None` if there is none.
        fn read() -> Option<Cell>;
        /// Deletes it. Answers whether it was there.
        fn delete() -> bool;
    }

    keyed!();
}

/// A live, cached view of a value. As [`latchwork::ValueWatch`](crate::ValueWatch).
#[must_use = "a view that is dropped at once watches nothing"]
pub struct ValueWatch {
    watch: crate::ValueWatch,
    key: String,
    home: Home,
}

impl ValueWatch {
    /// What was seen last, without a request. As [`ValueWatch::latest`](crate::ValueWatch::latest).
    ///
    /// # Errors
    /// Why the view has ended.
    pub fn latest(&self) -> Result<Option<Cell>> {
        self.watch.latest()
    }

    /// Whether the server is watched now.
    pub fn is_current(&self) -> bool {
        self.watch.is_current()
    }

    /// Waits until the value differs from the last answer, and answers it. As
    /// [`ValueWatch::changed`](crate::ValueWatch::changed), with its errors, and `InAsyncCode`.
    pub fn changed(&mut self) -> Result<Option<Cell>> {
        self.home.run(self.watch.changed())
    }

    /// As [`changed`](Self::changed), for this long at most.
    ///
    /// # Errors
    /// `Timeout` when nothing has changed until then. Others as [`changed`](Self::changed).
    pub fn changed_within(&mut self, within: Duration) -> Result<Option<Cell>> {
        self.home.run_within("watch", &self.key, within, self.watch.changed())
    }
}

/// The answers of [`changed`](ValueWatch::changed), until an error.
impl IntoIterator for ValueWatch {
    type Item = Result<Option<Cell>>;
    type IntoIter = Answers<Option<Cell>>;

    fn into_iter(self) -> Self::IntoIter {
        Answers::of(self.watch.into_stream(), &self.home)
    }
}

impl fmt::Debug for ValueWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watch.fmt(f)
    }
}
