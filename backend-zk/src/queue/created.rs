//! A created node whose position is unknown.

use super::limit::LimitReply;
use super::session::Session;
use crate::driver::{Armed, Connection, Stat};
use crate::error::{Answer, Fault, Unanswered};

pub(crate) struct CreatedNode {
    pub(crate) path: String,
    pub(crate) stat: Stat,
    pub(crate) shown: Shown,
    pub(crate) limit: LimitReply,
}

pub(crate) enum Shown {
    /// The node is admitted, with this number of other nodes before it.
    Admitted(usize),
    /// The children of the queue's directory.
    Queue(Vec<String>),
    Behind(KnownPredecessor),
}

/// The node immediately ahead, watched and known without a listing.
pub(crate) struct KnownPredecessor {
    pub(crate) path: String,
    pub(crate) watched: Armed,
    /// `None`: the watch is on a watch session.
    pub(crate) connection: Option<Connection>,
}

/// A definite refusal undoes the creation: a client without the right to list leaves no node.
pub(crate) async fn or_undone(session: &Session, path: &str, shown: Answer<Shown>) -> Answer<Shown> {
    match shown {
        // The outcome is unknown: a repeated join finds the node.
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
