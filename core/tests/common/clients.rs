use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use latchwork_core::backend::Backend;
use latchwork_core::memory::{self, Link, Memory};
use latchwork_core::{Clock, Config, Connector, Coordinator, Error, ErrorKind, Result, connect};

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

/// Connects one client, and has its link.
#[derive(Debug)]
struct Linked {
    store: Memory,
    link: OnceLock<Link>,
}

#[async_trait]
impl Connector for Linked {
    fn name(&self) -> &'static str {
        "linked"
    }

    fn validate(&self, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn clock(&self, _config: &Config) -> Clock {
        self.store.clock().clone()
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let (backend, link) = self.store.client(config)?;
        self.link.set(link).expect("one client");
        Ok(backend)
    }
}

/// A client of a separate store that is registered as a service, with this name, and its link.
pub(crate) async fn registered(name: &str) -> (Coordinator, Link) {
    let linked = Arc::new(Linked { store: Memory::new(Clock::tokio()), link: OnceLock::new() });
    let mut config = Config::new("linked");
    config.name = Some(name.to_owned());
    let connector: Arc<dyn Connector> = Arc::<Linked>::clone(&linked);
    let client = connect(&[connector], &config).await.expect("connected");
    (client, linked.link.get().expect("connected").clone())
}

#[track_caller]
pub(crate) fn fails<T>(answer: Result<T>, kind: ErrorKind, why: &str) -> Error {
    let error = answer.map(drop).expect_err(why);
    assert_eq!(error.kind(), kind, "{error}");
    error
}
