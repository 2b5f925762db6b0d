//! Labels: who holds, for people who look at a server.

use std::sync::Arc;

use crate::contracts::{MAX_LABEL_BYTES, NodeId};
use crate::error::{Error, Result};

/// Checks a label's length.
///
/// # Errors
/// `InvalidArgument` naming `label`.
pub(crate) fn check(label: &str) -> Result<()> {
    if label.len() <= MAX_LABEL_BYTES {
        return Ok(());
    }
    Err(Error::invalid("label", format!("has {} bytes, at most {MAX_LABEL_BYTES} are allowed", label.len())))
}

/// Host, process id and a short random client id (a container's pid is always 1).
pub(crate) fn default_label() -> Arc<str> {
    let random = NodeId::random().to_string();
    format!("{}:{}:{}", host(), std::process::id(), &random[..6]).into()
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "host".to_owned())
}
