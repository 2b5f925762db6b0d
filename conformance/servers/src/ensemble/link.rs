//! The way from one server of an ensemble to another.

use super::door::Door;
use crate::proxy::{Direction, Proxy};

/// The way that server `from` takes to server `to`.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) proxies: Vec<Proxy>,
    /// Where it begins, if that is no port. It closes with the link.
    #[allow(dead_code, reason = "it is kept")]
    pub(super) door: Option<Door>,
}

impl Link {
    /// Nothing passes any more, nothing is closed.
    pub(super) fn hold(&self) {
        for proxy in &self.proxies {
            proxy.hold(Direction::ToServer);
            proxy.hold(Direction::ToClient);
        }
    }

    /// What was held goes on.
    pub(super) fn heal(&self) {
        self.proxies.iter().for_each(Proxy::resume);
    }
}
