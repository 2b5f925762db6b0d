//! What the log says about a client's connection.

use std::fmt;
use std::time::Instant;

use parking_lot::Mutex;

use crate::seen::{self, Links};
use crate::shown::in_millis;

/// Logs when a client's connection breaks, why, and after how long it is back: once for each
/// outage, however often it is noticed. Backends share it, so that their logs use the same words.
#[derive(Debug)]
pub struct LinkLog {
    backend: &'static str,
    host: String,
    links: Links,
    down: Mutex<Option<Instant>>,
}

impl LinkLog {
    /// The log of a backend's connection that stands. `host` is the server's host and port, or a
    /// list with commas, as in a URL.
    pub fn new(backend: &'static str, host: impl Into<String>) -> Self {
        Self { backend, host: host.into(), links: Links::new(backend), down: Mutex::default() }
    }

    /// Host and port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The connection broke, for this reason.
    pub fn broken(&self, cause: &dyn fmt::Display) {
        let mut down = self.down.lock();
        if down.is_none() {
            *down = Some(Instant::now());
            self.links.broken();
            seen::broken(self.backend, &self.host, cause);
        }
    }

    /// The connection works.
    pub fn mended(&self) {
        if let Some(since) = self.down.lock().take() {
            self.links.mended();
            seen::mended(self.backend, &self.host, in_millis(since.elapsed()));
        }
    }
}

impl Drop for LinkLog {
    fn drop(&mut self) {
        if self.down.get_mut().is_some() {
            self.links.given_up();
        }
    }
}
