//! A node that a join has made, before it is known where it stands.

use super::limit::LimitReply;
use super::session::Session;
use crate::driver::{Armed, Connection, Stat};
use crate::error::{Answer, Fault, Unanswered};

/// An own node, and what was seen behind its create.
pub(crate) struct CreatedNode {
    pub(crate) path: String,
    pub(crate) stat: Stat,
    pub(crate) shown: Shown,
    pub(crate) limit: LimitReply,
}

/// What is ahead of a new node.
pub(crate) enum Shown {
    Nobody,
    /// The children of the queue's directory.
    Queue(Vec<String>),
    Behind(KnownPredecessor),
}

/// The node right ahead, known without a listing, and watched.
pub(crate) struct KnownPredecessor {
    pub(crate) path: String,
    pub(crate) watched: Armed,
    /// The connection before the watch was armed. `None` where a watch session has it.
    pub(crate) connection: Option<Connection>,
}

/// What was shown behind the create of this path. A definite refusal undoes the create: a client
/// that may not list, for example, must leave nothing behind.
pub(crate) async fn or_undone(session: &Session, path: &str, shown: Answer<Shown>) -> Answer<Shown> {
    match shown {
        // The node is there, and its listing is not. As an unknown outcome, it is found again.
        Err(fault) if fault.is_transient() => Err(Fault::Unknown(Unanswered::default())),
        Err(fault) => {
            session.driver.delete(path).await.map_err(|_| {
                session.unsettled.doom(path);
                Fault::Unknown(Unanswered::default())
            })?;
            Err(fault)
        }
        shown => shown,
    }
}
