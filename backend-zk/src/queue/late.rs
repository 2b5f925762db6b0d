//! Creates that are carried out late.
//!
//! A follower forwards a client's create to the leader. When the follower stalls, the client's
//! session moves to another server. There the client searches for the node, and does not find it.
//! From then on the leader refuses requests that the first server sends for the session. But the
//! leader assigns the session to the server that *asked for it last*. A client that returned to the
//! stalled server and left it again has left such a question there. When that server continues, the
//! leader acts on the question as soon as it reads it (`Leader.revalidateSession`). The creates
//! before it wait for their turn, and are judged later. So they are carried out, and create a node
//! that no client knows, in a session that is alive: the queue after it does not advance. No
//! request of this client is a barrier against this.
//!
//! So the client searches again for nodes of an attempt with an unanswered create, at growing
//! intervals, and deletes the nodes that the attempt does not own (CHAIN-LATE-CREATE). The name of
//! such an attempt is never used again ([`NamePool`](latchwork_core::backend::NamePool)), and no
//! node is deleted while the attempt may have another create under way. A deletion without an
//! answer may also arrive late, so the attempt does not continue with that node.

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

/// How long the client searches. A leader accepts no more requests from a server that was silent
/// for `syncLimit` ticks: ten seconds by default.
const LOOKS: Duration = Duration::from_secs(600);

/// A create that is under way. If it is dropped before the answer, for example because its join was
/// dropped, the client searches for nodes of the attempt.
pub(super) struct CreateUnderWay<'a> {
    session: &'a Arc<Session>,
    queue: &'a QueuePaths,
    name: NodeId,
    was_connected: bool,
    // The connection before the request was sent. Taken when the answer arrives.
    connection: Option<Connection>,
}

impl<'a> CreateUnderWay<'a> {
    /// Called before the create is sent.
    pub(super) async fn begin(session: &'a Arc<Session>, queue: &'a QueuePaths, name: NodeId) -> Self {
        session.unsettled.owns(name, Own::Unknown).await;
        let connection = Some(session.driver.connection());
        Self { session, queue, name, was_connected: session.driver.is_connected(), connection }
    }

    /// Called when the create was answered, or has failed.
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
            // No connection existed since the start of the create, so it was not sent.
            return;
        }
        let (session, queue, name) = (Arc::clone(self.session), self.queue.clone(), self.name);
        let Some(own) = session.unsettled.suspect(name) else { return };
        session.runtime.clone().spawn(async move {
            tokio::select! {
                // All nodes end with the session.
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

/// Searches for nodes that the attempt does not own, and deletes them.
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
            // The next search repeats it.
            Err(fault) => tracing::debug!(
                ?fault,
                "could not look for a node that was created late; the client tries again"
            ),
        }
    }
}

/// Whether the connection lasts until a server has answered a request after the create. Then the
/// create was carried out before, or never is.
async fn was_in_turn(session: &Session, mut connection: Connection) -> bool {
    tokio::select! {
        () = connection.ended() => return false,
        () = sleep(session.settings.request_timeout) => {}
    }
    session.driver.stat(&session.lease.member).await.is_ok() && connection.has_lasted()
}
