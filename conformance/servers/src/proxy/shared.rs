use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::faults::Faults;
use super::readdress::Readdress;
use super::trap::Traps;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// Changes the first chunk of each client.
    pub(crate) introduce: Option<fn(&mut Vec<u8>)>,
    /// Dials again while the server refuses. Some servers treat a connection that is accepted and closed as a failure, but retry
    /// after a refusal.
    pub(crate) patient: bool,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstream: String,
    pub(super) manners: Manners,
    pub(super) readdress: OnceLock<Readdress>,
    pub(super) faults: watch::Sender<Faults>,
    pub(super) traps: Traps,
    /// Traps for chunks from the server.
    pub(super) replies: Traps,
    /// Bytes from clients.
    pub(super) asked: AtomicU64,
    /// Bytes to clients.
    pub(super) answered: AtomicU64,
    pub(super) open: watch::Sender<usize>,
}

/// Counts as open until it ends in any way.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    /// The number of cuts before its accept.
    pub(super) cuts: u64,
    shared: Arc<Shared>,
}

impl Client {
    /// `None` if new connections are refused.
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
