//! From a URL's scheme to a backend: a list of connectors, given by whoever links the backends in.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use crate::address::Address;
use crate::clock::Clock;
use crate::config::Config;
use crate::contracts::Backend;
use crate::coordinator::Coordinator;
use crate::error::{Error, Result};
use crate::label::default_label;
use crate::lazy::Lazy;
use crate::shown::in_millis;

/// Opens clients of one kind of coordinator.
#[async_trait]
pub trait Connector: fmt::Debug + Send + Sync {
    /// The backend's name, which is its URL scheme and [`Config::backend`].
    fn name(&self) -> &'static str;

    /// Checks what can be checked of a configuration without I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field.
    fn validate(&self, config: &Config) -> Result<()>;

    /// Checks what can be checked of a queue's place without I/O: asked for each handle that is made, connected or not.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`, for an exact address that is none on this server.
    fn check(&self, config: &Config, queue: &Address) -> Result<()> {
        let _ = (config, queue);
        Ok(())
    }

    /// The clock that clients of `config` will count by. Asked before there is one ([`connect_lazy`]): a
    /// deadline or a fixed end that is told then must mean the same once it is there.
    fn clock(&self, config: &Config) -> Clock {
        let _ = config;
        Clock::system()
    }

    /// Connects: name resolution, TCP, a protocol hello, version and role check, and a self-test of the
    /// permissions that are needed, all within `config.connect_timeout` (core enforces it too).
    ///
    /// # Errors
    /// `Unavailable`, `WrongServer`, `Forbidden` or `Misconfigured`.
    ///
    /// # Cancel safety
    /// A dropped connect leaves nothing on the server beyond a lease that runs out.
    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>>;
}

/// Connects to the coordinator that `config` names, with the first of `connectors` that has its name.
///
/// # Errors
/// `InvalidArgument` naming `backend` when none has it, or the wrong field; else as [`Connector::connect`], and
/// `Unavailable` at `connect_timeout`.
///
/// # Cancel safety
/// A dropped connect leaves nothing on the server beyond a lease that runs out.
pub async fn connect(connectors: &[Arc<dyn Connector>], config: &Config) -> Result<Coordinator> {
    let (connector, config) = choose(connectors, config)?;
    let backend = connect_in_time(&*connector, &config).await?;
    Ok(Coordinator::with(backend, &config, Some(connector)))
}

/// As [`connect`], but returns at once and connects in the first operation, again and again until it
/// succeeds: for services that must start without their coordinator. What is connecting goes on in the
/// background when the operation that began it ends. Until it is connected its
/// [`lease`](Coordinator::lease) is suspended; every handle of that is one of the connection's lease then.
///
/// # Errors
/// `InvalidArgument` only.
///
/// # Panics
/// Outside a tokio runtime.
pub fn connect_lazy(connectors: &[Arc<dyn Connector>], config: &Config) -> Result<Coordinator> {
    let (connector, config) = choose(connectors, config)?;
    let lazy = Arc::new(Lazy::new(Arc::clone(&connector), config.clone()));
    Ok(Coordinator::with(lazy, &config, Some(connector)))
}

pub(crate) async fn connect_in_time(connector: &dyn Connector, config: &Config) -> Result<Arc<dyn Backend>> {
    let begun = Instant::now();
    match tokio::time::timeout(config.connect_timeout, connector.connect(config)).await {
        Ok(answer) => {
            let backend = answer.map_err(|error| error.in_operation("connect"))?;
            let took = in_millis(begun.elapsed());
            tracing::info!(backend = connector.name(), hosts = config.hosts.join(","), ?took, "connected");
            Ok(backend)
        }
        Err(_) => Err(Error::new(
            crate::ErrorKind::Unavailable,
            format!(
                "no {} answered at {:?} within {:?}",
                config.backend, config.hosts, config.connect_timeout
            ),
        )
        .in_operation("connect")),
    }
}

/// The connector, and the configuration with a label: one client has the same one wherever a server shows it.
fn choose(connectors: &[Arc<dyn Connector>], config: &Config) -> Result<(Arc<dyn Connector>, Config)> {
    config.validate()?;
    let connector =
        connectors.iter().find(|connector| connector.name() == config.backend).ok_or_else(|| {
            let known: Vec<_> = connectors.iter().map(|connector| connector.name()).collect();
            Error::invalid(
                "backend",
                format!(
                    "{:?} is none of the backends in this build: {} (cargo features choose them)",
                    config.backend,
                    known.join(", ")
                ),
            )
        })?;
    connector.validate(config)?;
    let mut config = config.clone();
    config.label.get_or_insert_with(|| default_label().to_string());
    Ok((Arc::clone(connector), config))
}
