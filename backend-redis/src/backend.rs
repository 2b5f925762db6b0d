//! The backend: connecting, what is promised, and closing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::{Backend, Close, Entry, Join, Joined, Lease, Page, SequentialNodes};
use latchwork_core::{Address, Capabilities, Clock, Error, ErrorKind, Eviction, Result};
use tokio::sync::Notify;

use crate::client::Client;
use crate::config::Settings;
use crate::driver::Driver;
use crate::error::Failure;
use crate::inbox::Inbox;
use crate::lease::{self, ClientLease};
use crate::probe;

/// The oldest version that has all that the scripts use.
const OLDEST: (u32, u32) = (6, 2);
/// How soon a server that is still loading is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// A client of one Redis server: one connection, one inbox, one task that renews all nodes.
pub struct RedisBackend {
    client: Arc<Client>,
    eviction: Eviction,
}

impl RedisBackend {
    pub(crate) async fn connect(settings: Settings) -> Result<Self> {
        let clock = Clock::system();
        let inbox = Arc::new(Inbox::new(clock.clone()));
        let reconnected = Arc::new(Notify::new());
        let (driver, info) = loop {
            let delivered = Arc::clone(&inbox);
            let on_message = Arc::new(move |message: &[u8]| delivered.deliver(message));
            match Driver::connect(settings.clone(), clock.clone(), on_message, Arc::clone(&reconnected)).await
            {
                Ok(connected) => break connected,
                // It is there, and will be ready: the caller bounds the wait.
                Err(failure) if failure.answered && *failure.error.kind() == ErrorKind::Unavailable => {
                    tracing::debug!(error = %failure.error, "not ready yet");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(failure) => return Err(explain(&settings, failure).await),
            }
        };
        let eviction = match info.as_deref().map(Info) {
            Some(info) => check(&info, &settings)?,
            None => {
                tracing::warn!(
                    "INFO is forbidden: unknown whether this server evicts locks, or is a replica"
                );
                Eviction::Unknown
            }
        };
        if eviction == Eviction::Unknown && settings.strict {
            return Err(Error::new(
                ErrorKind::Misconfigured,
                "strict: INFO is forbidden, so that it is unknown whether this server evicts locks",
            ));
        }
        let sent = driver.ping(settings.request_timeout).await?;
        let lease = ClientLease::new(clock.clone(), settings.ttl, sent);
        let client = Arc::new(Client::new(driver, clock, inbox, lease, &settings));
        tokio::spawn(lease::keep(Arc::downgrade(&client), reconnected));
        Ok(Self { client, eviction })
    }
}

/// The error of a connect that failed, with the name of whoever answers there in Redis' place.
async fn explain(settings: &Settings, failure: Failure) -> Error {
    let at = format!("{}:{}", settings.host, settings.port);
    if !failure.answered
        && let Some(saw) = probe::foreigner(&settings.host, settings.port).await
    {
        return Error::new(ErrorKind::WrongServer { expected: "redis", saw }, at).because(failure.error);
    }
    match failure.error.kind() {
        ErrorKind::Unavailable | ErrorKind::Unknown => {
            Error::new(ErrorKind::Unavailable, format!("no Redis answers at {at}")).because(failure.error)
        }
        _ => failure.error,
    }
}

/// What INFO says.
struct Info<'a>(&'a str);

impl Info<'_> {
    fn get(&self, field: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.trim_end().strip_prefix(field)?.strip_prefix(':'))
    }

    /// Whether locks may be thrown away under memory pressure.
    fn eviction(&self) -> Eviction {
        match (self.get("maxmemory"), self.get("maxmemory_policy")) {
            (Some("0"), _) | (_, Some("noeviction")) => Eviction::Never,
            (Some(_), Some(_)) => Eviction::Possible,
            _ => Eviction::Unknown,
        }
    }
}

fn check(info: &Info<'_>, settings: &Settings) -> Result<Eviction> {
    let misconfigured = |what: String| Err(Error::new(ErrorKind::Misconfigured, what));
    if let Some(version) = info.get("redis_version") {
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        if (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < OLDEST {
            return misconfigured(format!("the server is Redis {version}; 6.2 or newer is needed"));
        }
    }
    if info.get("redis_mode") == Some("cluster") || info.get("cluster_enabled") == Some("1") {
        return misconfigured(
            "the server is a node of a Redis Cluster, which is not supported yet".to_owned(),
        );
    }
    if info.get("redis_mode") == Some("sentinel") {
        return misconfigured("the server is a Sentinel, which is not supported yet".to_owned());
    }
    if info.get("role") == Some("slave") {
        let master =
            format!("{}:{}", info.get("master_host").unwrap_or("?"), info.get("master_port").unwrap_or("?"));
        return misconfigured(format!("the server is a replica of {master}: locks live on the master"));
    }
    let eviction = info.eviction();
    if eviction == Eviction::Possible {
        let policy = info.get("maxmemory_policy").unwrap_or("?");
        if settings.strict {
            return misconfigured(format!("strict: maxmemory-policy {policy} evicts locks; set noeviction"));
        }
        tracing::warn!(
            policy,
            "this server may evict locks when its memory is full; set maxmemory-policy noeviction"
        );
    }
    Ok(eviction)
}

#[async_trait]
impl SequentialNodes for RedisBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        self.client.join(join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        self.client.abandon(join).await
    }

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        self.client.list(queue, page).await
    }
}

#[async_trait]
impl Backend for RedisBackend {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lease_per_node: true,
            clean_try: true,
            prompt_revocation: false,
            survives_failover: false,
            exact_addresses: true,
            eviction: self.eviction,
        }
    }

    fn lease(&self) -> Lease {
        self.client.lease()
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.client.close(how).await
    }
}

impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBackend")
            .field("driver", &self.client.driver)
            .field("lease", &self.lease())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(info: &str, strict: bool) -> Result<Eviction> {
        let config = format!("redis://h?strict={strict}").parse().unwrap();
        check(&Info(info), &Settings::of(&config).unwrap())
    }

    #[test]
    fn what_info_says_is_judged() {
        const GOOD: &str = "redis_version:6.2.14\r\nredis_mode:standalone\r\nrole:master\r\n";
        let memory =
            |size: &str, policy: &str| format!("{GOOD}maxmemory:{size}\r\nmaxmemory_policy:{policy}\r\n");
        for (size, policy, expected) in [
            ("0", "allkeys-lru", Eviction::Never),
            ("1048576", "noeviction", Eviction::Never),
            ("1048576", "volatile-lru", Eviction::Possible),
        ] {
            assert_eq!(judge(&memory(size, policy), false).unwrap(), expected, "{size} {policy}");
        }
        assert_eq!(judge(GOOD, false).unwrap(), Eviction::Unknown);
        let strict = judge(&memory("1048576", "volatile-lru"), true).unwrap_err();
        assert_eq!(*strict.kind(), ErrorKind::Misconfigured);
        for bad in ["redis_version:6.0.9", "redis_mode:cluster", "redis_mode:sentinel", "role:slave"] {
            assert_eq!(*judge(bad, false).unwrap_err().kind(), ErrorKind::Misconfigured, "{bad}");
        }
    }
}
