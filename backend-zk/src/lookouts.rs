//! Sessions that only watch.
//!
//! What a session watches beyond one message of the client crate would cost it the session, and every hold, at the next
//! break of its connection (see [`Driver::room_to_wait`]). A hold can be looked at instead; a wait is to hear at once. So
//! what waits must watch beyond that is watched from further sessions of the same client, opened when they are needed, on
//! which no node hangs: the loss of one is one more reason to list again.
//!
//! # Why that is safe
//!
//! What they tell means "list again", and the listing that admits is the node's own session's, like any other's (RULES B1,
//! B2). The one exception, a deletion that admits, rests on the order of one connection's events, and two sessions have none
//! between them: it is not made there. Nor do two servers lag alike, so the listing that follows comes behind a `sync`: else
//! one that still shows what has left would be asked again and again.

use std::sync::Arc;

use latchwork_core::Moment;
use parking_lot::Mutex;

use crate::driver::{Driver, Share};
use crate::lease::Session;

/// A client's further sessions, of one that its nodes hang on. They stay until that ends.
#[derive(Debug, Default)]
pub(crate) struct Lookouts {
    posted: Mutex<Vec<Arc<Driver>>>,
    // Held by whoever posts one. Not to be tried again before this.
    posting: tokio::sync::Mutex<Option<Moment>>,
}

/// Where something is to be watched, with room for it while it is armed: then it is counted by itself.
pub(crate) struct Place {
    // `None`: by the session that the node hangs on.
    there: Option<Arc<Driver>>,
    // None where that has no room, and no further session can be had.
    _room: Option<Share>,
}

impl Place {
    pub(crate) fn here(room: Option<Share>) -> Self {
        Self { there: None, _room: room }
    }

    pub(crate) fn is_here(&self) -> bool {
        self.there.is_none()
    }

    /// Whom to ask, where `here` is the session of the node.
    pub(crate) fn driver<'a>(&'a self, here: &'a Driver) -> &'a Driver {
        self.there.as_deref().unwrap_or(here)
    }
}

impl Lookouts {
    /// Somewhere else with room for so many bytes of paths. `None`: no session can be had, or that of the nodes is over.
    pub(crate) async fn place(&self, bytes: usize, session: &Session) -> Option<Place> {
        if let Some(place) = self.find(bytes) {
            return Some(place);
        }
        tokio::select! {
            biased;
            _ = session.lease().until_lost() => None,
            place = self.post(bytes, session) => place,
        }
    }

    async fn post(&self, bytes: usize, session: &Session) -> Option<Place> {
        let (lease, settings) = (session.lease(), &session.settings);
        let mut not_before = self.posting.lock().await;
        if let Some(place) = self.find(bytes) {
            return Some(place);
        }
        let now = lease.clock().now();
        if not_before.is_some_and(|moment| now < moment) {
            return None;
        }
        let opening = Driver::connect(settings, &session.runtime, Some(lease));
        let driver = match tokio::time::timeout(settings.request_timeout, opening).await {
            Ok(Ok(opened)) => Arc::new(opened.driver),
            failed => {
                tracing::warn!(
                    failed = ?failed.map(Result::err),
                    "no further session to watch from: this client waits in so many queues at once that a broken connection \
                     would cost it its session"
                );
                *not_before = Some(now + lease.ttl());
                return None;
            }
        };
        let mut posted = self.posted.lock();
        // Looked at under the lock that an end takes behind the lease's: one of the two sees the other.
        if lease.lost().is_some() {
            return None;
        }
        posted.push(Arc::clone(&driver));
        place_at(&driver, bytes)
    }

    fn find(&self, bytes: usize) -> Option<Place> {
        let mut posted = self.posted.lock();
        posted.retain(|driver| !driver.is_over());
        posted.iter().filter(|driver| driver.is_connected()).find_map(|driver| place_at(driver, bytes))
    }

    /// Gives them back: behind the end of the lease.
    pub(crate) fn give_back(&self) {
        for driver in &*self.posted.lock() {
            driver.give_back();
        }
    }

    /// Waits until the server has confirmed that they are closed.
    pub(crate) async fn closed(&self) {
        let posted = self.posted.lock().clone();
        for driver in posted {
            driver.closed().await;
        }
    }

    /// Cuts their connections.
    pub(crate) async fn kill(&self) {
        let posted = self.posted.lock().clone();
        for driver in posted {
            driver.kill().await;
        }
    }
}

fn place_at(driver: &Arc<Driver>, bytes: usize) -> Option<Place> {
    let room = driver.room_to_wait(bytes)?;
    Some(Place { there: Some(Arc::clone(driver)), _room: Some(room) })
}
