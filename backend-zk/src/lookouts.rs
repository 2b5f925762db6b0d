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
//! B2). The exceptions, events that admit, rest on the order of one connection's events, and two sessions have none
//! between them: they are not made there. Nor do two servers lag alike, so the listing that follows comes behind a `sync`: else
//! one that still shows what has left would be asked again and again.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::Moment;
use latchwork_core::contracts::{Flight, SingleFlight};
use parking_lot::Mutex;
use zookeeper_client::Error as Answer;

use crate::driver::{Driver, Share, Stat, Watch};
use crate::error::{Fault, Unheard};
use crate::lease::Session;

/// How long those are waited for whose connection broke.
const A_BREAK: Duration = Duration::from_secs(1);

/// A client's further sessions, of one that its nodes hang on.
#[derive(Debug, Default)]
pub(crate) struct Lookouts {
    posted: Mutex<Vec<Arc<Driver>>>,
    // One is posted at a time. Answers whether it has brought something.
    posting: SingleFlight<bool>,
    // Not to be tried again before this.
    not_before: Mutex<Option<Moment>>,
}

/// Where something is to be watched, with room for it while it is armed: then it is counted by itself.
pub(crate) struct Place<'a> {
    here: &'a Driver,
    // `None`: by the session that the node hangs on.
    there: Option<Arc<Driver>>,
    // None where that has no room, and no further session can be had.
    _room: Option<Share>,
}

impl<'a> Place<'a> {
    pub(crate) fn here(driver: &'a Driver, room: Option<Share>) -> Self {
        Self { here: driver, there: None, _room: room }
    }

    pub(crate) fn there(driver: &'a Driver, (lookout, room): (Arc<Driver>, Share)) -> Self {
        Self { here: driver, there: Some(lookout), _room: Some(room) }
    }

    pub(crate) fn is_here(&self) -> bool {
        self.there.is_none()
    }

    /// As [`Driver::watch`].
    pub(crate) async fn watch(&self, path: &str) -> Result<(Vec<u8>, Stat, Watch), Fault> {
        match &self.there {
            None => self.here.watch(path).await,
            Some(lookout) => lookout.watch(path).await.map_err(of_a_lookout),
        }
    }

    /// As [`Driver::children_watched`].
    pub(crate) async fn children_watched(&self, path: &str) -> Result<(Vec<String>, Watch), Fault> {
        match &self.there {
            None => self.here.children_watched(path).await,
            Some(lookout) => lookout.children_watched(path).await.map_err(of_a_lookout),
        }
    }
}

/// That it is over says nothing of the session that the node hangs on: asked again, elsewhere.
fn of_a_lookout(fault: Fault) -> Fault {
    match fault {
        Fault::Gone | Fault::Forbidden(Answer::AuthFailed) => Fault::Unknown(Unheard::default()),
        fault => fault,
    }
}

impl Lookouts {
    /// One with room for so many bytes of paths. `None`: no session can be had, or that of the nodes is over.
    pub(crate) async fn post(&self, bytes: usize, session: &Arc<Session>) -> Option<(Arc<Driver>, Share)> {
        loop {
            if let Some(found) = self.find(bytes) {
                return Some(found);
            }
            let posting = self.posting(bytes, session)?;
            let brought = tokio::select! {
                biased;
                _ = session.lease().until_lost() => false,
                brought = posting.landed() => brought == Some(true),
            };
            if !brought {
                return None;
            }
            // To those who looked first, maybe.
        }
    }

    /// The posting to wait for, begun here unless one is under way; `None` when it is not to be tried again yet.
    fn posting(&self, bytes: usize, session: &Arc<Session>) -> Option<Flight<bool>> {
        self.posting.join_if(&session.runtime, || {
            let not_before = *self.not_before.lock();
            if not_before.is_some_and(|not_before| session.lease().clock().now() < not_before) {
                return None;
            }
            let poster = Arc::clone(session);
            Some(async move { post_one(bytes, &poster).await })
        })
    }

    fn find(&self, bytes: usize) -> Option<(Arc<Driver>, Share)> {
        let mut posted = self.posted.lock();
        let mut present = posted.iter().filter(|driver| driver.is_connected());
        // With its room it is not idle any more.
        let found = present.find_map(|driver| Some((Arc::clone(driver), driver.room_to_wait(bytes)?)));
        // Where breaks of the connection have left more than are needed, one of the idle is kept for what comes.
        let mut spare = 0;
        posted.retain(|driver| {
            let idle = driver.is_idle() && driver.is_connected();
            spare += usize::from(idle);
            !driver.is_over() && (!idle || spare == 1)
        });
        found
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

/// Waits for those that are about to come back after a break of the connection, which may be all it takes, or opens another.
/// Answers whether there is one with room.
async fn post_one(bytes: usize, session: &Session) -> bool {
    let (lease, settings) = (session.lease(), &session.settings);
    let away: Vec<_> =
        session.lookouts.posted.lock().iter().filter(|driver| !driver.is_connected()).cloned().collect();
    let back = async {
        for driver in &away {
            // Or over, which is as well.
            let _ = driver.connected().await;
        }
    };
    // Where it takes longer, another is opened.
    let _ = tokio::time::timeout(settings.request_timeout.min(A_BREAK), back).await;
    if session.lookouts.find(bytes).is_some() {
        return true;
    }
    let opening = Driver::connect(settings, &session.runtime, Some(lease));
    match tokio::time::timeout(settings.request_timeout, opening).await {
        Ok(Ok(opened)) => {
            let mut posted = session.lookouts.posted.lock();
            // Looked at under the lock that an end takes behind the lease's (a kill behind its own): one of the two sees the other.
            let wanted = lease.lost().is_none() && !session.driver.is_killed();
            if wanted {
                posted.push(Arc::new(opened.driver));
            }
            wanted
        }
        failed => {
            tracing::warn!(
                failed = ?failed.map(Result::err),
                "no further session to watch from: this client waits in so many queues at once that a broken connection \
                 would cost it its session"
            );
            *session.lookouts.not_before.lock() = Some(lease.clock().now() + lease.ttl());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Gone` ends the lease of whoever hears it.
    #[test]
    fn the_end_of_one_that_watches_is_no_end_of_what_the_nodes_hang_on() {
        for ended in [Fault::from(Answer::SessionExpired), Fault::Gone, Fault::from(Answer::AuthFailed)] {
            assert!(of_a_lookout(ended).is_transient());
        }
        assert!(matches!(of_a_lookout(Fault::NoNode), Fault::NoNode));
        assert!(matches!(of_a_lookout(Fault::from(Answer::NoAuth)), Fault::Forbidden(_)));
    }
}
