use std::sync::Arc;

use super::limit::{Limit, StoredLimit};
use super::node::Node;
use super::node_id::NodeId;
use crate::address::Address;
use crate::decide::Claim;
use crate::decide::life::Residue;
use crate::error::{Error, ErrorKind, Result};

/// Whether a join may wait in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Takes a place in the queue.
    Wait,
    /// Is admitted at once, or leaves no node. A try never overtakes the queue.
    Try,
}

/// One request to join a queue.
#[derive(Clone, Debug)]
pub struct Join {
    /// The queue.
    pub queue: Address,
    /// The attempt's id.
    pub id: NodeId,
    /// The admission rule and weight.
    pub claim: Claim,
    /// The limit that it requests of a queue of permits.
    pub limit: Limit,
    /// The owner's label, shown in listings.
    pub label: Arc<str>,
    /// The node's data, at most [`MAX_LABEL_BYTES`](super::MAX_LABEL_BYTES) (NODE-DATA). At an exact address
    /// on ZooKeeper and etcd an election's node contains only the data, as in other programs.
    pub data: Arc<[u8]>,
    /// Whether the join may wait.
    pub patience: Patience,
    /// Whether an earlier request of this attempt had an unknown outcome, so that its node may exist.
    pub repeated: bool,
}

impl Join {
    /// Returns the limit that applies to this join of permits, given the stored one.
    ///
    /// # Errors
    /// `Conflict` if the stored limit refuses the join.
    pub fn settle(&self, stored: &StoredLimit) -> Result<u32> {
        let counts = match stored {
            StoredLimit::Foreign(_) => None,
            _ => self.limit.beside(stored.permits()),
        };
        counts.filter(|limit| self.claim.weight() <= *limit).ok_or_else(|| self.conflict(stored))
    }

    /// Returns the error of a join of permits that the stored limit refuses.
    pub fn conflict(&self, stored: &StoredLimit) -> Error {
        let weight = self.claim.weight();
        let why = match (stored.clone(), self.limit) {
            (StoredLimit::Absent, Limit::Stored) => {
                format!("{stored} yet: store one with semaphore(key, limit) or set_limit")
            }
            (StoredLimit::Permits(limit), Limit::Exactly(asked)) if limit != asked => format!(
                "{stored}, not {asked}: use the stored limit with Limit::UnlessStored({asked}), or change it with set_limit"
            ),
            (StoredLimit::Absent, Limit::Exactly(limit) | Limit::UnlessStored(limit))
            | (StoredLimit::Permits(limit), _) => {
                format!(
                    "the weight {weight} is above the limit of {limit}: lower the weight, or raise the limit with set_limit"
                )
            }
            (StoredLimit::Foreign(_), _) => stored.to_string(),
        };
        Error::new(ErrorKind::Conflict, why).on(self.queue.name())
    }
}

/// The answer to a join.
#[derive(Debug)]
pub enum Joined {
    /// The node is admitted.
    Admitted(Arc<dyn Node>),
    /// The node is in the queue: [`Node::admitted`] waits.
    Waiting(Arc<dyn Node>),
    /// The try was not admitted, and left no node.
    Refused,
}

impl Residue {
    /// Returns the possible remains of a join with this answer.
    pub fn of(join: &Join, answer: &Result<Joined>) -> Self {
        match answer {
            Ok(Joined::Admitted(_) | Joined::Waiting(_)) => Residue::Node,
            Ok(Joined::Refused) => Residue::Nothing,
            Err(error) => Residue::after(error.into(), join.repeated),
        }
    }
}
