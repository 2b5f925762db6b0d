//! Labels: who holds, for people who look at a server.

use std::sync::Arc;

use crate::contracts::{MAX_LABEL_BYTES, NodeId};
use crate::error::{Error, Result};
use crate::shown::hidden;

/// Checks a label. People read it on a server, in one line and in its order; and behind a NUL a backend writes what is its own.
///
/// # Errors
/// `InvalidArgument` naming `label`.
pub(crate) fn check(label: &str) -> Result<()> {
    let refuse = |why: String| Err(Error::invalid("label", why));
    if label.is_empty() {
        return refuse("must not be empty".to_owned());
    }
    if label.len() > MAX_LABEL_BYTES {
        return refuse(format!("has {} bytes, at most {MAX_LABEL_BYTES} are allowed", label.len()));
    }
    check_visible("label", label)
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

/// Refuses what nobody sees who reads the text: a line end behind a password that was read from a file, say.
///
/// The character is named, which of a password is no more than that.
pub(crate) fn check_visible(argument: &'static str, text: &str) -> Result<()> {
    match hidden(text) {
        None => Ok(()),
        Some(c) if c.is_control() => {
            Err(Error::invalid(argument, format!("has a control character in it, U+{:04X}", u32::from(c))))
        }
        Some(c) => {
            let why = "which changes the direction of the text around it or ends a line";
            Err(Error::invalid(argument, format!("has U+{:04X} in it, {why}", u32::from(c))))
        }
    }
}
