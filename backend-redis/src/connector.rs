use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{
    Backend, Backoff, OF_SILENCE, Pauses, Stranger, Transport, connect_within, exchange, note_failure,
    stranger,
};
use latchwork_core::{Address, Clock, Config, Connector, Error, ErrorKind, Eviction, Result, seen};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::backend::RedisBackend;
use crate::client::Client;
use crate::config::{Host, NAME, OPTIONS, Servers, Settings};
use crate::driver::{Driver, Lost, OnMessage, Setup, sweep};
use crate::error::{Failure, refusal_of};
use crate::layout::QueueKeys;
use crate::lease::ClientLease;
use crate::renewal;
use crate::watch::{Channels, Inbox, recheck};

/// Opens clients of Redis and Valkey.
///
/// The URLs are `redis://[[user]:password@]host[:port][/database]`,
/// `redis-sentinel://[[user]:password@]host[:port],…/service` for a master that Sentinels watch, and
/// `redis-cluster://[[user]:password@]host[:port],…`. The feature `tls` adds `rediss://`,
/// `rediss-sentinel://` and `rediss-cluster://`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedisConnector;

/// Returns the connector of `redis://`, for [`latchwork_core::connect`].
pub fn connector() -> Arc<dyn Connector> {
    Arc::new(RedisConnector)
}

/// Deletes the namespace of this configuration on all servers, and returns the number of deleted keys.
///
/// Deletes held locks and values without a warning: use it for the namespace of one run, after its clients
/// have ended.
///
/// # Errors
/// * `Unavailable` or `OutcomeUnknown`: a part may be deleted. Call it again.
/// * `Forbidden` if the login may not call `SCAN` or `UNLINK`.
/// * The errors of the connector.
///
/// # Cancel safety
/// A part may be deleted.
#[doc(hidden)]
pub async fn delete_namespace(config: &Config) -> Result<usize> {
    sweep(&Settings::of(config)?, &config.namespace).await
}

#[async_trait]
impl Connector for RedisConnector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn validate(&self, config: &Config) -> Result<()> {
        Settings::of(config).map(|_| ())
    }

    fn options(&self) -> &'static [&'static str] {
        &OPTIONS
    }

    fn speaks_tls(&self) -> bool {
        cfg!(feature = "tls")
    }

    fn check(&self, _config: &Config, queue: &Address) -> Result<()> {
        QueueKeys::of(queue).map(drop)
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let connecting = open(Settings::of(config)?);
        Ok(Arc::new(connect_within(config.connect_timeout, "Redis", &config.hosts, connecting).await?))
    }
}

async fn open(settings: Settings) -> Result<RedisBackend> {
    settings.transport.prepare().await?;
    let clock = Clock::system();
    let inbox = Arc::new(Inbox::new(clock.clone(), settings.inbox.clone()));
    let (reconnected, channels) = (Arc::new(Notify::new()), Arc::new(Channels::default()));
    let on_message: OnMessage = {
        let (inbox, channels, own) = (Arc::clone(&inbox), Arc::clone(&channels), settings.inbox.clone());
        Arc::new(move |channel: &[u8], message: &[u8]| match channel == own.as_bytes() {
            true => inbox.deliver(message),
            false => channels.ring(channel, message),
        })
    };
    let setup = Setup {
        settings: settings.clone(),
        clock: clock.clone(),
        on_message,
        reconnected: Arc::clone(&reconnected),
    };
    let (driver, losses, eviction) = connected(&setup).await?;
    warn_of(eviction, &settings.servers.to_string());
    let sent = match driver.ping(settings.request_timeout).await {
        Ok(sent) => sent,
        Err(error) => return Err(explain(&settings, Failure::said(error)).await),
    };
    let lease = ClientLease::new(clock.clone(), settings.ttl, sent);
    let client = Arc::new(Client::new(driver, clock, inbox, channels, lease, &settings));
    tokio::spawn(renewal::renew_always(Arc::downgrade(&client), reconnected));
    tokio::spawn(renewal::suspend_on_loss(Arc::downgrade(&client), losses));
    tokio::spawn(recheck::run(Arc::downgrade(&client)));
    Ok(RedisBackend::new(client, eviction))
}

/// Also waits for a server that refuses, for example while it loads its data.
async fn connected(setup: &Setup) -> Result<(Driver, Lost, Eviction)> {
    let settings = &setup.settings;
    let until = Instant::now() + settings.connect_timeout;
    let mut pauses = Backoff::new(Pauses::FAILOVER);
    let mut asked = false;
    loop {
        let failure = match Driver::connect(setup.clone()).await {
            Ok(connected) => return Ok(connected),
            Err(failure) => failure,
        };
        note_failure(&failure.error);
        let is_loading = failure.answered && failure.error.kind() == ErrorKind::Unavailable;
        let pause = pauses.next();
        // Otherwise the caller gets the server's error.
        if !is_loading || Instant::now() + 2 * pause >= until {
            return Err(explain(settings, failure).await);
        }
        tracing::debug!(error = %failure.error, "the server is not ready yet");
        // The Sentinels may name a dead host, or one that expects another protection, for which a second
        // attempt does not help.
        let in_time = Instant::now() + OF_SILENCE < until;
        if in_time && failure.silent.is_some() && !std::mem::replace(&mut asked, true) {
            let explained = explain(settings, failure).await;
            if explained.kind() == ErrorKind::WrongServer {
                return Err(explained);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

fn warn_of(eviction: Eviction, at: &str) {
    let what = match eviction {
        Eviction::Never => return,
        Eviction::Possible => {
            "this server may evict locks when its memory is full: set maxmemory-policy noeviction"
        }
        Eviction::Unknown => {
            "the client cannot use INFO, so it is unknown whether this server evicts locks or is a replica: grant +info, \
             or give INFO its name again"
        }
    };
    seen::advice(NAME, at, &what);
}

const TO_REFUSE: Duration = Duration::from_millis(500);

/// The refusal that the server writes before it closes a new connection: in protected mode, or without a free
/// connection. The client crate loses it.
async fn refusal(host: &Host) -> Option<Failure> {
    let transport = Transport::default();
    let address = host.to_string();
    let reading = exchange(&address, &transport, b"", |answer| answer.contains(&b'\n'));
    refusal_of(&timeout(TO_REFUSE, reading).await.ok()?.ok()?)
}

/// Asks a host without an answer for its refusal and for its kind, at the same time. A refusal shows the kind too.
async fn unknown_server(host: &Host, settings: &Settings) -> (Option<Failure>, Option<Stranger>) {
    let is_tls = settings.transport.is_tls();
    let refusing = async { if is_tls { None } else { refusal(host).await } };
    let address = host.to_string();
    match tokio::join!(refusing, stranger(&address, settings.servers.scheme(is_tls))) {
        (Some(refused), _) => (Some(refused), None),
        silent => silent,
    }
}

/// Explains a failed connect, and names another kind of server if one is at the address.
async fn explain(settings: &Settings, failure: Failure) -> Error {
    let silent = failure.silent.as_deref().and_then(|address| Host::parse(address).ok());
    let (at, host, expected) = match (&silent, &settings.servers) {
        (Some(host), _) | (None, Servers::One(host) | Servers::Shard(host)) => {
            (host.to_string(), Some(host), "redis")
        }
        (None, Servers::Cluster(hosts)) => (settings.servers.to_string(), hosts.first(), "redis"),
        (None, Servers::Watched(sentinels)) => {
            (sentinels.to_string(), sentinels.hosts.first(), "Redis Sentinel")
        }
    };
    let unknown = !failure.answered || silent.is_some();
    let (refused, seen) = match host.filter(|_| unknown) {
        Some(host) => unknown_server(host, settings).await,
        None => (None, None),
    };
    let failure = match (refused, &silent) {
        (Some(refused), Some(host)) => settings.servers.named_it(host, refused),
        (refused, _) => refused.unwrap_or(failure),
    };
    match (seen, failure.error.kind()) {
        (Some(Stranger::Named(saw)), _) => Error::wrong_server(expected, &saw, &at).because(failure.error),
        (Some(Stranger::HangsUp), _) => {
            let what =
                format!("{at} closes the connection: it is not Redis, or it is a proxy whose Redis is down");
            Error::new(ErrorKind::Unavailable, what).because(failure.error)
        }
        // The error already says that no Sentinel answers.
        (None, _) if matches!(settings.servers, Servers::Watched(_)) => failure.error,
        (None, ErrorKind::Unavailable | ErrorKind::OutcomeUnknown)
            if failure.answered && failure.silent.is_none() =>
        {
            Error::new(ErrorKind::Unavailable, format!("the Redis at {at} does not serve this client"))
                .because(failure.error)
        }
        (None, ErrorKind::Unavailable | ErrorKind::OutcomeUnknown) => {
            Error::new(ErrorKind::Unavailable, format!("no Redis answers at {at}")).because(failure.error)
        }
        (None, _) => failure.error,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn refusal_of_the_master_that_sentinels_name_is_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = Host::parse(&listener.local_addr().unwrap().to_string()).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.write_all(b"-DENIED Redis is running in protected mode\r\n").await.unwrap();
            }
        });
        let config = Config::from_url("redis-sentinel://127.0.0.1:26379/it").unwrap();
        let settings = Settings::of(&config).unwrap();
        let closed = Error::new(ErrorKind::Unavailable, "the connection was closed");
        let closed = Failure { answered: false, ..Failure::said(closed) };
        let error = explain(&settings, settings.servers.named_it(&host, closed)).await;
        let text = error.to_string();
        assert!(error.is_refusal() && text.contains("protected mode"), "{text}");
        assert!(text.contains(&host.to_string()) && text.contains("the Sentinels name"), "{text}");
    }
}
