use std::sync::Arc;

use async_trait::async_trait;
use latchwork_core::backend::Backend;
use latchwork_core::memory::{self, Link, Memory};
use latchwork_core::{Clock, Config, Connector, Coordinator, Error, ErrorKind, Result, connect};
use parking_lot::Mutex;

use super::{Plant, planted_on};

pub(crate) struct Clients {
    pub(crate) store: Memory,
    pub(crate) config: Config,
    pub(crate) client: Coordinator,
    /// Of the first client.
    pub(crate) link: Link,
    pub(crate) other: Coordinator,
}

pub(crate) fn clients() -> Clients {
    let (store, config) = (Memory::new(Clock::tokio()), Config::new("memory"));
    let (client, link) = connected_to(&store);
    let (other, _) = connected_to(&store);
    Clients { store, config, client, link, other }
}

pub(crate) fn connected_to(store: &Memory) -> (Coordinator, Link) {
    store.connect(&Config::new("memory")).expect("connected")
}

pub(crate) fn connected() -> (Coordinator, Link) {
    connected_to(&Memory::new(Clock::tokio()))
}

/// Connected as a service connects.
pub(crate) async fn private() -> Coordinator {
    let config = Config::from_url("memory://").expect("a good URL");
    connect(&[memory::connector()], &config).await.expect("connected")
}

/// Connects registered clients to one store, and has the link of the last one.
#[derive(Debug)]
pub(crate) struct Stored<P> {
    pub(crate) store: Memory,
    pub(crate) link: Mutex<Option<Link>>,
    pub(crate) plants: Arc<P>,
}

impl<P: Plant + Default> Stored<P> {
    pub(crate) fn new() -> Arc<Self> {
        let store = Memory::new(Clock::tokio());
        Arc::new(Self { store, link: Mutex::default(), plants: Arc::default() })
    }

    pub(crate) fn connectors(self: &Arc<Self>) -> Vec<Arc<dyn Connector>> {
        vec![Arc::<Self>::clone(self)]
    }

    pub(crate) async fn client_with(self: &Arc<Self>, config: &Config) -> Result<(Coordinator, Link)> {
        let coordinator = connect(&self.connectors(), config).await?;
        Ok((coordinator, self.link.lock().clone().expect("connected")))
    }
}

#[async_trait]
impl<P: Plant> Connector for Stored<P> {
    fn name(&self) -> &'static str {
        "stored"
    }

    fn validate(&self, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn clock(&self, _config: &Config) -> Clock {
        self.store.clock().clone()
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let (backend, link) = self.store.client(config)?;
        *self.link.lock() = Some(link);
        // The test that drops this request needs a delay.
        tokio::task::yield_now().await;
        Ok(planted_on(backend, &self.plants))
    }
}

#[derive(Debug, Default)]
struct Nothing;

impl Plant for Nothing {}

/// A client of a separate store that is registered as a service, with this name, and its link.
pub(crate) async fn registered(name: &str) -> (Coordinator, Link) {
    let mut config = Config::new("stored");
    config.name = Some(name.to_owned());
    Stored::<Nothing>::new().client_with(&config).await.expect("connected")
}

#[track_caller]
pub(crate) fn fails<T>(answer: Result<T>, kind: ErrorKind, why: &str) -> Error {
    let error = answer.map(drop).expect_err(why);
    assert_eq!(error.kind(), kind, "{error}");
    error
}
