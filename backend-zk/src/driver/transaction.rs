use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::OptionFuture;
use zookeeper_client::{Client, Error, MultiWriteError, MultiWriteResult, MultiWriter};

use super::kind::RequestKind;
use super::request::if_there;
use super::{Driver, NodeMode, Stat, kind};
use crate::error::Answer;

/// `None` as a version means any version.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation<'a> {
    Check { path: &'a str, version: Option<i32> },
    Create { path: &'a str, data: &'a [u8], mode: NodeMode },
    Write { path: &'a str, data: &'a [u8], version: Option<i32> },
    Delete { path: &'a str, version: Option<i32> },
}

#[derive(Debug)]
pub(crate) enum Commit {
    Made {
        /// The stat after the last [`Operation::Write`]. All nodes that a transaction changes have the same
        /// `mzxid`.
        written: Option<Stat>,
        before: Option<Stat>,
    },
    Refused {
        at: usize,
        why: Refusal,
        found: Option<InDirectory>,
    },
}

pub(crate) type InDirectory = (Option<Stat>, Option<(Vec<u8>, Stat)>);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Beside<'a> {
    Nothing,
    Before(&'a str),
    /// The directory's stat, then the node. A server answers the requests of a session in order, so the read
    /// shows at least the state that the transaction met.
    Behind {
        directory: &'a str,
        path: &'a str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The node or its parent does not exist.
    Missing,
    Exists,
    OtherVersion,
    HasChildren,
    ParentOfSession,
}

impl Refusal {
    /// `None`: another error.
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
    /// `in_flight`: the transaction may have been sent and has no answer, so the outcome is unknown to a
    /// caller that gives up now.
    pub(crate) async fn commit(
        &self,
        steps: &[Operation<'_>],
        beside: Beside<'_>,
        in_flight: &AtomicBool,
    ) -> Answer<Commit> {
        self.request(kind::MULTI, async |client| {
            let mut all = self.transaction(&client, steps)?;
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

/// Keeps this refusal apart from the transaction's answer.
fn readable(stat: Result<Option<Stat>, Error>) -> Result<Option<Stat>, Error> {
    match stat {
        Err(Error::NoAuth) => Ok(None),
        stat => stat,
    }
}

/// A caller that needs it reads again.
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
