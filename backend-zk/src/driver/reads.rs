use std::sync::Arc;

use zookeeper_client::Client;

use super::request::{answers, behind, found, if_there};
use super::{Driver, InDirectory, Stat, Watch, kind};
use crate::error::Answer;

#[derive(Debug)]
pub(crate) struct QueueReply {
    pub(crate) children: Vec<String>,
    pub(crate) limit: Option<Answer<(Vec<u8>, Stat)>>,
}

#[derive(Debug)]
pub(crate) enum CellReply {
    NoNode,
    Node { directory: Option<Stat>, value: Vec<u8>, stat: Stat, children: Vec<String> },
    Changing,
}

// Each request calls all methods, which queue, before it awaits the first answer: one trip.
impl Driver {
    /// Reads the stored limit before the listing. After a `sync`, the reply shows everything that the leader
    /// had committed when the `sync` reached it.
    pub(crate) async fn look(&self, queue: &str, limit: Option<&str>, sync: bool) -> Answer<QueueReply> {
        self.request(kind::LIST, async |client| {
            let synced = sync.then(|| client.sync(queue));
            let limit = limit.map(|limit| client.get_data(limit));
            let children = client.list_children(queue);
            let reply = async {
                let limit = found(limit).await;
                Ok(QueueReply { children: children.await?, limit })
            };
            behind(synced, reply).await
        })
        .await
    }

    pub(crate) async fn children(&self, path: &str) -> Answer<Vec<String>> {
        self.request(kind::LIST, async |client| client.list_children(path).await).await
    }

    pub(crate) async fn children_watched(&self, path: &str) -> Answer<(Vec<String>, Watch)> {
        let list = async |client: Arc<Client>| {
            behind(self.only_watches.then(|| client.sync(path)), client.list_and_watch_children(path)).await
        };
        let (children, watcher) = self.request(kind::LIST, list).await?;
        Ok((children, self.armed(path, watcher)))
    }

    /// As [`look`](Self::look) with `sync`. A missing directory has no children.
    pub(crate) async fn sync_children(&self, path: &str) -> Answer<Vec<String>> {
        self.request(kind::LIST, async |client| {
            let children = behind(Some(client.sync(path)), client.list_children(path)).await;
            Ok(if_there(children)?.unwrap_or_default())
        })
        .await
    }

    /// The written node need not exist: a majority also commits the refusal. A missing directory has no
    /// children.
    pub(crate) async fn write_and_list(&self, written: &str, data: &[u8], path: &str) -> Answer<Vec<String>> {
        self.request(kind::LIST, async |client| {
            let (write, children) = (client.set_data(written, data, None), client.list_children(path));
            if_there(write.await)?;
            Ok(if_there(children.await)?.unwrap_or_default())
        })
        .await
    }

    pub(crate) async fn stat(&self, path: &str) -> Answer<Option<Stat>> {
        self.request(kind::CONTACT, async |client| client.check_stat(path).await).await
    }

    pub(crate) async fn read(&self, path: &str) -> Answer<(Vec<u8>, Stat)> {
        self.request(kind::READ, async |client| client.get_data(path).await).await
    }

    pub(crate) async fn members(&self) -> Answer<Vec<u8>> {
        Ok(self.request(kind::READ, async |client| client.get_config().await).await?.0)
    }

    /// `None` if the node does not exist.
    pub(crate) async fn sync_read(&self, path: &str) -> Answer<Option<(Vec<u8>, Stat)>> {
        self.request(kind::READ, async |client| {
            if_there(behind(Some(client.sync(path)), client.get_data(path)).await)
        })
        .await
    }

    pub(crate) async fn read_all(&self, paths: &[String]) -> Answer<Vec<Option<(Vec<u8>, Stat)>>> {
        self.request(kind::READ, async |client| {
            answers(paths.iter().map(|path| client.get_data(path)).collect(), if_there).await
        })
        .await
    }

    pub(crate) async fn child_counts(&self, paths: &[&str]) -> Answer<Vec<i32>> {
        self.request(kind::STAT, async |client| {
            let reads = paths.iter().map(|path| client.check_stat(path)).collect();
            answers(reads, |stat| Ok(stat?.map_or(0, |stat| stat.num_children))).await
        })
        .await
    }

    /// With the stats at that time; `None` for a node that does not exist.
    pub(crate) async fn nodes(&self, paths: &[&str]) -> Answer<Vec<Option<(Vec<String>, Stat)>>> {
        self.request(kind::LIST, async |client| {
            answers(paths.iter().map(|path| client.get_children(path)).collect(), if_there).await
        })
        .await
    }

    /// The stat of a deleted node would watch for its creation instead.
    pub(crate) async fn watch(&self, path: &str) -> Answer<(Vec<u8>, Stat, Watch)> {
        let read = async |client: Arc<Client>| {
            behind(self.only_watches.then(|| client.sync(path)), client.get_and_watch_data(path)).await
        };
        let (data, stat, watcher) = self.request(kind::WATCH, read).await?;
        Ok((data, stat, self.armed(path, watcher)))
    }

    /// Watches for the creation of a node. `None` if it exists.
    pub(crate) async fn watch_for(&self, path: &str) -> Answer<Option<Watch>> {
        let look = async |client: Arc<Client>| client.check_and_watch_stat(path).await;
        let (stat, watcher) = self.request(kind::WATCH, look).await?;
        Ok(stat.is_none().then(|| self.armed(path, watcher)))
    }

    pub(crate) async fn watch_changes(&self, path: &str) -> Answer<Watch> {
        let look = async |client: Arc<Client>| {
            behind(self.only_watches.then(|| client.sync(path)), client.check_and_watch_stat(path)).await
        };
        let (_, watcher) = self.request(kind::WATCH, look).await?;
        Ok(self.armed(path, watcher))
    }

    /// Watches the next change of a node, and the next creation or deletion of a child. The second is `None`
    /// if the node does not exist: the first then reports its creation.
    pub(crate) async fn watch_directory(&self, path: &str) -> Answer<(Watch, Option<Watch>)> {
        let look = async |client: Arc<Client>| {
            let synced = self.only_watches.then(|| client.sync(path));
            let own = client.check_and_watch_stat(path);
            let children = client.list_and_watch_children(path);
            let (_, own) = behind(synced, own).await?;
            Ok((own, if_there(children.await)?))
        };
        let (own, children) = self.request(kind::WATCH, look).await?;
        Ok((self.armed(path, own), children.map(|(_, watcher)| self.armed(path, watcher))))
    }

    /// After a `sync`. The directory's stat is read *before* the node. `None` for each that does not exist.
    pub(crate) async fn sync_read_in(&self, directory: &str, path: &str) -> Answer<InDirectory> {
        self.request(kind::READ, async |client| {
            let (synced, directory) = (client.sync(path), client.check_stat(directory));
            let node = client.get_data(path);
            synced.await?;
            Ok((directory.await?, if_there(node.await)?))
        })
        .await
    }

    pub(crate) async fn sync_read_cell(&self, directory: &str, path: &str) -> Answer<CellReply> {
        self.request(kind::READ, async |client| {
            let (synced, directory) = (client.sync(path), client.check_stat(directory));
            let (node, children) = (client.get_data(path), client.get_children(path));
            synced.await?;
            let directory = directory.await?;
            let Some((value, read)) = if_there(node.await)? else { return Ok(CellReply::NoNode) };
            Ok(match if_there(children.await)? {
                Some((children, stat)) if (stat.czxid, stat.mzxid) == (read.czxid, read.mzxid) => {
                    CellReply::Node { directory, value, stat, children }
                }
                _ => CellReply::Changing,
            })
        })
        .await
    }
}
