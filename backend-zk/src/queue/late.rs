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
//! ([`NamePool`](latchwork_core::support::NamePool)), and nothing is deleted while the attempt may have
//! another create under way. A deletion without an answer may come late as well, so the attempt does not
//! go on with that node.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::contracts::NodeId;
use latchwork_core::support::Backoff;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::session::Session;
use crate::driver::Connection;
use crate::error::{Answer, Fault};
use crate::layout::{QueuePaths, counter, has_id, id_of, split};

/// The pauses between two looks.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// For so long. A leader takes nothing more from a server that was silent for `syncLimit` ticks: ten
/// seconds by default.
const LOOKS: Duration = Duration::from_secs(600);

/// What an attempt with an unanswered create owns by now. Locked by whoever deletes what it does not own.
#[derive(Debug)]
enum Own {
    /// A create may be under way, or an earlier one be adopted.
    Unknown,
    /// The node of this counter, though it may have left; a downgrade keeps the counter.
    Node(Option<i32>),
    /// Nothing: the attempt is over.
    Nothing,
}

type SharedOwn = Arc<tokio::sync::Mutex<Own>>;

/// The requests of a session's joins that had no answer, and may be carried out late.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    // The attempts with an unanswered create, by their names.
    suspects: Mutex<HashMap<NodeId, Suspect>>,
    // Own nodes with an unanswered deletion, by their paths.
    doomed: Mutex<HashSet<String>>,
}

#[derive(Debug)]
struct Suspect {
    own: SharedOwn,
    // How many of its creates had no answer.
    creates: u32,
}

impl Unsettled {
    /// The attempt of this name is over: it was abandoned, or refused. It sends nothing more.
    pub(super) async fn over(&self, name: NodeId) {
        self.doomed.lock().retain(|path| id_of(split(path).1) != Some(name));
        self.owns(name, Own::Nothing).await;
    }

    /// The node at this path is not to be used any more: its deletion may be carried out at any time.
    pub(super) fn doom(&self, path: &str) {
        self.doomed.lock().insert(path.to_owned());
    }

    pub(super) fn is_doomed(&self, path: &str) -> bool {
        self.doomed.lock().contains(path)
    }

    /// The join of this name was answered by the node of this counter.
    pub(super) async fn joined(&self, name: NodeId, counter: Option<i32>) {
        self.owns(name, Own::Node(counter)).await;
    }

    async fn owns(&self, name: NodeId, own: Own) {
        let known = self.suspects.lock().get(&name).map(|suspect| Arc::clone(&suspect.own));
        if let Some(known) = known {
            *known.lock().await = own;
        }
    }

    /// Counts one more create without an answer. The first of its attempt is to be looked for.
    fn suspect(&self, name: NodeId) -> Option<SharedOwn> {
        let mut suspects = self.suspects.lock();
        let unknown = || Suspect { own: Arc::new(Own::Unknown.into()), creates: 0 };
        let suspect = suspects.entry(name).or_insert_with(unknown);
        suspect.creates += 1;
        (suspect.creates == 1).then(|| Arc::clone(&suspect.own))
    }

    /// Forgets an attempt, unless it has had more creates without an answer than these. Answers how many.
    fn settle(&self, name: NodeId, looked_for: u32) -> u32 {
        let mut suspects = self.suspects.lock();
        match suspects.get(&name).map(|suspect| suspect.creates) {
            Some(creates) if creates > looked_for => creates,
            _ => {
                suspects.remove(&name);
                looked_for
            }
        }
    }
}

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
    let mut pause = Backoff::new(FIRST, LONGEST);
    while Instant::now() < ends {
        sleep(pause.next()).await;
        let own = own.lock().await;
        let spared = match *own {
            Own::Unknown => continue,
            Own::Node(counter) => counter,
            Own::Nothing => None,
        };
        match delete_but(session, queue, name, spared).await {
            Ok(()) => {}
            Err(Fault::SessionOver) => return,
            // There is a next look.
            Err(fault) => tracing::debug!(?fault, "a late create could not be looked for"),
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

/// Deletes the nodes of this name, except the one of the counter `spared`.
async fn delete_but(session: &Session, queue: &QueuePaths, name: NodeId, spared: Option<i32>) -> Answer<()> {
    let children = match session.driver.sync_children(&queue.directory).await {
        Ok(children) => children,
        Err(Fault::NoNode) => return Ok(()),
        Err(fault) => return Err(fault),
    };
    let is_spared = |child: &str| spared.is_some() && counter(queue.kind, child) == spared;
    for child in has_id(&children, name).filter(|child| !is_spared(child)) {
        tracing::debug!(child, queue = queue.directory, "a node that was made late is deleted");
        session.delete(&queue.node(child)).await?;
    }
    Ok(())
}
