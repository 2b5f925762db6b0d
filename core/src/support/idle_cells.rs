//! The answer of a backend that has no idle cells.

use crate::error::{Error, Result};

/// Refuses a cell that is to go when nobody uses it (CELL-IDLE).
///
/// # Errors
/// `Unsupported`, always.
pub fn no_idle_cells<T>() -> Result<T> {
    let why = "time_to_idle: on this backend what nobody uses stays until it is deleted";
    Err(Error::unsupported("idle_cells", why))
}
