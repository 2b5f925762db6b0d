use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::SingleFlight;
use latchwork_core::{Error, ErrorKind, Moment, Result};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::Settings;
use crate::driver::{ConfirmingConnection, Place};
use crate::scripts::{self, Call};
use crate::watch::Attempt;

#[derive(Debug)]
pub(crate) struct Confirmations {
    settings: Settings,
    servers: Mutex<HashMap<Place, Arc<OfServer>>>,
}

impl Confirmations {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, servers: Mutex::default() }
    }

    pub(super) fn at(&self, place: Place) -> Arc<OfServer> {
        let new = || {
            let settings = match &place {
                Some(host) => self.settings.of_shard((**host).clone()),
                None => self.settings.clone(),
            };
            let (asked, connection, rounds) = (Mutex::default(), Mutex::default(), SingleFlight::default());
            Arc::new(OfServer { settings, place: place.clone(), asked, connection, rounds })
        };
        Arc::clone(self.servers.lock().entry(place.clone()).or_insert_with(new))
    }

    pub(super) fn close(&self) {
        self.servers.lock().values().for_each(|server| drop(server.connection.lock().take()));
    }
}

#[derive(Debug)]
pub(super) struct OfServer {
    pub(super) settings: Settings,
    pub(super) place: Place,
    pub(super) asked: Mutex<Vec<Ask>>,
    // `None` while a round is running.
    pub(super) connection: Mutex<Option<ConfirmingConnection>>,
    pub(super) rounds: SingleFlight<()>,
}

#[derive(Debug)]
pub(super) enum Heard {
    Nothing,
    Fewer(u64),
    Failed(Error),
    Confirmed,
    Refused(Error),
    Moved,
}

impl Heard {
    pub(super) fn answer(&self) -> Option<Result<()>> {
        match self {
            Heard::Confirmed => Some(Ok(())),
            Heard::Refused(error) => Some(Err(error.clone())),
            Heard::Nothing | Heard::Fewer(_) | Heard::Failed(_) | Heard::Moved => None,
        }
    }

    pub(super) fn is_last(&self) -> bool {
        matches!(self, Heard::Confirmed | Heard::Refused(_) | Heard::Moved)
    }

    pub(super) fn late(&self, replicas: u32, within: Duration) -> Error {
        let within = within.as_millis();
        let unknown =
            format!("the server did not report within {within} ms whether {replicas} replicas have the lock");
        let (what, why) = match self {
            Heard::Fewer(have) => {
                (format!("{have} of {replicas} replicas confirmed it within {within} ms"), None)
            }
            Heard::Failed(error) => (unknown, Some(error)),
            _ => (unknown, None),
        };
        let what = format!("{what}; the node is being released");
        Error::new(ErrorKind::Unavailable, what).because_of(why.cloned())
    }
}

#[derive(Debug)]
pub(super) struct Ask {
    pub(super) attempt: Arc<Attempt>,
    pub(super) replicas: u32,
    pub(super) until: Moment,
    // The current connection has renewed the node after its admission.
    pub(super) written: bool,
    pub(super) heard: watch::Sender<Heard>,
}

impl Ask {
    pub(super) fn renewal(&self, ttl: Duration) -> Option<Call> {
        let state = self.attempt.state().filter(|state| state.lost().is_none())?;
        Some(scripts::renew([(&self.attempt.queue, vec![(self.attempt.id, state.sequence())])], ttl))
    }

    pub(super) fn hears(&self, heard: Heard) {
        self.heard.send_replace(heard);
    }

    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.until <= now || self.heard.is_closed() || self.heard.borrow().is_last()
    }
}
