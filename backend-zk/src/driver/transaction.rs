//! Several writes in one transaction: the server makes all of them, or none.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::OptionFuture;
use zookeeper_client::{Client, Error, MultiWriteError, MultiWriteResult, MultiWriter};

use super::kind::RequestKind;
use super::request::if_there;
use super::{Driver, NodeMode, Stat, kind};
use crate::error::Answer;

/// An operation of a transaction. `None` as a version means any version.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation<'a> {
    /// Checks that the node exists, at this version.
    Check { path: &'a str, version: Option<i32> },
    /// Creates a node.
    Create { path: &'a str, data: &'a [u8], mode: NodeMode },
    /// Writes a node's data.
    Write { path: &'a str, data: &'a [u8], version: Option<i32> },
    /// Deletes a node.
    Delete { path: &'a str, version: Option<i32> },
}

/// The result of a transaction.
#[derive(Debug)]
pub(crate) enum Commit {
    Made {
        /// The stat of the node that its last [`Operation::Write`] wrote. All nodes that a transaction
        /// changes have the same number (`mzxid`).
        written: Option<Stat>,
        /// The stat, before the transaction, of the requested node.
        before: Option<Stat>,
    },
    /// No operation was made.
    Refused {
        /// The position of the refused operation.
        at: usize,
        why: Refusal,
        /// The state of the node that was read [after](Beside::Behind) it.
        found: Option<InDirectory>,
    },
}

/// The stat of a directory, and then a node in it; each only if it exists.
pub(crate) type InDirectory = (Option<Stat>, Option<(Vec<u8>, Stat)>);

/// A read in the same trip as a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beside<'a> {
    Nothing,
    /// The stat of this node, before the transaction.
    Before(&'a str),
    /// A node after the transaction, and before the node the stat of its directory. A server answers the
    /// requests of a session in order. So the read shows at least the state that the transaction met, and needs
    /// no `sync`.
    Behind {
        directory: &'a str,
        path: &'a str,
    },
}

/// Why an operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The node, or its parent, does not exist.
    Missing,
    /// The node already exists.
    Exists,
    /// The node has another version.
    OtherVersion,
    /// The node has children.
    HasChildren,
    /// The parent belongs to a session, so it cannot have children.
    ParentOfSession,
}

impl Refusal {
    /// Returns the refusal in an answer; `None` if the answer is another error.
    fn of(answer: &Error) -> Option<Self> {
        match answer {
            Error::NoNode => Some(Refusal::Missing),
            Error::NodeExists => Some(Refusal::Exists),
            Error::BadVersion => Some(Refusal::OtherVersion),
            Error::NotEmpty => Some(Refusal::HasChildren),
            Error::NoChildrenForEphemerals => Some(Refusal::ParentOfSession),
            _ => None,
        }
    }
}

impl Driver {
    /// Makes all steps, or none. `in_flight` is set while the transaction may have been sent and has no answer.
    /// A caller that gives up during this must treat the outcome as unknown.
    pub(crate) async fn commit(
        &self,
        steps: &[Operation<'_>],
        beside: Beside<'_>,
        in_flight: &AtomicBool,
    ) -> Answer<Commit> {
        self.request(kind::MULTI, async |client| {
            let mut all = self.transaction(&client, steps)?;
            // All methods are called, and so the requests queued, before the first answer is awaited.
            let before = match beside {
                Beside::Before(path) => Some(client.check_stat(path)),
                _ => None,
            };
            in_flight.store(true, Ordering::Release);
            let committed = all.commit();
            let behind = match beside {
                Beside::Behind { directory, path } => {
                    Some((client.check_stat(directory), client.get_data(path)))
                }
                _ => None,
            };
            let before = OptionFuture::from(before).await.map(readable).transpose()?.flatten();
            match committed.await {
                Ok(results) => {
                    in_flight.store(false, Ordering::Release);
                    Ok(Commit::Made { written: last_written(&results), before })
                }
                Err(MultiWriteError::OperationFailed { index: at, source }) => {
                    in_flight.store(false, Ordering::Release);
                    let found = match behind {
                        Some((directory, node)) => in_directory(directory.await, node.await),
                        None => None,
                    };
                    let why = Refusal::of(&source).ok_or(source)?;
                    Ok(Commit::Refused { at, why, found })
                }
                Err(MultiWriteError::RequestFailed { source }) => Err(source),
            }
        })
        .await
    }

    /// The same for a caller that does not need the refused operation.
    pub(super) async fn multi(&self, kind: RequestKind, steps: &[Operation<'_>]) -> Answer<()> {
        self.request(kind, async |client| Ok(self.transaction(&client, steps)?.commit().await.map(drop)?))
            .await
    }

    fn transaction<'a>(&self, client: &'a Client, steps: &[Operation<'_>]) -> Result<MultiWriter<'a>, Error> {
        let mut all = client.new_multi_writer();
        for step in steps {
            match *step {
                Operation::Check { path, version } => all.add_check_version(path, version.unwrap_or(-1)),
                Operation::Create { path, data, mode } => {
                    all.add_create(path, data, &mode.options(self.acls))
                }
                Operation::Write { path, data, version } => all.add_set_data(path, data, version),
                Operation::Delete { path, version } => all.add_delete(path, version),
            }?;
        }
        Ok(all)
    }
}

/// Treats a stat that may not be read as missing, so that this refusal is not taken for the transaction's
/// answer.
fn readable(stat: Result<Option<Stat>, Error>) -> Result<Option<Stat>, Error> {
    match stat {
        Err(Error::NoAuth) => Ok(None),
        stat => stat,
    }
}

/// Treats a failed read as missing: a caller that needs it reads again.
fn in_directory(
    directory: Result<Option<Stat>, Error>,
    node: Result<(Vec<u8>, Stat), Error>,
) -> Option<InDirectory> {
    Some((directory.ok()?, if_there(node).ok()?))
}

fn last_written(results: &[MultiWriteResult]) -> Option<Stat> {
    results.iter().rev().find_map(|result| match result {
        MultiWriteResult::SetData { stat } => Some(*stat),
        _ => None,
    })
}
