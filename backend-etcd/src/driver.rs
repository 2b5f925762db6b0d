//! The client crate, and nothing of the protocol: every call to it is in this file.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, DeleteOptions, EventType, GetOptions, KvClient,
    LeaseKeepAliveStream, LeaseKeeper, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse,
    WatchFilterType, WatchOptions, WatchResponse,
};
use tokio::sync::mpsc;

use crate::config::Settings;
use crate::error::{Answer, Failure, as_read, is_older_than_the_roles, late};
use crate::terms::{Change, Ended, Entry, Found, Guard, Notice, Only, Order, Outcome, Range, Step, Watch};

/// How long a connection may be silent before it is asked for a sign of life. Servers hang up on clients that ask more
/// often than every 5 s. A stuck renewal is noticed by its own period, which helps where there is another member to ask: on
/// a connection that is dead without a word all wait for this.
const PING_AFTER: Duration = Duration::from_secs(6);
/// How long it may take to give one. Until then a member that is gone without a word comes up as often as the others.
const PING_ANSWER: Duration = Duration::from_secs(2);
/// A whole queue of the design's size, labels at their longest.
const LARGEST_ANSWER: usize = 64 << 20;

/// A connection to the servers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Driver {
    client: Client,
    // Its part for keys: cloned for each request, which is dearer for the whole.
    kv: KvClient,
    request_timeout: Duration,
    spare_servers: usize,
    // One logs in anew at a time; and how often it was done.
    log_ins: Arc<tokio::sync::Mutex<()>>,
    logged_in: Arc<AtomicU64>,
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
            log_ins: Arc::default(),
            logged_in: Arc::default(),
        })
    }

    /// How long a request may take.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// The server's version, and whether it knows a leader.
    pub(crate) async fn status(&self) -> Answer<(String, bool)> {
        let status = self.call(|mut client| async move { client.status().await }).await.map_err(as_read)?;
        Ok((status.version().to_owned(), status.leader() != 0))
    }

    /// A new lease: its id and the TTL that was granted.
    pub(crate) async fn grant(&self, ttl: Duration) -> Answer<(i64, Duration)> {
        // Whole seconds, rounded up.
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let granted = self.call(|mut client| async move { client.lease_grant(seconds, None).await }).await?;
        Ok((granted.id(), Duration::from_secs(u64::try_from(granted.ttl()).unwrap_or(0))))
    }

    /// Gives a lease back, and all that hangs on it.
    pub(crate) async fn revoke(&self, lease: i64) -> Answer<()> {
        self.call(|mut client| async move { client.lease_revoke(lease).await }).await.map(|_| ())
    }

    /// Opens a stream of renewals. The first renewal is sent, and answered, within.
    pub(crate) async fn keep_alive(&self, lease: i64) -> Answer<Renewals> {
        let (keeper, stream) =
            self.call(|mut client| async move { client.lease_keep_alive(lease).await }).await?;
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
        let answer = self.send(request).await?;
        let reads = answer.op_responses().into_iter().filter_map(|response| match response {
            TxnOpResponse::Get(get) => Some(found(&get)),
            _ => None,
        });
        Ok(Outcome {
            held: answer.succeeded(),
            revision: answer.header().map_or(0, |header| revision(header.revision())),
            reads: reads.collect(),
        })
    }

    /// Deletes whatever bears this key.
    pub(crate) async fn delete(&self, key: &[u8]) -> Answer<()> {
        let request = || {
            let mut kv = self.kv.clone();
            async move { kv.delete(key, None).await }
        };
        self.send(request).await.map(|_| ())
    }

    /// Reads, all at one revision.
    pub(crate) async fn read(&self, steps: Vec<Step>) -> Answer<Outcome> {
        self.transact(Vec::new(), steps, Vec::new()).await.map_err(as_read)
    }

    /// Reads one range, which costs server and client less than a transaction with one step: what it found, and at which revision.
    pub(crate) async fn range(&self, range: Range) -> Answer<(Found, u64)> {
        let (prefix, options) = range_request(range);
        let request = || {
            let (mut kv, prefix, options) = (self.kv.clone(), prefix.clone(), options.clone());
            async move { kv.get(prefix, Some(options)).await }
        };
        let answer = self.send(request).await.map_err(as_read)?;
        Ok((found(&answer), answer.header().map_or(0, |header| revision(header.revision()))))
    }

    /// Opens a stream of watches, with its first.
    pub(crate) async fn watch(&self, first: Watch) -> Answer<(WatchRequests, WatchEvents)> {
        let open = |mut client: Client| {
            let (key, options) = (first.key.to_vec(), watch_options(&first));
            async move { client.watch(key, Some(options)).await }
        };
        let stream = self.call(open).await?;
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

    async fn call<T, F>(&self, request: impl Fn(Client) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        self.send(|| request(self.client.clone())).await
    }

    /// One request, within the request timeout. The client crate spreads requests over all servers, those that are down
    /// too: one that surely was not sent is sent to the next. It logs in anew where a log-in has run out, and not where users or
    /// roles have changed since: that is done here, once.
    async fn send<T, F>(&self, request: impl Fn() -> F) -> Answer<T>
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
        tokio::time::timeout(self.request_timeout, all)
            .await
            .unwrap_or_else(|_| Err(late(self.request_timeout)))
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
        Step::DeleteAll(prefix) => TxnOp::delete(prefix, Some(DeleteOptions::new().with_prefix())),
        Step::Get(key) => TxnOp::get(key, None),
        Step::Count(prefix) => TxnOp::get(prefix, Some(GetOptions::new().with_prefix().with_count_only())),
        Step::Range(range) => {
            let (prefix, options) = range_request(range);
            TxnOp::get(prefix, Some(options))
        }
    }
}

fn range_request(range: Range) -> (String, GetOptions) {
    let options = GetOptions::new().with_prefix().with_limit(range.limit);
    let options = match range.order {
        Order::Oldest => options.with_sort(SortTarget::Create, SortOrder::Ascend),
        Order::Newest => options.with_sort(SortTarget::Create, SortOrder::Descend),
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
