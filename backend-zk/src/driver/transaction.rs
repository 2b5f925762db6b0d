//! Several writes as one: all of them, or none.

use std::sync::atomic::{AtomicBool, Ordering};

use zookeeper_client::{Error, MultiWriteError, MultiWriteResult, MultiWriter};

use super::{CellStat, Driver, NodeMode};
use crate::error::{Answer, Fault};

/// A part of a transaction. `None` as a version means any.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    /// The node is there, at this version.
    Check { path: &'a str, version: Option<i32> },
    /// Makes a node.
    Create { path: &'a str, data: &'a [u8], mode: NodeMode },
    /// Writes a node's data.
    Write { path: &'a str, data: &'a [u8], version: Option<i32> },
    /// Deletes a node.
    Delete { path: &'a str, version: Option<i32> },
}

/// What came of a transaction.
#[derive(Debug)]
pub(crate) enum Commit {
    Made {
        /// The stat of the node that its last [`Step::Write`] wrote. All nodes that a transaction
        /// changes have the same number (`mzxid`).
        written: Option<CellStat>,
        /// The stat, before the transaction, of the node that was asked for.
        before: Option<CellStat>,
    },
    /// Nothing was made: the step at this place was refused.
    Refused { at: usize, why: Refusal },
}

/// Why a step was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The node, or its parent, is not there.
    Missing,
    /// The node is there already.
    Exists,
    /// The node has another version.
    OtherVersion,
    /// The node has children.
    HasChildren,
    /// The parent goes with a session, and so can have no children.
    ParentOfSession,
}

impl Refusal {
    /// `None` where it is no answer to what the step demands.
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
    /// Carries the steps out, all or none. In the same trip, before them, it asks for the stat of
    /// the node `before`, if one is named. `in_flight` is set while the transaction may have been
    /// sent and the server has not answered it: whoever gives it up then must take it for unknown.
    pub(crate) async fn commit(
        &self,
        steps: &[Step<'_>],
        before: Option<&str>,
        in_flight: &AtomicBool,
    ) -> Answer<Commit> {
        let committed = self
            .request("multi", |client| async move {
                let mut all = client.new_multi_writer();
                for step in steps {
                    self.add(&mut all, step)?;
                }
                // Both are called, and so queued, before the first is awaited.
                let before = before.map(|path| client.check_stat(path));
                in_flight.store(true, Ordering::Release);
                let committed = all.commit();
                let before = match before {
                    Some(before) => readable(before.await)?,
                    None => None,
                };
                match committed.await {
                    Ok(results) => Ok(Ok(Commit::Made { written: last_written(&results), before })),
                    Err(MultiWriteError::OperationFailed { index, source }) => Ok(Err((index, source))),
                    Err(MultiWriteError::RequestFailed { source }) => Err(source),
                }
            })
            .await?;
        in_flight.store(false, Ordering::Release);
        committed.or_else(|(at, answer)| match Refusal::of(&answer) {
            Some(why) => Ok(Commit::Refused { at, why }),
            None => Err(Fault::from(answer)),
        })
    }

    fn add(&self, all: &mut MultiWriter<'_>, step: &Step<'_>) -> Result<(), Error> {
        match *step {
            Step::Check { path, version } => all.add_check_version(path, version.unwrap_or(-1)),
            Step::Create { path, data, mode } => all.add_create(path, data, &mode.options(self.acls)),
            Step::Write { path, data, version } => all.add_set_data(path, data, version),
            Step::Delete { path, version } => all.add_delete(path, version),
        }
    }
}

/// A stat that may not be read is as good as none. It must not pass for the transaction's answer.
fn readable(stat: Result<Option<zookeeper_client::Stat>, Error>) -> Result<Option<CellStat>, Error> {
    match stat {
        Err(Error::NoAuth) => Ok(None),
        stat => Ok(stat?.map(CellStat::from)),
    }
}

fn last_written(results: &[MultiWriteResult]) -> Option<CellStat> {
    results.iter().rev().find_map(|result| match result {
        MultiWriteResult::SetData { stat } => Some(CellStat::from(*stat)),
        _ => None,
    })
}
