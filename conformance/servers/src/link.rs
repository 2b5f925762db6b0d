//! The link from one server to another.

use crate::door::Door;
use crate::proxy::{Direction, Proxy};

/// The link from server `from` to server `to`.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) proxies: Vec<Proxy>,
    /// The start of the link, unless it is a port. It closes with the link.
    #[allow(dead_code, reason = "a drop would close the door")]
    pub(crate) door: Option<Door>,
}

impl Link {
    /// Holds all bytes, without closing a connection.
    pub(crate) fn hold(&self) {
        for proxy in &self.proxies {
            proxy.hold(Direction::ToServer);
            proxy.hold(Direction::ToClient);
        }
    }

    /// Lets held bytes continue.
    pub(crate) fn heal(&self) {
        self.proxies.iter().for_each(Proxy::resume);
    }
}
