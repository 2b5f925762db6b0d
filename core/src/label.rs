//! Labels: they show people which client a node on a server belongs to.

use std::sync::Arc;

use crate::contracts::{MAX_LABEL_BYTES, NodeId};
use crate::error::{Error, Result};
use crate::shown::hidden;

/// Checks a label. People read it on a server as one line of text, and a backend may append its own data
/// after a NUL.
///
/// # Errors
/// `InvalidArgument` (`label`).
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

/// Returns host, process id and a short random client id (in a container the process id is always 1).
pub(crate) fn default_label() -> Arc<str> {
    let random = NodeId::random().to_string();
    format!("{}:{}:{}", host(), std::process::id(), &random[..6]).into()
}

#[cfg(unix)]
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
pub(crate) fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "host".to_owned())
}

/// Refuses invisible characters, such as the line end after a password that was read from a file. The error
/// contains only the character, so that it shows no other part of a password.
pub(crate) fn check_visible(argument: &'static str, text: &str) -> Result<()> {
    match hidden(text) {
        None => Ok(()),
        Some(c) if c.is_control() => {
            Err(Error::invalid(argument, format!("contains a control character, U+{:04X}", u32::from(c))))
        }
        Some(c) => {
            let why = "which changes the text direction or ends a line";
            Err(Error::invalid(argument, format!("contains U+{:04X}, {why}", u32::from(c))))
        }
    }
}
