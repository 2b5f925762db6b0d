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
    /// Dials again while the server refuses: some servers retry after a refusal, but treat a connection that
    /// is accepted and closed as a failure.
    pub(crate) patient: bool,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstream: String,
    pub(super) manners: Manners,
    pub(super) readdress: OnceLock<Readdress>,
    pub(super) faults: watch::Sender<Faults>,
    pub(super) traps: Traps,
    pub(super) replies: Traps,
    pub(super) asked: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) open: watch::Sender<usize>,
}

pub(super) struct Client {
    pub(super) stream: TcpStream,
    /// The number of cuts before its accept.
    pub(super) cuts: u64,
    shared: Arc<Shared>,
}

impl Client {
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
