use std::time::Duration;

use latchwork_core::backend::Transport;
use latchwork_core::{Config, ENDLESS, Error, Logins, Result};

use crate::layout::Layout;

pub(crate) const NAME: &str = "etcd";

const DEFAULT_PORT: u16 = 2379;

/// etcd takes 128 operations in one request.
pub(crate) const OPS_PER_TXN: usize = 100;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) endpoints: Vec<String>,
    pub(crate) transport: Transport,
    pub(crate) logins: Logins,
    pub(crate) request_timeout: Duration,
    /// Off in tests of the plain protocol (see [`fast_path`](crate::queue::fast_path)).
    pub(crate) fast_path: bool,
    /// A key that no other client uses, for requests that change nothing.
    pub(crate) scratch: String,
}

impl Settings {
    pub(crate) fn read(config: &Config) -> Result<Self> {
        let missing = |argument, what| {
            Err(Error::invalid(
                argument,
                format!("etcd logs in with user and password: the {what} is missing"),
            ))
        };
        match (&config.user, &config.password) {
            (Some(_), Some(_)) | (None, None) => {}
            (Some(_), None) => return missing("password", "password"),
            (None, Some(_)) => return missing("user", "user"),
        }
        if !config.path.is_empty() {
            return Err(Error::invalid("url", "etcd:// takes no path; use the option namespace"));
        }
        Ok(Self {
            endpoints: config.hosts_with_port(DEFAULT_PORT)?,
            transport: Transport::of(config, Some(b"h2"))?,
            logins: Logins::of(config),
            request_timeout: config.request_timeout.min(ENDLESS),
            fast_path: true,
            scratch: Layout::new(&config.namespace).scratch(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_without_a_port_have_etcds() {
        let config = Config::from_url("etcd://u:p@a,b:1?ttl=30s").unwrap();
        let settings = Settings::read(&config).unwrap();
        assert_eq!(settings.endpoints, ["a:2379", "b:1"]);
    }
}
