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
use crate::nudge;
use crate::probe::{self, Stranger};

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
        let until = tokio::time::Instant::now() + settings.connect_timeout;
        let (driver, eviction) = loop {
            let delivered = Arc::clone(&inbox);
            let on_message = Arc::new(move |message: &[u8]| delivered.deliver(message));
            match Driver::connect(settings.clone(), clock.clone(), on_message, Arc::clone(&reconnected)).await
            {
                Ok(connected) => break connected,
                // It is there, and will be ready: who has no time for it hears what it says.
                Err(failure) if failure.answered && *failure.error.kind() == ErrorKind::Unavailable => {
                    if tokio::time::Instant::now() + 2 * AGAIN >= until {
                        return Err(explain(&settings, failure).await);
                    }
                    tracing::debug!(error = %failure.error, "not ready yet");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(failure) => return Err(explain(&settings, failure).await),
            }
        };
        match eviction {
            Eviction::Never => {}
            Eviction::Possible => {
                tracing::warn!(
                    "this server may evict locks when its memory is full; set maxmemory-policy noeviction"
                );
            }
            Eviction::Unknown => {
                tracing::warn!(
                    "INFO is forbidden: unknown whether this server evicts locks, or is a replica"
                );
            }
        }
        let sent = match driver.ping(settings.request_timeout).await {
            Ok(sent) => sent,
            Err(error) => return Err(explain(&settings, Failure::said(error)).await),
        };
        let lease = ClientLease::new(clock.clone(), settings.ttl, sent);
        let client = Arc::new(Client::new(driver, clock, inbox, lease, &settings));
        tokio::spawn(lease::keep(Arc::downgrade(&client), reconnected));
        tokio::spawn(lease::follow(Arc::downgrade(&client), client.driver.losses()));
        tokio::spawn(nudge::heed(Arc::downgrade(&client)));
        Ok(Self { client, eviction })
    }
}

/// The error of a connect that failed, with the name of whoever answers there in Redis' place.
async fn explain(settings: &Settings, failure: Failure) -> Error {
    let at = settings.address();
    let seen = match failure.answered {
        true => None,
        false => probe::stranger(&settings.host, settings.port).await,
    };
    match (seen, failure.error.kind()) {
        (Some(Stranger::Named(saw)), _) => {
            Error::new(ErrorKind::WrongServer { expected: "redis", saw }, at).because(failure.error)
        }
        (Some(Stranger::HangsUp), _) => {
            let what = format!(
                "{at} hangs up: it is no Redis, or wants TLS (not supported yet), or is a proxy whose Redis is down"
            );
            Error::new(ErrorKind::Unavailable, what).because(failure.error)
        }
        (None, ErrorKind::Unavailable | ErrorKind::Unknown) => {
            Error::new(ErrorKind::Unavailable, format!("no Redis answers at {at}")).because(failure.error)
        }
        (None, _) => failure.error,
    }
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

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        self.client.revoke(queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.client.limit(queue).await
    }

    async fn set_limit(&self, queue: &Address, limit: u32) -> Result<()> {
        self.client.set_limit(queue, limit).await
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
            minimum_outlives_close: true,
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
