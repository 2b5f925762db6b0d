use std::sync::Arc;

use async_trait::async_trait;
use latchwork_core::backend::Backend;
use latchwork_core::{Address, Config, Connector, Result};

use crate::backend::ZooKeeperBackend;
use crate::client::Client;
use crate::config::{NAME, OPTIONS, Settings, check_sasl_is_built};
use crate::layout::QueuePaths;
use crate::sweep::sweep;

/// Opens clients of ZooKeeper: `zookeeper://[user:password@]host[:port],…[/chroot]`, and `zookeeper+tls://`
/// with the feature `tls`.
#[derive(Clone, Copy, Debug)]
pub struct ZooKeeperConnector {
    fast_path: bool,
    sasl: bool,
}

impl Default for ZooKeeperConnector {
    fn default() -> Self {
        Self { fast_path: true, sasl: cfg!(feature = "sasl") }
    }
}

/// Returns the connector of `zookeeper://`, for [`latchwork_core::connect`].
pub fn connector() -> Arc<dyn Connector> {
    Arc::new(ZooKeeperConnector::default())
}

/// Returns a connector whose clients use only the plain protocol, for tests.
#[cfg(feature = "controls")]
pub fn connector_without_fast_path() -> Arc<dyn Connector> {
    Arc::new(ZooKeeperConnector { fast_path: false, ..ZooKeeperConnector::default() })
}

/// Returns the connector of a build without the feature `sasl`, for tests.
#[doc(hidden)]
pub fn connector_without_sasl() -> Arc<dyn Connector> {
    Arc::new(ZooKeeperConnector { sasl: false, ..ZooKeeperConnector::default() })
}

/// Deletes the namespace of this configuration, and returns the number of deleted nodes.
///
/// Deletes held locks and values without a warning: use it for the namespace of one run, after its clients
/// have ended.
///
/// # Errors
/// * `Unavailable` or `OutcomeUnknown`: a part may be deleted; call it again.
/// * The errors of the connector.
#[doc(hidden)]
pub async fn delete_namespace(config: &Config) -> Result<usize> {
    sweep(Settings::read(config)?).await
}

#[async_trait]
impl Connector for ZooKeeperConnector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn validate(&self, config: &Config) -> Result<()> {
        check_sasl_is_built(config, self.sasl)?;
        Settings::read(config).map(drop)
    }

    fn options(&self) -> &'static [&'static str] {
        &OPTIONS
    }

    fn speaks_tls(&self) -> bool {
        cfg!(feature = "tls")
    }

    fn check(&self, _config: &Config, queue: &Address) -> Result<()> {
        QueuePaths::of(queue).map(drop)
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let settings = Settings { fast_path: self.fast_path, ..Settings::read(config)? };
        Ok(Arc::new(ZooKeeperBackend::open(settings).await?))
    }
}

impl ZooKeeperBackend {
    /// Connects. Must run on a tokio runtime, which then serves the session.
    ///
    /// # Errors
    /// `Unavailable`, `WrongServer`, `Forbidden` or `Misconfigured`, as the connector.
    ///
    /// # Cancel safety
    /// A dropped connect leaves nothing but a session that expires.
    pub async fn connect(config: &Config) -> Result<Self> {
        Self::open(Settings::read(config)?).await
    }

    /// Connects a negative control for tests: it counts each answered read as a proof of contact, so two
    /// clients can hold.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[cfg(feature = "controls")]
    pub async fn connect_believing_reads(config: &Config) -> Result<Self> {
        Self::open(Settings { believes_reads: true, ..Settings::read(config)? }).await
    }

    async fn open(settings: Settings) -> Result<Self> {
        Ok(Self { client: Client::connect(settings).await? })
    }
}
