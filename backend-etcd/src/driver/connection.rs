//! The connection: how a request is sent, sent again, and logged in anew.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use etcd_client::{Client, ConnectOptions, KvClient, ResponseHeader};
use latchwork_core::seen::{Rechecks, Requests};
use latchwork_core::support::{LinkLog, Throttle, Transport};
use latchwork_core::{Error, Logins};

use super::encode::unsigned;
use crate::config::{NAME, Settings};
use crate::error::{Answer, Failure, as_read, is_behind, is_older_than_the_roles, late, refuses_login};
use crate::incarnation::{Incarnations, Known};

/// After how long a silence the client pings a server. Servers hang up on clients that ping more
/// often than every 5 s. A renewal that gets no answer is noticed earlier, and goes to another
/// member; other requests wait for this.
pub(super) const PING_AFTER: Duration = Duration::from_secs(6);
/// How long a server may take to answer a ping.
pub(super) const PING_ANSWER: Duration = Duration::from_secs(2);
/// Room for a whole queue of 1,000 nodes with the longest labels.
const LARGEST_ANSWER: usize = 64 << 20;

/// The kinds of requests that are counted, each behind the words that errors have for it.
const KINDS: [(&str, &str); 12] = [
    ("a transaction", "txn"),
    ("a deletion", "delete"),
    ("a read", "range"),
    ("a look at the past of a key", "history"),
    ("a look at its state", "status"),
    ("a look at the members", "members"),
    ("the grant of a lease", "grant"),
    ("the grant of a cell's lease", "grant"),
    ("a look at a lease", "lease"),
    ("the end of a lease", "revoke"),
    ("the renewal of a lease", "renew"),
    ("a stream of watches", "watch"),
];

fn kind(what: &str) -> &'static str {
    let known = KINDS.iter().find(|(words, _)| *words == what);
    debug_assert!(known.is_some(), "{what} has no kind");
    known.map_or("", |(_, kind)| kind)
}

/// The state of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) version: String,
    pub(crate) member: u64,
    /// 0 where it knows none.
    pub(crate) leader: u64,
    pub(crate) is_learner: bool,
    /// How many bytes it keeps at most; 0 where it does not say.
    pub(crate) quota: u64,
}

/// A connection to the servers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Driver {
    client: Client,
    // Cloned for each request: a clone of the whole client costs more.
    pub(super) kv: KvClient,
    request_timeout: Duration,
    logins: Logins,
    // Says why no secured connection was made.
    transport: Transport,
    spare_servers: usize,
    // Bounds requests about keys, so that renewals do not queue behind them.
    throttle: Arc<Throttle>,
    link: Arc<LinkLog>,
    pub(super) requests: Arc<Requests>,
    pub(crate) rechecks: Arc<Rechecks>,
    // Held by the one task that logs in anew; beside it the number of log-ins.
    log_ins: Arc<tokio::sync::Mutex<()>>,
    logged_in: Arc<AtomicU64>,
    pub(super) incarnations: Arc<Incarnations>,
}

#[cfg(test)]
impl Driver {
    /// Connects to a server that a test has to itself.
    pub(crate) async fn of(server: &latchwork_conformance::servers::Server) -> Self {
        Self::logged_in_to(server, None).await
    }

    pub(crate) async fn logged_in_to(
        server: &latchwork_conformance::servers::Server,
        login: Option<(String, latchwork_core::Secret)>,
    ) -> Self {
        let mut config = latchwork_core::Config::new("etcd");
        (config.user, config.password) = login.unzip();
        let logins = Logins::of(&config);
        let endpoints = vec![server.addr().to_owned()];
        let settings = Settings {
            endpoints,
            logins,
            request_timeout: Duration::from_secs(5),
            fast_path: true,
            transport: Transport::default(),
        };
        Self::connect(&settings).await.expect("the server is up")
    }
}

impl Driver {
    /// Makes the channel, and logs in if a user is given. Connects to nothing else yet.
    pub(crate) async fn connect(settings: &Settings) -> Answer<Self> {
        let options = ConnectOptions::new()
            .with_connect_timeout(settings.request_timeout)
            .with_timeout(settings.request_timeout)
            .with_keep_alive(PING_AFTER, settings.request_timeout.min(PING_ANSWER))
            .with_keep_alive_while_idle(true)
            // A watch or keepalive through a member that lost its leader ends, rather than falling
            // silent.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        let login = login(&settings.logins, settings.request_timeout).await?;
        let client = match login {
            Some((user, password)) => {
                match open(settings, options.clone().with_user(user, password)).await {
                    // It asks for no log-in yet. What a provider gives is used once it does.
                    Err(failure) if settings.logins.may_change() && failure.asks_for_no_login() => {
                        open(settings, options).await?
                    }
                    opened => opened?,
                }
            }
            None => open(settings, options).await?,
        };
        // The client crate picks servers at random, and may pick one that is down several times in
        // a row.
        let spare_servers = 4 * (settings.endpoints.len() - 1);
        let kv = client.kv_client().max_decoding_message_size(LARGEST_ANSWER);
        Ok(Self {
            client,
            kv,
            request_timeout: settings.request_timeout,
            logins: settings.logins.clone(),
            transport: settings.transport.clone(),
            spare_servers,
            throttle: Arc::default(),
            link: Arc::new(LinkLog::new(NAME, settings.endpoints.join(","))),
            requests: Arc::new(Requests::new(NAME, KINDS.map(|(_, kind)| kind))),
            rechecks: Arc::new(Rechecks::new(NAME)),
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

    /// What the member that answers says of itself.
    pub(crate) async fn status(&self) -> Answer<Status> {
        let status = self
            .call("a look at its state", |mut client| async move { client.status().await })
            .await
            .map_err(as_read)?;
        Ok(Status {
            version: status.version().to_owned(),
            member: status.header().map_or(0, ResponseHeader::member_id),
            leader: status.leader(),
            is_learner: status.is_learner(),
            quota: unsigned(status.db_size_quota()),
        })
    }

    /// How many members vote, and how many only learn.
    pub(crate) async fn members(&self) -> Answer<(u32, u32)> {
        let list = self
            .call("a look at the members", |mut client| async move { client.member_list().await })
            .await
            .map_err(as_read)?;
        let count = |learns| list.members().iter().filter(|member| member.is_learner() == learns).count();
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Ok((number(count(false)), number(count(true))))
    }

    /// Records the answer to a request that was sent when `before` was known.
    pub(super) fn answered(&self, before: Known, header: Option<&ResponseHeader>) {
        if let Some(header) = header {
            self.incarnations.answered(
                before,
                self.link.host(),
                header.cluster_id(),
                unsigned(header.revision()),
            );
        }
    }

    /// Sends a request about leases, watches or the server's state.
    pub(super) async fn call<T, F>(&self, what: &str, request: impl Fn(Client) -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        self.send_now(what, || request(self.client.clone()), self.request_timeout).await
    }

    /// Sends a request about keys, when the throttle lets it pass.
    pub(super) async fn send<T, F>(&self, what: &str, request: impl Fn() -> F) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let (_pass, left) = self.throttle.take(self.request_timeout).await?;
        self.send_now(what, request, left).await
    }

    /// Sends a request, within this time. `what` stands in the error, with the host and the time
    /// that it took.
    ///
    /// The client crate spreads requests over all servers, also over those that are down: a request
    /// that was surely not sent goes to the next. One that a busy server was too late for, and has not carried
    /// out, is sent again. The crate logs in anew when a log-in has run out, but
    /// not when users or roles have changed: this function does so, once.
    async fn send_now<T, F>(&self, what: &str, request: impl Fn() -> F, within: Duration) -> Answer<T>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let all = async {
            let (mut failed, mut anew) = (0, false);
            loop {
                self.requests.sent(kind(what));
                let logged_in = self.logged_in.load(Ordering::Acquire);
                match request().await {
                    Err(error)
                        if !anew
                            && (is_older_than_the_roles(&error)
                                || self.logins.may_change() && refuses_login(&error)) =>
                    {
                        anew = true;
                        self.log_in_after(logged_in).await.map_err(as_read)?;
                    }
                    Err(error) if is_behind(&error) => {}
                    answer => match answer.map_err(Failure::from) {
                        Err(failure) if failure.was_not_sent() && failed < self.spare_servers => failed += 1,
                        answer => return answer,
                    },
                }
            }
        };
        let begun = Instant::now();
        let answer = tokio::time::timeout(within, all).await.unwrap_or_else(|_| Err(late()));
        answer.map_err(|failure| {
            failure.secured_by(&self.transport).tried(what, self.link.host(), begun.elapsed())
        })
    }

    /// Logs in anew, unless another request has done so since `count`: each log-in costs the server
    /// a password hash.
    async fn log_in_after(&self, count: u64) -> Answer<()> {
        let _one_at_a_time = self.log_ins.lock().await;
        if self.logged_in.load(Ordering::Acquire) == count {
            // The present login, where a provider gives it.
            let login = login(&self.logins, self.request_timeout).await?;
            self.client.clone().update_user(login).await?;
            self.logged_in.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}

/// User and password for a log-in.
async fn login(logins: &Logins, within: Duration) -> Answer<Option<(String, String)>> {
    let Some(login) = logins.now(within).await? else { return Ok(None) };
    let Some(user) = login.user else {
        return Err(Error::invalid("credentials", "etcd logs in with a user: the provider gave none").into());
    };
    Ok(Some((user, login.password.expose().to_owned())))
}

#[cfg(feature = "tls")]
async fn open(settings: &Settings, options: ConnectOptions) -> Answer<Client> {
    let is_ours = settings.transport.is_tls();
    #[cfg(test)]
    let is_ours = is_ours || settings.endpoints.iter().any(|host| super::tests::is_scripted(host));
    if is_ours {
        let channel = super::secured::channel(settings)?;
        return Ok(Client::from_channel(channel, Some(options)).await?);
    }
    Ok(Client::connect(&settings.endpoints, Some(options)).await?)
}

#[cfg(not(feature = "tls"))]
async fn open(settings: &Settings, options: ConnectOptions) -> Answer<Client> {
    Ok(Client::connect(&settings.endpoints, Some(options)).await?)
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("request_timeout", &self.request_timeout).finish_non_exhaustive()
    }
}
