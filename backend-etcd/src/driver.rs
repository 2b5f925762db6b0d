//! The client crate, and nothing of the protocol: every call to it is in this file.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, DeleteOptions, EventType, GetOptions, KvClient,
    LeaseKeepAliveStream, LeaseKeeper, PutOptions, ResponseHeader, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, WatchFilterType, WatchOptions, WatchResponse,
};
use latchwork_core::LostReason;
use latchwork_core::contracts::{LinkLog, Turns};
use tokio::sync::mpsc;

use crate::config::Settings;
use crate::error::{Answer, Failure, as_read, is_older_than_the_roles, late, no_such_revision};
use crate::incarnation::{Incarnations, Past, Seen};
use crate::terms::{Change, Ended, Entry, Found, Guard, Notice, Only, Order, Outcome, Range, Step, Watch};

/// How long a connection may be silent before it is asked for a sign of life. Servers hang up on clients that ask more
/// often than every 5 s. A stuck renewal is noticed by its own period, which helps where there is another member to ask: on
/// a connection that is dead without a word all wait for this.
const PING_AFTER: Duration = Duration::from_secs(6);
/// How long it may take to give one. Until then a member that is gone without a word comes up as often as the others.
const PING_ANSWER: Duration = Duration::from_secs(2);
/// A whole queue of the design's size, labels at their longest.
const LARGEST_ANSWER: usize = 64 << 20;

/// How long whoever holds is kept from its loss for the sake of the reason.
const REASON: Duration = Duration::from_secs(1);

/// A connection to the servers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Driver {
    client: Client,
    // Its part for keys: cloned for each request, which is dearer for the whole.
    kv: KvClient,
    request_timeout: Duration,
    spare_servers: usize,
    // Of what is asked of keys: renewals stand behind no more.
    turns: Arc<Turns>,
    link: Arc<LinkLog>,
    // One logs in anew at a time; and how often it was done.
    log_ins: Arc<tokio::sync::Mutex<()>>,
    logged_in: Arc<AtomicU64>,
    incarnations: Arc<Incarnations>,
}

#[cfg(test)]
impl Driver {
    /// Of a server that a test has to itself.
    pub(crate) async fn of(server: &latchwork_conformance::servers::Server) -> Self {
        Self::logged_in_to(server, None).await
    }

    pub(crate) async fn logged_in_to(
        server: &latchwork_conformance::servers::Server,
        login: Option<(String, latchwork_core::Secret)>,
    ) -> Self {
        let endpoints = vec![server.addr().to_owned()];
        let settings = Settings { endpoints, login, request_timeout: Duration::from_secs(5) };
        Self::connect(&settings).await.expect("it is up")
    }
}

impl Driver {
    /// Makes the channel, and logs in if a user is given. Connects to nothing else yet.
    pub(crate) async fn connect(settings: &Settings) -> Answer<Self> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(settings.request_timeout)
            .with_timeout(settings.request_timeout)
            .with_keep_alive(PING_AFTER, settings.request_timeout.min(PING_ANSWER))
            .with_keep_alive_while_idle(true)
            // A watch or keepalive through a member that lost its leader ends, rather than falling silent.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some((user, password)) = &settings.login {
            options = options.with_user(user.clone(), password.expose());
        }
        let client = Client::connect(&settings.endpoints, Some(options)).await?;
        // Which one is asked is left to chance, so that each may come up more than once.
        let spare_servers = 4 * (settings.endpoints.len() - 1);
        let kv = client.kv_client().max_decoding_message_size(LARGEST_ANSWER);
        Ok(Self {
            client,
            kv,
            request_timeout: settings.request_timeout,
            spare_servers,
            turns: Arc::default(),
            link: Arc::new(LinkLog::new(settings.endpoints.join(","))),
            log_ins: Arc::default(),
            logged_in: Arc::default(),
            incarnations: Arc::default(),
        })
    }

    /// What the log says of the connection.
    pub(crate) fn link(&self) -> &LinkLog {
        &self.link
    }

    /// How long a request may take.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// The server's version, and whether it knows a leader.
    pub(crate) async fn status(&self) -> Answer<(String, bool)> {
        let status = self
            .call("a look at its state", |mut client| async move { client.status().await })
            .await
            .map_err(as_read)?;
        Ok((status.version().to_owned(), status.leader() != 0))
    }

    /// A new lease: its id and the TTL that was granted.
    pub(crate) async fn grant(&self, ttl: Duration) -> Answer<(i64, Duration)> {
        // Whole seconds, rounded up.
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let before = self.incarnations.seen();
        let granted = self
            .call("the grant of a lease", |mut client| async move { client.lease_grant(seconds, None).await })
            .await?;
        self.heard(before, granted.header());
        self.incarnations.granted();
        Ok((granted.id(), Duration::from_secs(u64::try_from(granted.ttl()).unwrap_or(0))))
    }

    /// Gives a lease back, and all that hangs on it.
    pub(crate) async fn revoke(&self, lease: i64) -> Answer<()> {
        self.call("the end of a lease", |mut client| async move { client.lease_revoke(lease).await })
            .await
            .map(|_| ())
    }

    /// Opens a stream of renewals. The first renewal is sent, and answered, within.
    pub(crate) async fn keep_alive(&self, lease: i64) -> Answer<Renewals> {
        let (keeper, stream) = self
            .call("the renewal of a lease", |mut client| async move { client.lease_keep_alive(lease).await })
            .await?;
        Ok(Renewals { keeper, stream })
    }

    pub(crate) async fn transact(
        &self,
        guards: Vec<Guard>,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    ) -> Answer<Outcome> {
        let txn = Txn::new()
            .when(guards.into_iter().map(compare).collect::<Vec<_>>())
            .and_then(then.into_iter().map(operation).collect::<Vec<_>>())
            .or_else(otherwise.into_iter().map(operation).collect::<Vec<_>>());
        let request = || {
            let (mut kv, txn) = (self.kv.clone(), txn.clone());
            async move { kv.txn(txn).await }
        };
        let before = self.incarnations.seen();
        let answer = self.send("a transaction", request).await?;
        self.heard(before, answer.header());
        let mut deleted = false;
        let reads = answer.op_responses().into_iter().filter_map(|response| match response {
            TxnOpResponse::Get(get) => Some(found(&get)),
            TxnOpResponse::Delete(delete) => {
                deleted |= delete.deleted() > 0;
                None
            }
            _ => None,
        });
        let reads = reads.collect();
        Ok(Outcome {
            held: answer.succeeded(),
            revision: answer.header().map_or(0, |header| revision(header.revision())),
            reads,
            deleted,
        })
    }

    /// Deletes whatever bears this key. Answers whether anything did.
    pub(crate) async fn delete(&self, key: &[u8]) -> Answer<bool> {
        let request = || {
            let mut kv = self.kv.clone();
            async move { kv.delete(key, None).await }
        };
        let before = self.incarnations.seen();
        let answer = self.send("a deletion", request).await?;
        self.heard(before, answer.header());
        Ok(answer.deleted() > 0)
    }

    /// Reads, all at one revision.
    pub(crate) async fn read(&self, steps: Vec<Step>) -> Answer<Outcome> {
        self.transact(Vec::new(), steps, Vec::new()).await.map_err(as_read)
    }

    /// Reads keys with a prefix behind this one, as they were at a revision, in the server's order: at most so many.
    pub(crate) async fn page(&self, prefix: &str, behind: &[u8], at: u64, limit: i64) -> Answer<Found> {
        let start = [behind, b"\0"].concat();
        let options = GetOptions::new()
            .with_range(end_of(prefix))
            .with_revision(signed(at))
            .with_limit(limit)
            .with_keys_only();
        let request = || {
            let (mut kv, start, options) = (self.kv.clone(), start.clone(), options.clone());
            async move { kv.get(start, Some(options)).await }
        };
        let before = self.incarnations.seen();
        let answer = self.send("a read", request).await.map_err(as_read)?;
        self.heard(before, answer.header());
        Ok(found(&answer))
    }

    /// Reads one range, which costs server and client less than a transaction with one step: what it found, and at which revision.
    pub(crate) async fn range(&self, range: Range) -> Answer<(Found, u64)> {
        let (prefix, options) = range_request(range);
        let request = || {
            let (mut kv, prefix, options) = (self.kv.clone(), prefix.clone(), options.clone());
            async move { kv.get(prefix, Some(options)).await }
        };
        let before = self.incarnations.seen();
        let answer = self.send("a read", request).await.map_err(as_read)?;
        self.heard(before, answer.header());
        Ok((found(&answer), answer.header().map_or(0, |header| revision(header.revision()))))
    }

    /// Opens a stream of watches, with its first.
    pub(crate) async fn watch(&self, first: Watch) -> Answer<(WatchRequests, WatchEvents)> {
        let open = |mut client: Client| {
            let (key, options) = (first.key.to_vec(), watch_options(&first));
            async move { client.watch(key, Some(options)).await }
        };
        let stream = self.call("a stream of watches", open).await?;
        let (requests, events) = stream.split();
        let (sender, mut receiver) = mpsc::unbounded_channel();
        // The stream's own queue is short, and whoever waits for room in it while the answers pile up waits for ever.
        tokio::spawn(async move {
            let mut requests = requests;
            while let Some(request) = receiver.recv().await {
                let sent = match request {
                    WatchRequest::Start(watch) => {
                        requests.watch(watch.key.to_vec(), Some(watch_options(&watch))).await
                    }
                    WatchRequest::Stop(id) => requests.cancel(id).await,
                };
                if sent.is_err() {
                    // The stream is over, which its reader hears.
                    return;
                }
            }
        });
        Ok((WatchRequests(sender), WatchEvents(events)))
    }

    /// Why a key of the present lease is gone that was made at this revision. Whoever holds is not kept from its loss for long.
    pub(crate) async fn why_gone(&self, key: &[u8], created: u64) -> LostReason {
        let forgotten = match tokio::time::timeout(REASON, self.has_made(key, created)).await {
            Ok(Ok(Some(has_made))) => !has_made,
            // Not known, or not in time.
            Ok(_) | Err(_) => self.incarnations.has_changed(),
        };
        if forgotten { LostReason::Forgotten } else { LostReason::Revoked }
    }

    /// Whether the server has made this key at this revision; `None` where it keeps no history so old.
    async fn has_made(&self, key: &[u8], created: u64) -> Answer<Option<bool>> {
        let options = GetOptions::new().with_revision(signed(created)).with_keys_only();
        let request = || {
            let (mut kv, options) = (self.kv.clone(), options.clone());
            async move {
                match kv.get(key, Some(options)).await {
                    Ok(answer) => Ok(Ok(answer)),
                    Err(error) => no_such_revision(&error).map(Err).ok_or(error),
                }
            }
        };
        let before = self.incarnations.seen();
        Ok(match self.send("a look at the past of a key", request).await.map_err(as_read)? {
            Ok(answer) => {
                self.heard(before, answer.header());
                Some(!answer.kvs().is_empty())
            }
            Err(Past::Future) => Some(false),
            Err(Past::Compacted) => None,
        })
    }

    /// The answer to a request that was sent when this was known.
    fn heard(&self, before: Seen, header: Option<&ResponseHeader>) {
        if let Some(header) = header {
            self.incarnations.answered(before, header.cluster_id(), revision(header.revision()));
        }
    }

    async fn call<T, F>(&self, what: &str, request: impl Fn(Client) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        self.send_first(what, || request(self.client.clone()), self.request_timeout).await
    }

    /// One request, when it is its turn.
    async fn send<T, F>(&self, what: &str, request: impl Fn() -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let (_turn, left) = self.turns.take(self.request_timeout).await?;
        self.send_first(what, request, left).await
    }

    /// One request, before those that wait for their turn, within this time. The client crate spreads requests over all servers, those that are down
    /// too: one that surely was not sent is sent to the next. It logs in anew where a log-in has run out, and not where users or
    /// roles have changed since: that is done here, once. `what` it was stands in the error, with where and how long it was tried.
    async fn send_first<T, F>(&self, what: &str, request: impl Fn() -> F, within: Duration) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let all = async {
            let (mut failed, mut anew) = (0, false);
            loop {
                let logged_in = self.logged_in.load(Ordering::Acquire);
                match request().await {
                    Err(error) if is_older_than_the_roles(&error) && !anew => {
                        anew = true;
                        self.log_in_after(logged_in).await.map_err(as_read)?;
                    }
                    answer => match answer.map_err(Failure::from) {
                        Err(failure) if failure.was_not_sent() && failed < self.spare_servers => failed += 1,
                        answer => return answer,
                    },
                }
            }
        };
        let begun = Instant::now();
        let answer = tokio::time::timeout(within, all).await.unwrap_or_else(|_| Err(late()));
        answer.map_err(|failure| failure.tried(what, self.link.host(), begun.elapsed()))
    }

    /// Logs in anew, unless another request has done so since this count: each log-in costs the server a password hash.
    async fn log_in_after(&self, count: u64) -> Answer<()> {
        let _turn = self.log_ins.lock().await;
        if self.logged_in.load(Ordering::Acquire) == count {
            self.client.refresh_token().await?;
            self.logged_in.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}

/// A stream of renewals of one lease. Its answers come in the order of the sends.
pub(crate) struct Renewals {
    keeper: LeaseKeeper,
    stream: LeaseKeepAliveStream,
}

impl Renewals {
    pub(crate) async fn send(&mut self) -> Answer<()> {
        Ok(self.keeper.keep_alive().await?)
    }

    /// The next answer's TTL (zero: the lease is gone); `None` at the end of the stream.
    pub(crate) async fn answered(&mut self) -> Answer<Option<Duration>> {
        let answer = self.stream.message().await?;
        Ok(answer.map(|answer| Duration::from_secs(u64::try_from(answer.ttl()).unwrap_or(0))))
    }
}

enum WatchRequest {
    Start(Watch),
    Stop(i64),
}

/// Starts and stops watches on a stream. Dropping it ends the stream.
pub(crate) struct WatchRequests(mpsc::UnboundedSender<WatchRequest>);

impl WatchRequests {
    // A failed send means that the stream is over, which its reader hears.
    pub(crate) fn start(&self, watch: Watch) {
        let _ = self.0.send(WatchRequest::Start(watch));
    }

    pub(crate) fn stop(&self, id: i64) {
        let _ = self.0.send(WatchRequest::Stop(id));
    }
}

/// What a stream of watches brings.
pub(crate) struct WatchEvents(etcd_client::WatchResponseStream);

impl WatchEvents {
    /// The next notice; `None` when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Notice> {
        match self.0.message().await {
            Ok(Some(response)) => Some(notice(&response)),
            Ok(None) => None,
            Err(error) => {
                tracing::debug!(%error, "a stream of watches ended");
                None
            }
        }
    }
}

fn notice(response: &WatchResponse) -> Notice {
    let id = response.watch_id();
    let header = response.header().map_or(0, |header| revision(header.revision()));
    if response.canceled() && response.created() {
        return Notice::Refused(response.cancel_reason().to_owned());
    }
    if response.canceled() {
        let why = match response.compact_revision() {
            0 => Ended::Refused(response.cancel_reason().to_owned()),
            _ => Ended::Compacted,
        };
        return Notice::Ended { id, why };
    }
    if response.created() {
        return Notice::Created { id, revision: header };
    }
    let changes = response.events().iter().filter_map(|event| {
        // Filters keep the other kind away.
        debug_assert!(matches!(event.event_type(), EventType::Put | EventType::Delete));
        event.kv().map(|kv| Change {
            key: kv.key().to_vec(),
            value: kv.value().to_vec(),
            revision: revision(kv.mod_revision()),
        })
    });
    Notice::Changed { id, revision: header, changes: changes.collect() }
}

fn watch_options(watch: &Watch) -> WatchOptions {
    let unwanted = match watch.only {
        Only::Deletes => WatchFilterType::NoPut,
        Only::Puts => WatchFilterType::NoDelete,
    };
    let options = WatchOptions::new()
        .with_watch_id(watch.id)
        .with_start_revision(signed(watch.from))
        .with_filters([unwanted])
        .with_progress_notify();
    if watch.prefix { options.with_prefix() } else { options }
}

fn compare(guard: Guard) -> Compare {
    match guard {
        Guard::Absent(key) => Compare::create_revision(key, CompareOp::Equal, 0),
        Guard::Present(key) => Compare::create_revision(key, CompareOp::Greater, 0),
        Guard::Created(key, at) => Compare::create_revision(key, CompareOp::Equal, signed(at)),
        Guard::Holds(key, value) => Compare::value(key, CompareOp::Equal, value),
        Guard::Empty(prefix) => Compare::create_revision(prefix, CompareOp::Equal, 0).with_prefix(),
        Guard::Unwritten(prefix, after) => {
            Compare::mod_revision(prefix, CompareOp::Less, signed(after + 1)).with_prefix()
        }
    }
}

fn operation(step: Step) -> TxnOp {
    match step {
        // Lease 0 is no lease: the key stays.
        Step::Put { key, value, lease } => TxnOp::put(key, value, Some(PutOptions::new().with_lease(lease))),
        Step::Delete(key) => TxnOp::delete(key, None::<DeleteOptions>),
        Step::Get(key) => TxnOp::get(key, None),
        Step::See(key) => TxnOp::get(key, Some(GetOptions::new().with_keys_only())),
        Step::Range(range) => {
            let (prefix, options) = range_request(range);
            TxnOp::get(prefix, Some(options))
        }
    }
}

/// The first key behind all that have the prefix.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    // A byte of a text is never the highest.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

fn range_request(range: Range) -> (String, GetOptions) {
    let options = GetOptions::new().with_prefix().with_limit(range.limit);
    let options = match range.order {
        Order::Oldest => options.with_sort(SortTarget::Create, SortOrder::Ascend),
        Order::Newest => options.with_sort(SortTarget::Create, SortOrder::Descend),
        Order::Behind(created) => options
            .with_sort(SortTarget::Create, SortOrder::Ascend)
            .with_min_create_revision(signed(created + 1)),
        Order::OldestUpTo(created) => {
            options.with_sort(SortTarget::Create, SortOrder::Ascend).with_max_create_revision(signed(created))
        }
        Order::NewestUpTo(created) => options
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_max_create_revision(signed(created)),
        Order::CreatedAt(created) => {
            options.with_min_create_revision(signed(created)).with_max_create_revision(signed(created))
        }
        Order::ByKey => options,
    };
    (range.prefix, if range.keys_only { options.with_keys_only() } else { options })
}

fn found(get: &etcd_client::GetResponse) -> Found {
    let entries = get.kvs().iter().map(|kv| Entry {
        key: kv.key().to_vec(),
        value: kv.value().to_vec(),
        created: revision(kv.create_revision()),
        modified: revision(kv.mod_revision()),
        version: revision(kv.version()),
        lease: kv.lease(),
    });
    Found { entries: entries.collect(), more: get.more(), count: u64::try_from(get.count()).unwrap_or(0) }
}

/// A revision as the server counts them: never negative.
fn revision(signed: i64) -> u64 {
    u64::try_from(signed).unwrap_or(0)
}

fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("request_timeout", &self.request_timeout).finish_non_exhaustive()
    }
}
