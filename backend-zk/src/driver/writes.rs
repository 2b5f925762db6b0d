use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use zookeeper_client::{Client, CreateMode, Error};

use super::request::{answers, found, if_there};
use super::{Driver, NodeMode, Operation, Stat, kind};
use crate::error::{Answer, Fault};
use crate::layout::split;

#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinRequest<'a> {
    pub(crate) queue: &'a str,
    pub(crate) prefix: &'a str,
    pub(crate) data: &'a [u8],
    pub(crate) limit: Option<&'a str>,
    pub(crate) counts: bool,
    /// Creates the queue's missing directory first, in the same trip.
    pub(crate) cold: bool,
}

#[derive(Debug)]
pub(crate) enum Children {
    Names(Vec<String>),
    Number(usize),
}

#[derive(Debug)]
pub(crate) struct JoinReply {
    pub(crate) created: Answer<(String, Stat)>,
    pub(crate) children: Answer<Children>,
    pub(crate) limit: Option<Answer<(Vec<u8>, Stat)>>,
}

fn number(directory: Stat) -> Children {
    Children::Number(usize::try_from(directory.num_children).unwrap_or(0))
}

impl Driver {
    /// Creates the path, all of one mode. It looks for each node first, because a client may be allowed to
    /// use a path but not to create it.
    pub(crate) async fn make_path(&self, path: &str, mode: NodeMode) -> Answer<()> {
        let ends = path.match_indices('/').skip(1).map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let part = &path[..end];
            if self.stat(part).await?.is_none() {
                match self.create(part, b"", mode).await {
                    Ok(_) | Err(Fault::NodeExists) => {}
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn create(&self, path: &str, data: &[u8], mode: NodeMode) -> Answer<Stat> {
        let options = mode.options(self.acls);
        let create = async |client: Arc<Client>| client.create(path, data, &options).await;
        Ok(self.request(kind::CREATE_FIRST, create).await?.0)
    }

    pub(crate) async fn create_with_directory(
        &self,
        path: &str,
        data: &[u8],
        mode: NodeMode,
    ) -> Answer<Stat> {
        match self.create(path, data, mode).await {
            Err(Fault::NoNode) => {
                self.make_path(split(path).0, NodeMode::Persistent).await?;
                self.create(path, data, mode).await
            }
            made => made,
        }
    }

    /// Requests such a node at a place where no node can be created.
    pub(crate) async fn has_nodes_that_live(&self, nowhere: &str) -> Answer<bool> {
        match self.create(nowhere, b"", NodeMode::Lives(Duration::from_secs(1))).await {
            Err(Fault::NoNode) | Ok(_) => Ok(true),
            Err(Fault::Refused(_) | Fault::Forbidden(_)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn join(&self, request: JoinRequest<'_>) -> Answer<JoinReply> {
        let JoinRequest { queue, prefix, data, limit, counts, cold } = request;
        let path = format!("{queue}/{prefix}");
        let directory = CreateMode::Container.with_acls(self.acls);
        let node = CreateMode::EphemeralSequential.with_acls(self.acls);
        let path = &path;
        self.request(kind::CREATE, async |client| {
            let directory = cold.then(|| client.create(queue, b"", &directory));
            let created = client.create(path, data, &node);
            // The limit is read before the listing (`queue::limit::read_limit`).
            let limit = limit.map(|limit| client.get_data(limit));
            let names = (!counts).then(|| client.list_children(queue));
            let stat = counts.then(|| client.check_stat(queue));
            // The answer to the create shows an existing directory or a missing parent, but not a refusal.
            let refused = OptionFuture::from(directory).await.and_then(Result::err).map(Fault::from);
            let refused = refused.filter(|fault| matches!(fault, Fault::Forbidden(_) | Fault::Refused(_)));
            Ok(JoinReply {
                created: match (created.await, refused) {
                    (Ok((stat, counter)), _) => Ok((format!("{path}{counter}"), stat)),
                    (Err(Error::NoNode), Some(refused)) => Err(refused),
                    (Err(error), _) => Err(error.into()),
                },
                children: match (OptionFuture::from(names).await, OptionFuture::from(stat).await) {
                    (Some(names), _) => names.map(Children::Names).map_err(Fault::from),
                    (None, stat) => {
                        let stat = stat.transpose().map_err(Fault::from).map(Option::flatten);
                        stat.and_then(|stat| stat.ok_or(Fault::NoNode)).map(number)
                    }
                },
                limit: found(limit).await,
            })
        })
        .await
    }

    /// `path` goes up to the counter. Returns the full path.
    pub(crate) async fn create_sequential(&self, path: &str, data: &[u8]) -> Answer<(String, Stat)> {
        let options = CreateMode::EphemeralSequential.with_acls(self.acls);
        let create = async |client: Arc<Client>| client.create(path, data, &options).await;
        let (stat, counter) = self.request(kind::CREATE, create).await?;
        Ok((format!("{path}{counter}"), stat))
    }

    pub(crate) async fn write(&self, path: &str, data: &[u8]) -> Answer<Stat> {
        self.request(kind::WRITE, async |client| client.set_data(path, data, None).await).await
    }

    pub(crate) async fn write_over(&self, path: &str, data: &[u8], version: i32) -> Answer<bool> {
        self.request(kind::WRITE, async |client| match client.set_data(path, data, Some(version)).await {
            Err(Error::BadVersion | Error::NoNode) => Ok(false),
            written => written.map(|_| true),
        })
        .await
    }

    /// Waits as long as the lease lives: a proof of contact counts from its send, even after a late answer.
    pub(crate) async fn write_until_lost(&self, path: &str, data: &[u8]) -> Answer<Stat> {
        let client = self.client()?;
        tokio::select! {
            biased;
            answer = client.set_data(path, data, None) => Ok(answer?),
            _ = self.lease().until_lost() => Err(Fault::SessionOver),
        }
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer<bool> {
        self.delete_all(&[path]).await
    }

    /// Deletes in this order, in one trip. Returns whether any existed.
    pub(crate) async fn delete_all(&self, paths: &[impl AsRef<str>]) -> Answer<bool> {
        self.request(kind::DELETE, async |client| {
            let deletions = paths.iter().map(|path| client.delete(path.as_ref(), None)).collect();
            Ok(answers(deletions, if_there).await?.iter().any(Option::is_some))
        })
        .await
    }

    /// Creates and deletes `announcement` before the deletion, in the same transaction: a client that watches
    /// both sees the announcement first. Returns whether the transaction succeeded.
    pub(crate) async fn announce_and_delete(&self, announcement: &str, path: &str) -> Answer<bool> {
        let steps = [
            Operation::Create { path: announcement, data: b"", mode: NodeMode::Persistent },
            Operation::Delete { path: announcement, version: None },
            Operation::Delete { path, version: None },
        ];
        match self.multi(kind::DELETE, &steps).await {
            Err(Fault::NoNode | Fault::NodeExists) => Ok(false),
            made => made.map(|()| true),
        }
    }

    pub(crate) async fn replace(&self, old: &str, new: &str, data: &[u8]) -> Answer<()> {
        let steps = [
            Operation::Create { path: new, data, mode: NodeMode::Ephemeral },
            Operation::Delete { path: old, version: None },
        ];
        self.multi(kind::MULTI, &steps).await
    }
}
