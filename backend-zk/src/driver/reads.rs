//! Requests that read, and those that watch what they read.

use zookeeper_client::Error;

use super::request::{RequestKind, behind_sync, found};
use super::{CellStat, Driver, Stat, Watch};
use crate::error::Answer;

/// The replies to [`Driver::look`], which is one round trip.
#[derive(Debug)]
pub(crate) struct QueueReply {
    pub(crate) children: Vec<String>,
    /// The stored limit's data and stat, when it was asked for.
    pub(crate) limit: Option<Answer<(Vec<u8>, Stat)>>,
}

/// The reply to [`Driver::sync_read_cell`].
#[derive(Debug)]
pub(crate) enum CellReply {
    NoNode,
    Node {
        directory: Option<CellStat>,
        value: Vec<u8>,
        stat: CellStat,
        children: Vec<String>,
    },
    /// It was written, made anew or removed between the requests.
    Changing,
}

impl Driver {
    /// Lists a queue, and reads its stored limit before, in one trip. Behind a `sync` the reply
    /// shows all that the leader had committed when the `sync` reached it.
    pub(crate) async fn look(&self, queue: &str, limit: Option<&str>, sync: bool) -> Answer<QueueReply> {
        self.request(RequestKind::List, |client| async move {
            // All are called, and so queued, before the first is awaited.
            let synced = sync.then(|| client.sync(queue));
            let limit = limit.map(|limit| client.get_data(limit));
            let children = client.list_children(queue);
            if let Some(synced) = synced {
                synced.await?;
            }
            let limit = found(limit).await;
            Ok(QueueReply { children: children.await?, limit })
        })
        .await
    }

    pub(crate) async fn children(&self, path: &str) -> Answer<Vec<String>> {
        self.request(RequestKind::List, |client| async move { client.list_children(path).await }).await
    }

    /// Lists, with a watch for the next change that the listing itself arms.
    pub(crate) async fn children_watched(&self, path: &str) -> Answer<(Vec<String>, Watch)> {
        let (children, watcher) = self
            .request(RequestKind::List, |client| async move {
                let list = || client.list_and_watch_children(path);
                behind_sync(&client, path, self.sync_first, list).await
            })
            .await?;
        Ok((children, self.armed(path, watcher)))
    }

    /// Lists behind a `sync`: shows all that the leader had committed when it came there.
    pub(crate) async fn sync_children(&self, path: &str) -> Answer<Vec<String>> {
        self.request(RequestKind::List, |client| async move {
            behind_sync(&client, path, true, || client.list_children(path)).await
        })
        .await
    }

    /// Writes a node, and lists another behind it, in one trip. Whether the written one is there is no matter:
    /// a majority commits the refusal as well.
    pub(crate) async fn write_and_list(&self, written: &str, data: &[u8], path: &str) -> Answer<Vec<String>> {
        self.request(RequestKind::List, |client| async move {
            // Both are called, and so queued, before the first is awaited.
            let (write, children) = (client.set_data(written, data, None), client.list_children(path));
            match write.await {
                Ok(_) | Err(Error::NoNode) => children.await,
                Err(error) => Err(error),
            }
        })
        .await
    }

    pub(crate) async fn stat(&self, path: &str) -> Answer<Option<Stat>> {
        let stat =
            self.request(RequestKind::Contact, |client| async move { client.check_stat(path).await }).await?;
        Ok(stat.map(Stat::from))
    }

    pub(crate) async fn read(&self, path: &str) -> Answer<(Vec<u8>, Stat)> {
        let (data, stat) =
            self.request(RequestKind::Read, |client| async move { client.get_data(path).await }).await?;
        Ok((data, stat.into()))
    }

    /// The members of the ensemble, as the server has them written.
    pub(crate) async fn members(&self) -> Answer<Vec<u8>> {
        Ok(self.request(RequestKind::Read, |client| async move { client.get_config().await }).await?.0)
    }

    /// Reads behind a `sync`. Answers the data, and their version.
    pub(crate) async fn sync_read(&self, path: &str) -> Answer<(Vec<u8>, i32)> {
        self.request(RequestKind::Read, |client| async move {
            let (data, stat) = behind_sync(&client, path, true, || client.get_data(path)).await?;
            Ok((data, stat.version))
        })
        .await
    }

    /// Reads several nodes in one trip. `None` for one that is not there.
    pub(crate) async fn read_all(&self, paths: &[String]) -> Answer<Vec<Option<(Vec<u8>, Stat)>>> {
        self.request(RequestKind::Read, |client| async move {
            found_of_each(paths.iter().map(|path| client.get_data(path)).collect()).await
        })
        .await
    }

    /// How many children several nodes have, in one trip. 0 for one that is not there.
    pub(crate) async fn child_counts(&self, paths: &[&str]) -> Answer<Vec<i32>> {
        self.request(RequestKind::Stat, |client| async move {
            let reads: Vec<_> = paths.iter().map(|path| client.check_stat(path)).collect();
            let mut counts = Vec::with_capacity(reads.len());
            for read in reads {
                counts.push(read.await?.map_or(0, |stat| stat.num_children));
            }
            Ok(counts)
        })
        .await
    }

    /// The names of the children of several nodes, and the stat that each has with them, in one trip.
    /// `None` for one that is not there.
    pub(crate) async fn nodes(&self, paths: &[&str]) -> Answer<Vec<Option<(Vec<String>, CellStat)>>> {
        self.request(RequestKind::List, |client| async move {
            found_of_each(paths.iter().map(|path| client.get_children(path)).collect()).await
        })
        .await
    }

    /// Reads, and arms a watch for the node's next change or end. A stat would not do: that of a
    /// node that is gone leaves a watch for its creation.
    pub(crate) async fn watch(&self, path: &str) -> Answer<(Vec<u8>, Stat, Watch)> {
        let (data, stat, watcher) = self
            .request(RequestKind::Watch, |client| async move {
                let read = || client.get_and_watch_data(path);
                behind_sync(&client, path, self.sync_first, read).await
            })
            .await?;
        Ok((data, stat.into(), self.armed(path, watcher)))
    }

    /// Arms a watch for the creation of a node. `None` where it is there already.
    pub(crate) async fn watch_for(&self, path: &str) -> Answer<Option<Watch>> {
        let (stat, watcher) = self
            .request(RequestKind::Watch, |client| async move { client.check_and_watch_stat(path).await })
            .await?;
        Ok(stat.is_none().then(|| self.armed(path, watcher)))
    }

    /// Arms a watch for the next change of a node: its creation, a write, its end.
    pub(crate) async fn watch_changes(&self, path: &str) -> Answer<Watch> {
        let (_, watcher) = self
            .request(RequestKind::Watch, |client| async move {
                let look = || client.check_and_watch_stat(path);
                behind_sync(&client, path, self.sync_first, look).await
            })
            .await?;
        Ok(self.armed(path, watcher))
    }

    /// Arms, in one trip, a watch for the next change of a node, and one for the next that comes to
    /// its children or goes. `None` for the second where the node is not there: its creation is a
    /// change of the first.
    pub(crate) async fn watch_directory(&self, path: &str) -> Answer<(Watch, Option<Watch>)> {
        let (own, children) = self
            .request(RequestKind::Watch, |client| async move {
                // All are called, and so queued, before the first is awaited.
                let synced = self.sync_first.then(|| client.sync(path));
                let own = client.check_and_watch_stat(path);
                let children = client.list_and_watch_children(path);
                if let Some(synced) = synced {
                    synced.await?;
                }
                let (_, own) = own.await?;
                match children.await {
                    Ok((_, children)) => Ok((own, Some(children))),
                    Err(Error::NoNode) => Ok((own, None)),
                    Err(error) => Err(error),
                }
            })
            .await?;
        let armed = |watcher| self.armed(path, watcher);
        Ok((armed(own), children.map(armed)))
    }

    /// Reads a node behind a `sync`, and *before it* the stat of its directory, in one trip. `None`
    /// for one that is not there.
    pub(crate) async fn sync_read_in(
        &self,
        directory: &str,
        path: &str,
    ) -> Answer<(Option<CellStat>, Option<(Vec<u8>, CellStat)>)> {
        self.request(RequestKind::Read, |client| async move {
            // All are called, and so queued, before the first is awaited.
            let synced = client.sync(path);
            let directory = client.check_stat(directory);
            let node = client.get_data(path);
            synced.await?;
            let directory = directory.await?.map(CellStat::from);
            match node.await {
                Ok((data, stat)) => Ok((directory, Some((data, stat.into())))),
                Err(Error::NoNode) => Ok((directory, None)),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// As [`sync_read_in`](Self::sync_read_in), with the names of the node's children, and its stat as
    /// it was with them.
    pub(crate) async fn sync_read_cell(&self, directory: &str, path: &str) -> Answer<CellReply> {
        self.request(RequestKind::Read, |client| async move {
            // All are called, and so queued, before the first is awaited.
            let synced = client.sync(path);
            let directory = client.check_stat(directory);
            let (node, children) = (client.get_data(path), client.get_children(path));
            synced.await?;
            let directory = directory.await?.map(CellStat::from);
            let (value, read) = match node.await {
                Ok(node) => node,
                Err(Error::NoNode) => return Ok(CellReply::NoNode),
                Err(error) => return Err(error),
            };
            match children.await {
                Ok((children, stat)) if (stat.czxid, stat.mzxid) == (read.czxid, read.mzxid) => {
                    Ok(CellReply::Node { directory, value, stat: stat.into(), children })
                }
                Ok(_) | Err(Error::NoNode) => Ok(CellReply::Changing),
                Err(error) => Err(error),
            }
        })
        .await
    }
}

/// The answers of reads that were all called, and so queued, before; `None` for a node that is not there.
async fn found_of_each<T, S, F>(reads: Vec<F>) -> Result<Vec<Option<(T, S)>>, Error>
where
    S: From<zookeeper_client::Stat>,
    F: Future<Output = Result<(T, zookeeper_client::Stat), Error>>,
{
    let mut found = Vec::with_capacity(reads.len());
    for read in reads {
        found.push(match read.await {
            Ok((read, stat)) => Some((read, stat.into())),
            Err(Error::NoNode) => None,
            Err(error) => return Err(error),
        });
    }
    Ok(found)
}
