use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use super::faults::{Direction, Faults};
use super::link;
use super::readdress::Readdress;
use super::shared::{Client, Manners, Shared};
use super::trap::{Catch, Event, Parked, Traps};
use crate::accepting::Accepting;

/// A TCP proxy on a free loopback port, with faults; see the [module](super). A drop closes all connections
/// and the port.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    _accepting: Accepting,
}

impl Proxy {
    /// Starts a proxy before `upstream` (`host:port`). While the server does not answer, the proxy closes clients' connections.
    ///
    /// # Errors
    /// If no loopback port can be bound.
    pub async fn start(upstream: impl Into<String>) -> io::Result<Proxy> {
        Self::start_with(upstream, Manners::default()).await
    }

    pub(crate) async fn start_with(upstream: impl Into<String>, manners: Manners) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream: upstream.into(),
            manners,
            readdress: OnceLock::new(),
            faults: watch::Sender::default(),
            traps: Traps::default(),
            replies: Traps::default(),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            open: watch::Sender::default(),
        });
        let all = Arc::clone(&shared);
        let accepting = Accepting::start(listener, move |stream, _| {
            let (client, shared) = (Client::admit(stream, Arc::clone(&all)), Arc::clone(&all));
            async move {
                if let Some(client) = client {
                    link::run(client, shared).await;
                }
            }
        });
        Ok(Proxy { addr, shared, _accepting: accepting })
    }

    /// Returns the address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Replaces the ports that a server names, so that clients connect to proxies. It works for a Redis on
    /// loopback, with ports of five digits.
    ///
    /// # Panics
    /// If it is called twice, or with a port of fewer digits.
    pub fn readdress(&self, ports: impl IntoIterator<Item = (u16, u16)>) {
        let set = self.shared.readdress.set(Readdress::new(ports));
        assert!(set.is_ok(), "the ports are set once");
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        *self.shared.open.borrow()
    }

    /// Returns the bytes that have gone to the server.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Acquire)
    }

    /// Returns the bytes that have gone to clients.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Acquire)
    }

    /// Waits until exactly `count` connections are open.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_for_connections(&self, count: usize) {
        let _ = self.shared.open.subscribe().wait_for(|open| *open == count).await;
    }

    /// Closes all connections and, until [`resume`](Proxy::resume), each new one. Bytes in the proxy are lost.
    pub fn cut(&self) {
        self.change(|faults| {
            faults.refuse = true;
            faults.cuts += 1;
        });
    }

    /// Closes all open connections, and serves new ones.
    pub fn sever(&self) {
        self.change(|faults| faults.cuts += 1);
    }

    /// Closes each new connection until [`resume`](Proxy::resume), and serves open ones.
    pub fn refuse(&self) {
        self.change(|faults| faults.refuse = true);
    }

    /// Stops this direction of all connections: bytes, ends of streams and new connections wait for
    /// [`resume`](Proxy::resume). Both directions held are like a network partition.
    pub fn hold(&self, direction: Direction) {
        self.change(|faults| faults.held[direction as usize] = true);
    }

    /// Delays each chunk, in order. Zero ends the delay.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.change(|faults| faults.delay[direction as usize] = by);
    }

    /// Limits the rate. `None` ends the limit.
    pub fn narrow(&self, direction: Direction, bytes_a_second: Option<u32>) {
        self.change(|faults| faults.rate[direction as usize] = bytes_a_second);
    }

    /// Ends all lasting faults, but no event. Held bytes continue in their order.
    pub fn resume(&self) {
        self.change(Faults::resume);
    }

    /// Returns an event for the first request that `matches`. It fires after the request was written to the server.
    pub fn request(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Event {
        self.shared.traps.arm(matches, Catch::Tell)
    }

    /// Returns an event for the next request.
    pub fn next_request(&self) -> Event {
        self.request(|_| true)
    }

    /// Returns an event for the first chunk from the server (an answer or a push) that `matches`. It fires
    /// while the proxy can still [`hold`](Proxy::hold) the chunk.
    pub fn reply(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Event {
        self.shared.replies.arm(matches, Catch::Tell)
    }

    /// Drops the reply to the first request that `matches`: delivers the request, drops the next chunk from
    /// the server, closes the client's connection, and fires the event.
    ///
    /// The server's side stays open for another second, so that the server executes the request.
    pub fn drop_reply_to(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Event {
        self.shared.traps.arm(matches, Catch::DropReply)
    }

    /// Drops the reply to the next request.
    pub fn drop_next_reply(&self) -> Event {
        self.drop_reply_to(|_| true)
    }

    /// Holds the bytes from the server on one connection, from the reply to the first request that `matches`
    /// until [`resume`](Proxy::resume). The event fires when the reply is in the proxy, so after the
    /// execution.
    pub fn hold_reply_to(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Event {
        self.shared.traps.arm(matches, Catch::HoldReply)
    }

    /// Holds the reply to the next request.
    pub fn hold_next_reply(&self) -> Event {
        self.hold_reply_to(|_| true)
    }

    /// Catches the first request that `matches`, and closes its client's connection. [`Parked::deliver`] delivers it later.
    pub fn park_request(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Parked {
        self.shared.traps.park(matches)
    }

    fn change(&self, change: impl FnOnce(&mut Faults)) {
        self.shared.faults.send_modify(change);
    }
}
