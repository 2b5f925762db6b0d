//! Creates that are carried out late: a stalled server continues and asks the leader for the session again
//! (`Leader.revalidateSession`). They leave unknown nodes in a live session, and no request of the client is
//! a barrier against this (`docs/protocol/chain.md`).
//!
//! So after an unanswered create the client searches for nodes that the attempt does not own, and deletes
//! them, while no other create is under way (CHAIN-LATE-CREATE). A deletion without an answer may also arrive
//! late, so the attempt does not continue with that node.

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

/// How long the client searches. By default, a leader takes no more requests from a server that was silent
/// for ten seconds (`syncLimit`).
const LOOKS: Duration = Duration::from_secs(600);

/// If dropped before the answer, the client searches for nodes of the attempt.
pub(super) struct CreateUnderWay<'a> {
    session: &'a Arc<Session>,
    queue: &'a QueuePaths,
    name: NodeId,
    was_connected: bool,
    // Taken before the send, dropped at the answer.
    connection: Option<Connection>,
}

impl<'a> CreateUnderWay<'a> {
    pub(super) async fn begin(session: &'a Arc<Session>, queue: &'a QueuePaths, name: NodeId) -> Self {
        session.unsettled.owns(name, Own::Unknown).await;
        let connection = Some(session.driver.connection());
        Self { session, queue, name, was_connected: session.driver.is_connected(), connection }
    }

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
            // Without a connection, the create was not sent.
            return;
        }
        let (session, queue, name) = (Arc::clone(self.session), self.queue.clone(), self.name);
        let Some(own) = session.unsettled.suspect(name) else { return };
        session.runtime.clone().spawn(async move {
            tokio::select! {
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

/// Whether a later request on the connection was answered: then the create arrives no more.
async fn was_in_turn(session: &Session, mut connection: Connection) -> bool {
    tokio::select! {
        () = connection.ended() => return false,
        () = sleep(session.settings.request_timeout) => {}
    }
    session.driver.stat(&session.lease.member).await.is_ok() && connection.has_lasted()
}
