//! Why there is no server, or why it does not do what was asked.

use std::io;
use std::time::Duration;

use crate::{Kind, Origin};

/// Why a server cannot be had or does not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// None was named, none can be run.
    #[error(
        "no {kind} server: {tried}. To get one, name a running server in {url}, or start a Docker engine (with the crate \
         feature `containers`), or install it (Debian and Ubuntu: apt-get install {packages}); ./test does the last by itself",
        url = kind.url_variable(), packages = kind.packages()
    )]
    NotFound {
        /// What was looked for.
        kind: Kind,
        /// What was tried, and how it failed.
        tried: String,
    },
    /// A certificate could not be made.
    #[cfg(feature = "tls")]
    #[error("a certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A program was started and ended before it answered.
    #[error("{kind} ended before it was ready ({status}); its log ends:\n{log}")]
    Died {
        /// What was started.
        kind: Kind,
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// A program was started and did not answer in time.
    #[error("{kind} was not ready after {waited:?}; its log ends:\n{log}")]
    NotReady {
        /// What was started.
        kind: Kind,
        /// How long it was given.
        waited: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// This server cannot do this: it is not ours, or it is a container, whose port would change.
    #[error("cannot {action} a {kind} server from the {origin}: ask for one of your own with Options::own")]
    NotPossible {
        /// What was asked.
        action: &'static str,
        /// Of which kind of server.
        kind: Kind,
        /// Where the server came from.
        origin: Origin,
    },
    /// The server is stopped, so there is no process to act on.
    #[error("the {kind} server is not running")]
    Stopped {
        /// Which kind of server.
        kind: Kind,
    },
    /// The ensemble did not come to the state that was awaited.
    #[error("the ensemble {what} within {waited:?}; the servers said: {states}")]
    Ensemble {
        /// What did not happen.
        what: &'static str,
        /// How long it was given.
        waited: Duration,
        /// What each server answered last, and the ends of their logs.
        states: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The container engine refused something after the container had started.
    #[error("container: {0}")]
    Container(String),
}

impl ServerError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| ServerError::Io { what, source }
    }
}
