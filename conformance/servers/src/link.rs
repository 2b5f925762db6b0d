//! The way from one server to another.

use crate::door::Door;
use crate::proxy::{Direction, Proxy};

/// The way that server `from` takes to server `to`.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) proxies: Vec<Proxy>,
    /// Where it begins, if that is no port. It closes with the link.
    #[allow(dead_code, reason = "it is kept")]
    pub(crate) door: Option<Door>,
}

impl Link {
    /// Nothing passes any more, nothing is closed.
    pub(crate) fn hold(&self) {
        for proxy in &self.proxies {
            proxy.hold(Direction::ToServer);
            proxy.hold(Direction::ToClient);
        }
    }

    /// What was held goes on.
    pub(crate) fn heal(&self) {
        self.proxies.iter().for_each(Proxy::resume);
    }
}
