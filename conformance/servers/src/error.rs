//! The errors of servers.

use std::io;
use std::time::Duration;

use crate::{Kind, Origin};

/// The reason why a server does not start or refuses an action.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No server was named, and none can be started.
    #[error(
        "no {kind} server: {tried}. Set {url} to the URL of a running server, or start a Docker engine (with the crate feature \
         `containers`), or install the server (Debian and Ubuntu: apt-get install {packages}), as ./test does",
        url = kind.url_variable(), packages = kind.packages()
    )]
    NotFound {
        /// The kind of server.
        kind: Kind,
        /// The sources that were tried, and their failures.
        tried: String,
    },
    /// A certificate was not created.
    #[cfg(feature = "tls")]
    #[error("a certificate was not created: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A program ended before it answered.
    #[error("{kind} ended before it was ready ({status}); its log ends:\n{log}")]
    Died {
        /// The kind of server.
        kind: Kind,
        /// The exit status.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// A program did not answer in time.
    #[error("{kind} was not ready after {waited:?}; its log ends:\n{log}")]
    NotReady {
        /// The kind of server.
        kind: Kind,
        /// The time that it had.
        waited: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// The server does not support this action: this process did not start it, or it is a container, whose port would change.
    #[error("cannot {action} a {kind} server from the {origin}: ask for a separate one with Options::own")]
    NotPossible {
        /// The action.
        action: &'static str,
        /// The kind of server.
        kind: Kind,
        /// The source of the server.
        origin: Origin,
    },
    /// The server is stopped, so it has no process.
    #[error("the {kind} server is not running")]
    Stopped {
        /// The kind of server.
        kind: Kind,
    },
    /// The ensemble did not reach a state in time.
    #[error("the ensemble {what} within {waited:?}; the servers said: {states}")]
    Ensemble {
        /// The state, as a verb with its object.
        what: &'static str,
        /// The time that it had.
        waited: Duration,
        /// The last answer of each server, and the ends of their logs.
        states: String,
    },
    /// The system refused an operation.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The container engine refused an operation on a started container.
    #[error("container: {0}")]
    Container(String),
}

impl ServerError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| ServerError::Io { what, source }
    }
}
