//! The state that the proxy shares with its connections.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::faults::Faults;
use super::readdress::Readdress;
use super::trap::Traps;

/// The settings of a proxy between servers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// Changes the first chunk of each client: a greeting may have an address without the proxy.
    pub(crate) introduce: Option<fn(&mut Vec<u8>)>,
    /// Dials again while the server refuses. A server that retries after a refusal treats a connection that is accepted and closed
    /// as a failure.
    pub(crate) patient: bool,
}

/// The state that the proxy shares with its connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstream: String,
    pub(super) manners: Manners,
    /// The replacements of addresses that a server names.
    pub(super) readdress: OnceLock<Readdress>,
    pub(super) faults: watch::Sender<Faults>,
    pub(super) traps: Traps,
    /// The traps for chunks from the server.
    pub(super) replies: Traps,
    /// Bytes that came from clients.
    pub(super) asked: AtomicU64,
    /// Bytes that went to clients.
    pub(super) answered: AtomicU64,
    pub(super) open: watch::Sender<usize>,
}

/// A client's connection, which counts until it ends in any way.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    /// The number of cuts before its accept.
    pub(super) cuts: u64,
    shared: Arc<Shared>,
}

impl Client {
    /// Counts a new connection. `None` if new connections are refused.
    pub(super) fn admit(stream: TcpStream, shared: Arc<Shared>) -> Option<Client> {
        let Faults { refuse, cuts, .. } = *shared.faults.borrow();
        (!refuse).then(|| {
            shared.open.send_modify(|open| *open += 1);
            Client { stream, cuts, shared }
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.open.send_modify(|open| *open -= 1);
    }
}
