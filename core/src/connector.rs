use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::address::Address;
use crate::clock::Clock;
use crate::config::Config;
use crate::contracts::Backend;
use crate::error::Result;

/// Opens clients of one kind of coordinator.
#[async_trait]
pub trait Connector: fmt::Debug + Send + Sync {
    /// Returns the backend's name: its URL scheme and [`Config::backend`].
    fn name(&self) -> &'static str;

    /// Checks a configuration and the values of its options, without I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming the wrong field or option.
    fn validate(&self, config: &Config) -> Result<()>;

    /// Returns the names of this backend's own [options](crate::Options). Core refuses other options.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks the address of a queue without I/O. Core calls it for each new handle, connected or not.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key` if the exact address cannot exist on this server.
    fn check(&self, config: &Config, queue: &Address) -> Result<()> {
        let _ = (config, queue);
        Ok(())
    }

    /// Returns whether this build of the backend speaks TLS. If not, core refuses a configuration with TLS:
    /// the client must not send plain text by mistake.
    fn speaks_tls(&self) -> bool {
        false
    }

    /// Returns the clock of the clients of `config`. Core needs it before
    /// [`connect_lazy`](crate::connect_lazy) connects, for deadlines that stay valid afterwards.
    fn clock(&self, config: &Config) -> Clock {
        let _ = config;
        Clock::system()
    }

    /// Connects to the server, and checks that it can serve locks: version, role, and permissions. It must
    /// end within `config.connect_timeout`, which core enforces too.
    ///
    /// # Errors
    /// * `Unavailable` if no server answers in time.
    /// * `WrongServer` if another kind of server answers.
    /// * `Forbidden` if the login fails, or lacks a permission.
    /// * `Misconfigured` if the version, the role or the settings of the server do not fit.
    ///
    /// # Cancel safety
    /// A dropped connect leaves at most a lease on the server, which expires.
    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>>;
}
