use std::fmt;
use std::time::Instant;

use parking_lot::Mutex;

use crate::seen::{self, Links};
use crate::shown::in_millis;

/// Logs the break of a client's connection with its cause, and the repair with its duration, once for each
/// outage and in the same words on all backends.
#[derive(Debug)]
pub struct LinkLog {
    backend: &'static str,
    host: String,
    links: Links,
    down: Mutex<Option<Instant>>,
}

impl LinkLog {
    /// Creates the log of an open connection. `host` is `host:port`, or a list with commas.
    pub fn new(backend: &'static str, host: impl Into<String>) -> Self {
        Self { backend, host: host.into(), links: Links::new(backend), down: Mutex::default() }
    }

    /// Returns the host and port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Logs that the connection broke, with the cause.
    pub fn broken(&self, cause: &dyn fmt::Display) {
        let mut down = self.down.lock();
        if down.is_none() {
            *down = Some(Instant::now());
            self.links.broken();
            seen::broken(self.backend, &self.host, cause);
        }
    }

    /// Logs that the connection works again.
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
