//! Creates that are carried out late.
//!
//! A follower sends a client's create on to the leader. When it stalls, the client's session moves to
//! another server. There the client looks for what the create has made, finds nothing, and believes it.
//! From then on the leader refuses what the first server sends for the session. But it takes the session to
//! be where it was *last asked for*, and a client that came back to the stalled server, and gave it up again,
//! has left such a question there. When that server goes on, the leader acts on the question as it reads it
//! (`Leader.revalidateSession`); the creates before it wait for their turn, and are judged later. So they
//! are carried out, and make a node that nobody knows, of a session that lives on: the queue behind it
//! stands still. No request of this client is a barrier against that.
//!
//! So an attempt with an unanswered create is looked for again, at growing pauses, and what it does not own
//! is deleted (CHAIN-LATE-CREATE). The name of such an attempt is never used again
//! ([`NamePool`](latchwork_core::backend::NamePool)), and nothing is deleted while the attempt may have
//! another create under way. A deletion without an answer may come late as well, so the attempt does not
//! go on with that node.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{Backoff, NodeId, Pauses};
use tokio::time::{Instant, sleep};

use super::cleanup::delete_all_of;
use super::session::Session;
use super::unsettled::{Own, SharedOwn};
use crate::driver::Connection;
use crate::error::Fault;
use crate::layout::QueuePaths;

/// How long it is looked for. A leader takes nothing more from a server that was silent for `syncLimit` ticks: ten
/// seconds by default.
const LOOKS: Duration = Duration::from_secs(600);

/// A create that is under way. Dropped before it is answered, be it that nobody waits for it any more, its
/// attempt is looked for.
pub(super) struct CreateUnderWay<'a> {
    session: &'a Arc<Session>,
    queue: &'a QueuePaths,
    name: NodeId,
    was_connected: bool,
    // The connection before it was sent. Taken when it is answered.
    connection: Option<Connection>,
}

impl<'a> CreateUnderWay<'a> {
    /// Before the create is sent.
    pub(super) async fn begin(session: &'a Arc<Session>, queue: &'a QueuePaths, name: NodeId) -> Self {
        session.unsettled.owns(name, Own::Unknown).await;
        let connection = Some(session.driver.connection());
        Self { session, queue, name, was_connected: session.driver.is_connected(), connection }
    }

    /// The create was answered, or has failed.
    pub(super) fn ended(mut self, failed: Option<&Fault>) {
        if !matches!(failed, Some(Fault::Unknown(_))) {
            self.connection = None;
        }
    }
}

impl Drop for CreateUnderWay<'_> {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        if !self.was_connected && connection.has_lasted() {
            // There was no connection all the time: it was not sent.
            return;
        }
        let (session, queue, name) = (Arc::clone(self.session), self.queue.clone(), self.name);
        let Some(own) = session.unsettled.suspect(name) else { return };
        session.runtime.clone().spawn(async move {
            tokio::select! {
                // All goes with the session.
                _ = session.writer().until_lost() => {}
                () = look_for(&session, &queue, name, &own, connection) => {}
            }
        });
    }
}

async fn look_for(session: &Session, queue: &QueuePaths, name: NodeId, own: &SharedOwn, first: Connection) {
    let mut creates = 1;
    if !was_in_turn(session, first).await {
        remove_late(session, queue, name, own).await;
    }
    loop {
        let all = session.unsettled.settle(name, creates);
        if all == creates {
            return;
        }
        creates = all;
        remove_late(session, queue, name, own).await;
    }
}

/// Looks for what the attempt does not own, and deletes it.
async fn remove_late(session: &Session, queue: &QueuePaths, name: NodeId, own: &SharedOwn) {
    let ends = Instant::now() + LOOKS;
    let mut pause = Backoff::new(Pauses::BACKGROUND);
    while Instant::now() < ends {
        sleep(pause.next()).await;
        let own = own.lock().await;
        let Own::Known(spared) = *own else { continue };
        match delete_all_of(session, queue, name, spared).await {
            Ok(()) => {}
            Err(Fault::SessionOver) => return,
            // There is a next look.
            Err(fault) => tracing::debug!(
                ?fault,
                "could not look for a node that was created late; the client tries again"
            ),
        }
    }
}

/// Whether the connection lasts until a server has answered a request behind the create, so that the create
/// was carried out before, or never is.
async fn was_in_turn(session: &Session, mut connection: Connection) -> bool {
    tokio::select! {
        () = connection.ended() => return false,
        () = sleep(session.settings.request_timeout) => {}
    }
    session.driver.stat(&session.lease.member).await.is_ok() && connection.has_lasted()
}
