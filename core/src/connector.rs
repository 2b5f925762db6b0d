//! What opens clients of one kind of coordinator.

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
    /// The backend's name, which is its URL scheme and [`Config::backend`].
    fn name(&self) -> &'static str;

    /// Checks a configuration, with the values of its options, as far as that needs no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field or the option.
    fn validate(&self, config: &Config) -> Result<()>;

    /// The names of the [options](crate::Options) that only this backend has. Core refuses a configuration
    /// with others.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks a queue's address without I/O. Core calls it for each handle that is made, connected
    /// or not.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`, for an exact address that cannot exist on this server.
    fn check(&self, config: &Config, queue: &Address) -> Result<()> {
        let _ = (config, queue);
        Ok(())
    }

    /// Whether this build of the backend speaks TLS. Core refuses a configuration that asks for it
    /// where this says no, so that nothing is ever sent in the clear by mistake.
    fn speaks_tls(&self) -> bool {
        false
    }

    /// The clock that clients of `config` will count by. Core asks for it before a client exists
    /// ([`connect_lazy`](crate::connect_lazy)), so that the deadlines set until then keep their
    /// meaning afterwards.
    fn clock(&self, config: &Config) -> Clock {
        let _ = config;
        Clock::system()
    }

    /// Connects: name resolution, TCP, a protocol handshake, a check of version and role, and a
    /// self-test of the permissions that locks need. All of it must fit in
    /// `config.connect_timeout`, which core enforces too.
    ///
    /// # Errors
    /// `Unavailable`, `WrongServer`, `Forbidden` or `Misconfigured`.
    ///
    /// # Cancel safety
    /// A dropped connect leaves nothing on the server beyond a lease that runs out.
    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>>;
}
