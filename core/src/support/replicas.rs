use crate::error::{Error, Result};

/// Refuses to [confirm](crate::contracts::Node::confirm) an acquisition, for a backend without replicas.
///
/// # Errors
/// `Unsupported`, always.
pub fn no_replicas() -> Result<()> {
    let why = "min_replicas: this backend has no replicas that confirm an acquisition";
    Err(Error::unsupported("confirms_on_replicas", why))
}
