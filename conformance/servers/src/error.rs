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
        /// The kind.
        kind: Kind,
        /// The failures of the tried sources.
        tried: String,
    },
    /// A certificate was not created.
    #[cfg(feature = "tls")]
    #[error("a certificate was not created: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A program ended before it answered.
    #[error("{kind} ended before it was ready ({status}); its log ends:\n{log}")]
    Died {
        /// The kind.
        kind: Kind,
        /// Its status.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// A program did not answer in time.
    #[error("{kind} was not ready after {waited:?}; its log ends:\n{log}")]
    NotReady {
        /// The kind.
        kind: Kind,
        /// The waiting time.
        waited: Duration,
        /// The end of its log.
        log: String,
    },
    /// The origin does not allow this action. The port of a container would change.
    #[error("cannot {action} a {kind} server from the {origin}: ask for a separate one with Options::own")]
    NotPossible {
        /// The action.
        action: &'static str,
        /// The kind.
        kind: Kind,
        /// The source.
        origin: Origin,
    },
    /// The server does not run.
    #[error("the {kind} server is not running")]
    Stopped {
        /// The kind.
        kind: Kind,
    },
    /// The ensemble did not reach a state in time.
    #[error("the ensemble {what} within {waited:?}; the servers said: {states}")]
    Ensemble {
        /// The missing state.
        what: &'static str,
        /// The waiting time.
        waited: Duration,
        /// The servers' last answers.
        states: String,
    },
    /// The system refused an operation.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The error.
        source: io::Error,
    },
    /// The container engine refused an operation.
    #[error("container: {0}")]
    Container(String),
}

impl ServerError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| ServerError::Io { what, source }
    }
}
