use std::sync::Arc;

use crate::contracts::{MAX_LABEL_BYTES, NodeId};
use crate::error::{Error, Result};
use crate::shown::hidden;

/// People read a label as one line of text, and a backend may append its own data after a NUL.
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

/// With a random part, because in a container the process id is always 1.
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

/// A password from a file may end with a line end. The error shows no other part of it.
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
