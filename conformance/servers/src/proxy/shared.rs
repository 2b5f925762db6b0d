//! What the proxy shares with its connections.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::faults::Faults;
use super::readdress::Readdress;
use super::trap::Traps;

/// What servers that talk to each other through a proxy need of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// Changes the first chunk of each client: a greeting may name a way round the proxy.
    pub(crate) introduce: Option<fn(&mut Vec<u8>)>,
    /// Dials again while the server refuses. A server that would try again after a refusal takes a
    /// connection that is accepted and closed for a failure.
    pub(crate) patient: bool,
}

/// What the proxy shares with its connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstream: String,
    pub(super) manners: Manners,
    /// The addresses that a server names, and those in their place.
    pub(super) readdress: OnceLock<Readdress>,
    pub(super) faults: watch::Sender<Faults>,
    pub(super) traps: Traps,
    /// Of what comes from the server.
    pub(super) replies: Traps,
    /// Bytes that came from clients.
    pub(super) asked: AtomicU64,
    /// Bytes that went to clients.
    pub(super) answered: AtomicU64,
    pub(super) open: watch::Sender<usize>,
}

/// A client's connection, counted for as long as it is open, however it ends.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    /// How many cuts there had been when it came.
    pub(super) cuts: u64,
    shared: Arc<Shared>,
}

impl Client {
    /// `None` when new connections are refused.
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
