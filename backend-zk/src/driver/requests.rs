//! The requests of a session. A request is queued when the crate's method is called, not when its future is polled, so
//! that several calls in a row are one round trip, carried out in that order.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zookeeper_client::{Client, CreateMode, Error as Answer};

use super::watch::Watch;
use super::{Driver, Result};
use crate::error::{Fault, Tried, Unheard};

/// What a reply tells of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    /// The transaction that made it.
    pub(crate) czxid: i64,
    /// The transaction that last wrote it.
    pub(crate) mzxid: i64,
    /// The session it hangs on.
    pub(crate) owner: i64,
    /// When it was made and last written, by the server's clock, in milliseconds.
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
}

impl From<zookeeper_client::Stat> for Stat {
    fn from(stat: zookeeper_client::Stat) -> Self {
        Self {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            owner: stat.ephemeral_owner,
            ctime: stat.ctime,
            mtime: stat.mtime,
        }
    }
}

/// What kind of node to create.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Persistent,
    /// Removed by the server a minute after its last child.
    Container,
    /// Removed with the session.
    Ephemeral,
}

impl From<Mode> for CreateMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Persistent => CreateMode::Persistent,
            Mode::Container => CreateMode::Container,
            Mode::Ephemeral => CreateMode::Ephemeral,
        }
    }
}

/// The replies to a join, which are one round trip.
#[derive(Debug)]
pub(crate) struct Joined {
    /// The full path and stat of the node that was made.
    pub(crate) created: Result<(String, Stat)>,
    pub(crate) children: Result<Vec<String>>,
    /// The stored limit's data and stat, when it was asked for.
    pub(crate) limit: Option<Result<(Vec<u8>, Stat)>>,
}

/// The replies to a look at a queue, which are one round trip.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) children: Vec<String>,
    /// The stored limit's data and stat, when it was asked for.
    pub(crate) limit: Option<Result<(Vec<u8>, Stat)>>,
}

/// What a join asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining<'a> {
    pub(crate) queue: &'a str,
    /// Name of the node up to the counter.
    pub(crate) prefix: &'a str,
    pub(crate) label: &'a str,
    pub(crate) limit: Option<&'a str>,
    /// The queue's directory is not there: make it first, in the same trip.
    pub(crate) cold: bool,
}

impl Driver {
    /// Makes a node and its missing parents, all of one mode. What is there already is left as it is, and
    /// asked for first: a parent that one may not create in is no obstacle then.
    pub(crate) async fn make_path(&self, path: &str, mode: Mode) -> Result<()> {
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

    pub(crate) async fn create(&self, path: &str, data: &[u8], mode: Mode) -> Result<Stat> {
        let options = CreateMode::from(mode).with_acls(self.acls);
        let (stat, _) =
            self.request_first(|client| async move { client.create(path, data, &options).await }).await?;
        Ok(stat.into())
    }

    /// Makes a sequential ephemeral node and lists its queue, in one trip.
    pub(crate) async fn join(&self, joining: Joining<'_>) -> Result<Joined> {
        let Joining { queue, prefix, label, limit, cold } = joining;
        let path = format!("{queue}/{prefix}");
        let directory = CreateMode::Container.with_acls(self.acls);
        let node = CreateMode::EphemeralSequential.with_acls(self.acls);
        let path = &path;
        self.request(|client| async move {
            // All are called, and so queued, before the first is awaited.
            let directory = cold.then(|| client.create(queue, b"", &directory));
            let created = client.create(path, label.as_bytes(), &node);
            // Before the listing: see `read_limit`.
            let limit = limit.map(|limit| client.get_data(limit));
            let children = client.list_children(queue);
            // Lost a race to another, or its parent is missing: the create behind it tells. It does not tell a refusal.
            let refused = match directory {
                Some(directory) => directory.await.err().map(Fault::from),
                None => None,
            }
            .filter(|fault| matches!(fault, Fault::Forbidden(_) | Fault::Refused(_)));
            Ok(Joined {
                created: match (created.await, refused) {
                    (Ok((stat, counter)), _) => Ok((format!("{path}{counter}"), stat.into())),
                    (Err(Answer::NoNode), Some(refused)) => Err(refused),
                    (Err(answer), _) => Err(answer.into()),
                },
                children: children.await.map_err(Fault::from),
                limit: found(limit).await,
            })
        })
        .await
    }

    /// Makes a sequential ephemeral node, whose name up to the counter is given, and answers its full path. In the same trip
    /// another node is watched, as [`watch`](Self::watch) does it, if one is named.
    pub(crate) async fn create_sequential(
        &self,
        path: &str,
        data: &[u8],
        watched: Option<&str>,
    ) -> Result<(String, Stat, Option<Result<Watch>>)> {
        let options = CreateMode::EphemeralSequential.with_acls(self.acls);
        let (created, watch) = self
            .request(|client| async move {
                // Both are called, and so queued, before the first is awaited.
                let created = client.create(path, data, &options);
                let watch = watched.map(|watched| (watched, client.get_and_watch_data(watched)));
                let created = created.await?;
                let watch = match watch {
                    Some((watched, watch)) => Some((watched, watch.await)),
                    None => None,
                };
                Ok((created, watch))
            })
            .await?;
        let watched = watch.map(|(watched, answer)| {
            answer.map(|(_, _, watcher)| self.armed(watched, watcher)).map_err(Fault::from)
        });
        Ok((format!("{path}{}", created.1), created.0.into(), watched))
    }

    /// Lists a queue, and reads its stored limit before (see [`read_limit`](crate::limit::read_limit)), in one trip. Behind a
    /// `sync`, where that is wanted, all shows that the leader had committed when that came there.
    pub(crate) async fn look(&self, queue: &str, limit: Option<&str>, sync: bool) -> Result<Look> {
        self.request(|client| async move {
            // All are called, and so queued, before the first is awaited.
            let synced = sync.then(|| client.sync(queue));
            let limit = limit.map(|limit| client.get_data(limit));
            let children = client.list_children(queue);
            if let Some(synced) = synced {
                synced.await?;
            }
            let limit = found(limit).await;
            Ok(Look { children: children.await?, limit })
        })
        .await
    }

    pub(crate) async fn children(&self, path: &str) -> Result<Vec<String>> {
        self.request(|client| async move { client.list_children(path).await }).await
    }

    /// Lists, with a watch for the next change that is armed by the listing itself.
    pub(crate) async fn children_watched(&self, path: &str) -> Result<(Vec<String>, Watch)> {
        let (children, watcher) = self
            .request(|client| async move {
                let list = || client.list_and_watch_children(path);
                behind_sync(&client, path, self.sync_first, list).await
            })
            .await?;
        Ok((children, self.armed(path, watcher)))
    }

    /// Lists behind a `sync`: all that the leader had committed when it came there shows (RULES B8).
    pub(crate) async fn sync_children(&self, path: &str) -> Result<Vec<String>> {
        self.request(
            |client| async move { behind_sync(&client, path, true, || client.list_children(path)).await },
        )
        .await
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<Option<Stat>> {
        let stat = self.request_first(|client| async move { client.check_stat(path).await }).await?;
        Ok(stat.map(Stat::from))
    }

    pub(crate) async fn read(&self, path: &str) -> Result<(Vec<u8>, Stat)> {
        let (data, stat) = self.request(|client| async move { client.get_data(path).await }).await?;
        Ok((data, stat.into()))
    }

    /// Reads behind a `sync`.
    pub(crate) async fn sync_read(&self, path: &str) -> Result<Vec<u8>> {
        self.request(|client| async move {
            Ok(behind_sync(&client, path, true, || client.get_data(path)).await?.0)
        })
        .await
    }

    /// Reads several nodes in one trip; `None` for one that is not there.
    pub(crate) async fn read_all(&self, paths: &[String]) -> Result<Vec<Option<(Vec<u8>, Stat)>>> {
        self.request(|client| async move {
            let reads: Vec<_> = paths.iter().map(|path| client.get_data(path)).collect();
            let mut found = Vec::with_capacity(reads.len());
            for read in reads {
                found.push(match read.await {
                    Ok((data, stat)) => Some((data, stat.into())),
                    Err(Answer::NoNode) => None,
                    Err(answer) => return Err(answer),
                });
            }
            Ok(found)
        })
        .await
    }

    /// Reads, and arms a watch for the node's next change or end. A read and not a mere look, since
    /// a look at a node that is gone would leave a watch for its coming.
    pub(crate) async fn watch(&self, path: &str) -> Result<(Vec<u8>, Stat, Watch)> {
        let (data, stat, watcher) = self
            .request(|client| async move {
                let read = || client.get_and_watch_data(path);
                behind_sync(&client, path, self.sync_first, read).await
            })
            .await?;
        Ok((data, stat.into(), self.armed(path, watcher)))
    }

    /// Arms a watch for a node that is to come; `None` where it is there.
    pub(crate) async fn watch_for(&self, path: &str) -> Result<Option<Watch>> {
        let (stat, watcher) =
            self.request(|client| async move { client.check_and_watch_stat(path).await }).await?;
        Ok(stat.is_none().then(|| self.armed(path, watcher)))
    }

    pub(crate) async fn write(&self, path: &str, data: &[u8]) -> Result<Stat> {
        Ok(self.request(|client| async move { client.set_data(path, data, None).await }).await?.into())
    }

    /// A write whose answer is awaited for as long as the lease lives: for proofs of contact, which
    /// count from their send, however late the answer.
    pub(crate) async fn write_until_lost(&self, path: &str, data: &[u8]) -> Result<Stat> {
        let client = self.client()?;
        tokio::select! {
            biased;
            answer = client.set_data(path, data, None) => Ok(answer?.into()),
            _ = self.lease.until_lost() => Err(Fault::Gone),
        }
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        self.request(|client| async move { client.delete(path, None).await }).await
    }

    /// Deletes in this order, in one trip; what is gone already is fine. Answers whether any was there.
    pub(crate) async fn delete_all(&self, paths: &[String]) -> Result<bool> {
        self.request(|client| async move {
            let deletions: Vec<_> = paths.iter().map(|path| client.delete(path, None)).collect();
            let mut was_there = false;
            for deletion in deletions {
                match deletion.await {
                    Ok(()) => was_there = true,
                    Err(Answer::NoNode) => {}
                    Err(answer) => return Err(answer),
                }
            }
            Ok(was_there)
        })
        .await
    }

    /// Deletes a node, and makes and deletes another in the same transaction, so that whoever watches for that one is told first.
    /// Answers whether it could be done.
    pub(crate) async fn tell_and_delete(&self, told: &str, path: &str) -> Result<bool> {
        let options = CreateMode::Persistent.with_acls(self.acls);
        self.request(|client| async move {
            let mut all = client.new_multi_writer();
            all.add_create(told, b"", &options)?;
            all.add_delete(told, None)?;
            all.add_delete(path, None)?;
            match all.commit().await.map_err(Answer::from) {
                Ok(_) => Ok(true),
                Err(Answer::NoNode | Answer::NodeExists) => Ok(false),
                Err(answer) => Err(answer),
            }
        })
        .await
    }

    /// Makes an ephemeral node in the place of another: both, or neither.
    pub(crate) async fn replace(&self, old: &str, new: &str, data: &[u8]) -> Result<()> {
        let options = CreateMode::Ephemeral.with_acls(self.acls);
        self.request(|client| async move {
            let mut both = client.new_multi_writer();
            both.add_create(new, data, &options)?;
            both.add_delete(old, None)?;
            both.commit().await?;
            Ok(())
        })
        .await
    }

    /// One request, when it is its turn.
    pub(super) async fn request<T, F>(&self, send: impl FnOnce(Arc<Client>) -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, Answer>>,
    {
        let Ok((_turn, left)) = self.turns.take(self.request_timeout).await else {
            return Err(Fault::NoTurn);
        };
        self.request_within(left, send).await
    }

    /// One request, before those that wait for their turn: what makes this client's own node, by which it proves contact.
    async fn request_first<T, F>(&self, send: impl FnOnce(Arc<Client>) -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, Answer>>,
    {
        self.request_within(self.request_timeout, send).await
    }

    async fn request_within<T, F>(&self, time: Duration, send: impl FnOnce(Arc<Client>) -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, Answer>>,
    {
        let begun = Instant::now();
        let tried = || Tried { hosts: self.link.host().to_owned(), took: begun.elapsed() };
        let timeout = tokio::time::sleep(time);
        tokio::pin!(timeout);
        if !self.is_connected() {
            tokio::select! {
                connected = self.connected() => connected?,
                () = &mut timeout => return Err(Fault::Unsent(tried())),
            }
        }
        let client = self.client()?;
        tokio::select! {
            biased;
            answer = send(client) => answer.map_err(|answer| Fault::from(answer).after(tried())),
            _ = self.lease.until_lost() => Err(Fault::Gone),
            () = &mut timeout => Err(Fault::Unknown(Unheard { answer: None, tried: Some(tried()) })),
        }
    }
}

/// What a read answers, where one was asked for.
async fn found<F>(read: Option<F>) -> Option<Result<(Vec<u8>, Stat)>>
where
    F: Future<Output = std::result::Result<(Vec<u8>, zookeeper_client::Stat), Answer>>,
{
    Some(read?.await.map(|(data, stat)| (data, stat.into())).map_err(Fault::from))
}

/// Asks, behind a `sync` in the same trip where that is wanted.
async fn behind_sync<T, F>(
    client: &Client,
    path: &str,
    wanted: bool,
    ask: impl FnOnce() -> F,
) -> std::result::Result<T, Answer>
where
    F: Future<Output = std::result::Result<T, Answer>>,
{
    // Both are called, and so queued, before the first is awaited.
    let synced = wanted.then(|| client.sync(path));
    let answer = ask();
    if let Some(synced) = synced {
        synced.await?;
    }
    answer.await
}
