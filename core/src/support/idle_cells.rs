use crate::error::{Error, Result};

/// Refuses a cell that expires when it is idle (CELL-IDLE).
///
/// # Errors
/// `Unsupported`, always.
pub fn no_idle_cells<T>() -> Result<T> {
    let why = "time_to_idle: this backend keeps an unused value until a client deletes it";
    Err(Error::unsupported("idle_cells", why))
}
