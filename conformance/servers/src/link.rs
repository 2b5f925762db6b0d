use crate::door::Door;
use crate::proxy::{Direction, Proxy};

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) proxies: Vec<Proxy>,
    /// The start of the link, unless it is a port.
    #[allow(dead_code, reason = "a drop would close the door")]
    pub(crate) door: Option<Door>,
}

impl Link {
    /// Holds all bytes, and closes no connection.
    pub(crate) fn hold(&self) {
        for proxy in &self.proxies {
            proxy.hold(Direction::ToServer);
            proxy.hold(Direction::ToClient);
        }
    }

    pub(crate) fn heal(&self) {
        self.proxies.iter().for_each(Proxy::resume);
    }
}
