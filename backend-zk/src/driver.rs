//! One session of the client crate, and the only place that calls it.
//!
//! What the crate does and this file relies on: a request is queued when its method is called, not when its
//! future is polled, so several calls in a row are one round trip, carried out in that order. What it does
//! not do, and this file adds: requests wait without limit while it is disconnected, so each is bounded by
//! the request timeout and by the lease; its `Expired` comes later than the server's, so nothing waits for it;
//! it cannot end a connection without closing the session, so the task that serves it is kept in hand.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use latchwork_core::Moment;
use latchwork_core::contracts::Lease;
use parking_lot::Mutex;
use tokio::sync::watch;
use zookeeper_client::{Acls, Client, CreateMode, Error as Answer, EventType, OneshotWatcher, SessionState};

use crate::config::Settings;
use crate::error::Fault;
use crate::tasks::Tasks;

type Result<T> = std::result::Result<T, Fault>;

/// The shortest pause before a request that failed is sent again.
const PAUSE: Duration = Duration::from_millis(20);

/// What a reply tells of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    /// The transaction that made it.
    pub(crate) czxid: i64,
    /// The session it hangs on.
    pub(crate) owner: i64,
    /// When it was made and last written, by the server's clock, in milliseconds.
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
}

impl From<zookeeper_client::Stat> for Stat {
    fn from(stat: zookeeper_client::Stat) -> Self {
        Self { czxid: stat.czxid, owner: stat.ephemeral_owner, ctime: stat.ctime, mtime: stat.mtime }
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

/// An armed watch: tells of one event, once. Dropped, it is taken off the server.
#[derive(Debug)]
pub(crate) struct Watch {
    watcher: OneshotWatcher,
    killed: watch::Receiver<bool>,
}

/// What a watch saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Deleted,
    /// Its data or its children changed.
    Changed,
    SessionOver,
}

impl Watch {
    pub(crate) async fn event(self) -> Event {
        let Self { watcher, mut killed } = self;
        // The crate's watcher panics when the task that serves the session is gone without a word: aborted
        // by us, which is looked for first, or dead by a panic of its own.
        let changed = AssertUnwindSafe(watcher.changed()).catch_unwind();
        let event = tokio::select! {
            biased;
            _ = killed.wait_for(|killed| *killed) => return Event::SessionOver,
            event = changed => event,
        };
        match event.map(|event| event.event_type) {
            Ok(EventType::NodeDeleted) => Event::Deleted,
            Ok(EventType::Session) | Err(_) => Event::SessionOver,
            Ok(_) => Event::Changed,
        }
    }
}

/// The replies to a join, which are one round trip.
#[derive(Debug)]
pub(crate) struct Joined {
    /// The full path and stat of the node that was made.
    pub(crate) created: Result<(String, Stat)>,
    pub(crate) children: Result<Vec<String>>,
    /// The stored limit's data, when it was asked for.
    pub(crate) limit: Option<Result<Vec<u8>>>,
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

/// A session.
pub(crate) struct Driver {
    // Taken when the session is given back: the crate closes a session when its last handle goes.
    client: Mutex<Option<Arc<Client>>>,
    tasks: Tasks,
    state: zookeeper_client::StateWatcher,
    session: i64,
    lease: Lease,
    request_timeout: Duration,
    acls: Acls<'static>,
    killed: watch::Sender<bool>,
}

/// A session that was created: contact 0 of its lease.
pub(crate) struct Connected {
    pub(crate) driver: Driver,
    pub(crate) sent: Moment,
    pub(crate) answered: Moment,
}

impl Driver {
    /// Creates a session. Not bounded: the caller has a deadline over the whole of connecting.
    pub(crate) async fn connect(settings: &Settings) -> Result<Connected> {
        let tasks = Tasks::default();
        // Whole milliseconds on the wire: rounded up, or a server would seem to grant less than asked.
        let millis = settings.ttl.as_nanos().div_ceil(1_000_000);
        let ask = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        let mut connector = Client::connector().with_session_timeout(ask);
        if let Some(login) = &settings.login {
            connector = connector.with_auth("digest", login.0.as_bytes());
        }
        let sent = settings.clock.now();
        let client = tasks.within(connector.connect(&settings.hosts.join(","))).await?;
        let answered = settings.clock.now();
        let lease = Lease::new(settings.clock.clone(), client.session_timeout(), sent);
        // Readable by all without a login, as Curator does; with one, only that login's.
        let acls = if settings.login.is_some() { Acls::creator_all() } else { Acls::anyone_all() };
        let driver = Driver {
            state: client.state_watcher(),
            session: client.session_id().0,
            client: Mutex::new(Some(Arc::new(client))),
            tasks,
            lease,
            request_timeout: settings.request_timeout,
            acls,
            killed: watch::Sender::new(false),
        };
        if let Some(chroot) = &settings.chroot {
            driver.make_path(chroot, Mode::Persistent).await?;
            let mut client = driver.client.lock();
            let root = client.as_deref().cloned().ok_or(Fault::Gone)?;
            let inner = root.chroot(chroot.as_str()).map_err(|_| Fault::Refused(Answer::NoNode))?;
            *client = Some(Arc::new(inner));
        }
        Ok(Connected { driver, sent, answered })
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The session's id: what `ephemeralOwner` says of our nodes.
    pub(crate) fn session(&self) -> i64 {
        self.session
    }

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
            self.request(|client| async move { client.create(path, data, &options).await }).await?;
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
            let children = client.list_children(queue);
            let limit = limit.map(|limit| client.get_data(limit));
            if let Some(directory) = directory {
                // Lost a race to another, or its parent is missing: the create behind it tells.
                let _ = directory.await;
            }
            Ok(Joined {
                created: match created.await {
                    Ok((stat, counter)) => Ok((format!("{path}{counter}"), stat.into())),
                    Err(answer) => Err(answer.into()),
                },
                children: children.await.map_err(Fault::from),
                limit: match limit {
                    Some(limit) => Some(limit.await.map(|(data, _)| data).map_err(Fault::from)),
                    None => None,
                },
            })
        })
        .await
    }

    pub(crate) async fn children(&self, path: &str) -> Result<Vec<String>> {
        self.request(|client| async move { client.list_children(path).await }).await
    }

    /// Lists, with a watch for the next change that is armed by the listing itself.
    pub(crate) async fn children_watched(&self, path: &str) -> Result<(Vec<String>, Watch)> {
        let (children, watcher) =
            self.request(|client| async move { client.list_and_watch_children(path).await }).await?;
        Ok((children, self.armed(watcher)))
    }

    /// Lists behind a `sync`: all that the leader had committed when it came there shows (RULES B8).
    pub(crate) async fn sync_children(&self, path: &str) -> Result<Vec<String>> {
        self.request(|client| async move {
            let synced = client.sync(path);
            let children = client.list_children(path);
            synced.await?;
            children.await
        })
        .await
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<Option<Stat>> {
        let stat = self.request(|client| async move { client.check_stat(path).await }).await?;
        Ok(stat.map(Stat::from))
    }

    pub(crate) async fn read(&self, path: &str) -> Result<(Vec<u8>, Stat)> {
        let (data, stat) = self.request(|client| async move { client.get_data(path).await }).await?;
        Ok((data, stat.into()))
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
        let (data, stat, watcher) =
            self.request(|client| async move { client.get_and_watch_data(path).await }).await?;
        Ok((data, stat.into(), self.armed(watcher)))
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

    /// Waits until it is connected, or the lease is lost.
    pub(crate) async fn connected(&self) -> Result<()> {
        if self.client()?.state() == SessionState::SyncConnected {
            return Ok(());
        }
        let mut watcher = self.state.clone();
        let mut state = watcher.state();
        loop {
            match state {
                SessionState::SyncConnected => return Ok(()),
                state if state.is_terminated() => return Err(Fault::Gone),
                _ => {}
            }
            tokio::select! {
                next = watcher.changed() => state = next,
                _ = self.lease.until_lost() => return Err(Fault::Gone),
            }
        }
    }

    /// After a request that came to nothing: waits until it makes sense to ask again. Never at once, since a
    /// server under load may refuse while the connection stands.
    pub(crate) async fn recovered(&self) -> Result<()> {
        tokio::time::sleep(PAUSE).await;
        self.connected().await
    }

    /// Whether [`kill`](Self::kill) ended it: the lease runs out by itself then.
    pub(crate) fn is_killed(&self) -> bool {
        *self.killed.borrow()
    }

    /// Suspends the lease whenever the connection is lost; returns when the session is over.
    pub(crate) async fn follow(&self) {
        let mut watcher = self.state.clone();
        let mut state = watcher.state();
        while !state.is_terminated() {
            if state != SessionState::SyncConnected {
                self.lease.suspend();
            }
            state = watcher.changed().await;
        }
    }

    /// Gives the session back: the server removes all that hangs on it as soon as it can be told. Requests
    /// under way hold the client until they see that the lease is lost, so that is to be ended before.
    pub(crate) fn give_back(&self) {
        self.client.lock().take();
    }

    /// Waits until the server has confirmed that the session given back is closed.
    pub(crate) async fn closed(&self) {
        let mut watcher = self.state.clone();
        let mut state = watcher.state();
        while !state.is_terminated() {
            state = watcher.changed().await;
        }
    }

    /// Whether it is connected now.
    pub(crate) fn is_connected(&self) -> bool {
        self.state.peek_state() == SessionState::SyncConnected
    }

    /// Cuts the connection and sends nothing more: the session is left to expire on the server.
    pub(crate) async fn kill(&self) {
        self.killed.send_replace(true);
        // Ended before the last handle goes, or it would close the session on its way out.
        self.tasks.abort().await;
        self.give_back();
    }

    fn armed(&self, watcher: OneshotWatcher) -> Watch {
        Watch { watcher, killed: self.killed.subscribe() }
    }

    fn client(&self) -> Result<Arc<Client>> {
        self.client.lock().clone().ok_or(Fault::Gone)
    }

    async fn request<T, F>(&self, send: impl FnOnce(Arc<Client>) -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, Answer>>,
    {
        let timeout = tokio::time::sleep(self.request_timeout);
        tokio::pin!(timeout);
        let client = self.client()?;
        if client.state() != SessionState::SyncConnected {
            tokio::select! {
                connected = self.connected() => connected?,
                () = &mut timeout => return Err(Fault::Unsent),
            }
        }
        tokio::select! {
            biased;
            answer = send(client) => Ok(answer?),
            _ = self.lease.until_lost() => Err(Fault::Gone),
            () = &mut timeout => Err(Fault::Unknown(None)),
        }
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("session", &format_args!("{:#x}", self.session))
            .finish_non_exhaustive()
    }
}
