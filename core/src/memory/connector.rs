use std::sync::Arc;

use async_trait::async_trait;

use super::backend::MemoryBackend;
use super::client::MemoryClient;
use super::link::{Link, NAME};
use super::store::Memory;
use crate::clock::Clock;
use crate::config::Config;
use crate::connector::Connector;
use crate::contracts::Backend;
use crate::coordinator::Coordinator;
use crate::error::{Error, Result};

#[derive(Debug)]
struct MemoryConnector;

/// Returns the connector of `memory://` and `memory://name`. A store that a test has created
/// ([`Memory::named`]) keeps its clock.
pub fn connector() -> Arc<dyn Connector> {
    Arc::new(MemoryConnector)
}

#[async_trait]
impl Connector for MemoryConnector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn validate(&self, config: &Config) -> Result<()> {
        if config.hosts.len() > 1 {
            return Err(Error::invalid("url", "memory:// takes at most one store name"));
        }
        if !config.path.is_empty() || config.user.is_some() || config.password.is_some() {
            return Err(Error::invalid("url", "memory:// takes no path, user or password"));
        }
        Ok(())
    }

    fn clock(&self, config: &Config) -> Clock {
        store(config).clock().clone()
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        Ok(open(store(config), config).0)
    }
}

impl Memory {
    /// Connects a client to this store. Tests plan faults on the returned link.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field of `config`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect(&self, config: &Config) -> Result<(Coordinator, Link)> {
        let (backend, link) = self.client(config)?;
        Ok((Coordinator::new(backend, config), link))
    }

    /// Connects like [`connect`](Memory::connect), but returns the backend without recipes.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field of `config`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn client(&self, config: &Config) -> Result<(Arc<dyn Backend>, Link)> {
        config.validate()?;
        Ok(open(self.clone(), config))
    }
}

fn open(store: Memory, config: &Config) -> (Arc<dyn Backend>, Link) {
    let client = MemoryClient::open(store, config);
    let link = client.link.clone();
    (Arc::new(MemoryBackend::new(client)), link)
}

fn store(config: &Config) -> Memory {
    match config.hosts.first() {
        Some(name) => Memory::named_or_system(name),
        None => Memory::new(Clock::system()),
    }
}
