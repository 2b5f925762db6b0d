//! The proxy itself: its listening side and the switches for its faults.

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

/// A TCP proxy on a free loopback port, with faults that are set while it runs; see the
/// [module](super).
///
/// Dropping it closes every connection and the port. It runs on the tokio runtime that started it.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    _accepting: Accepting,
}

impl Proxy {
    /// Starts a proxy before `upstream` (`host:port`), which need not answer yet: a client whose
    /// server cannot be reached sees its connection closed.
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub async fn start(upstream: impl Into<String>) -> io::Result<Proxy> {
        Self::start_with(upstream, Manners::default()).await
    }

    /// A proxy between two servers of one ensemble.
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

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Puts other ports in the place of those that the server names in its answers from now on: a
    /// client is led to proxies then. Of a Redis, on loopback, with ports of five digits.
    ///
    /// # Panics
    /// When it is called twice, or with a port of fewer digits.
    pub fn readdress(&self, ports: impl IntoIterator<Item = (u16, u16)>) {
        let set = self.shared.readdress.set(Readdress::new(ports));
        assert!(set.is_ok(), "the ports are set once");
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        *self.shared.open.borrow()
    }

    /// How many bytes have gone to the server up to now.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Acquire)
    }

    /// How many bytes have gone to clients up to now.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Acquire)
    }

    /// Waits until exactly `count` connections are open.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_for_connections(&self, count: usize) {
        // The sender is in `self`, so the wait cannot end in any other way.
        let _ = self.shared.open.subscribe().wait_for(|open| *open == count).await;
    }

    /// Closes every connection and, until [`resume`](Proxy::resume), each new one as soon as it was
    /// accepted. Bytes that were in the proxy are lost.
    pub fn cut(&self) {
        self.change(|faults| {
            faults.refuse = true;
            faults.cuts += 1;
        });
    }

    /// Closes every connection that is open now; new ones are served.
    pub fn sever(&self) {
        self.change(|faults| faults.cuts += 1);
    }

    /// Closes each new connection as soon as it was accepted, until [`resume`](Proxy::resume); open
    /// ones are served.
    pub fn refuse(&self) {
        self.change(|faults| faults.refuse = true);
    }

    /// Stops forwarding in this direction, on all connections. Nothing is closed and nothing is
    /// lost: the bytes, and the end of a stream too, wait in memory for [`resume`](Proxy::resume),
    /// and so do new connections. Held in both directions, this is what a network partition looks
    /// like.
    pub fn hold(&self, direction: Direction) {
        self.change(|faults| faults.held[direction as usize] = true);
    }

    /// Delivers every chunk of this direction `by` later than it came, in order; zero takes the
    /// delay back.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.change(|faults| faults.delay[direction as usize] = by);
    }

    /// Lets so many bytes a second of this direction through, and the others wait behind them;
    /// `None` takes that back.
    pub fn narrow(&self, direction: Direction, bytes_a_second: Option<u32>) {
        self.change(|faults| faults.rate[direction as usize] = bytes_a_second);
    }

    /// Takes back every fault that lasts. Held bytes go on, in their order. Events stay armed.
    pub fn resume(&self) {
        self.change(Faults::resume);
    }

    /// An event for the first request from now on that `matches`: it fires once the request was
    /// written to the server.
    pub fn request(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Event {
        self.shared.traps.arm(matches, Catch::Tell)
    }

    /// An event for the next request of any kind.
    pub fn next_request(&self) -> Event {
        self.request(|_| true)
    }

    /// An event for the first chunk of the server's from now on that `matches`, an answer or a
    /// push: it fires once the chunk is in the proxy, which may [`hold`](Proxy::hold) it.
    pub fn reply(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Event {
        self.shared.replies.arm(matches, Catch::Tell)
    }

    /// Loses the reply to the first request from now on that `matches`: the request is delivered,
    /// the next chunk that the server sends on that connection is thrown away, and the client's
    /// connection is closed. The event fires then.
    ///
    /// The chunk may hold the reply to an earlier request of a pipelining client, or a push: the
    /// reply that was meant is lost with the connection all the same. The server's side of the
    /// connection stays open for a second more, so that it acts on the request even if its reply
    /// was still to come.
    pub fn drop_reply_to(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Event {
        self.shared.traps.arm(matches, Catch::DropReply)
    }

    /// [`drop_reply_to`](Proxy::drop_reply_to) the next request of any kind.
    pub fn drop_next_reply(&self) -> Event {
        self.drop_reply_to(|_| true)
    }

    /// Holds what the server sends on one connection, from the reply to the first request that
    /// `matches` until [`resume`](Proxy::resume). The event fires when the reply is in the proxy:
    /// the server has acted.
    pub fn hold_reply_to(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Event {
        self.shared.traps.arm(matches, Catch::HoldReply)
    }

    /// [`hold_reply_to`](Proxy::hold_reply_to) the next request of any kind.
    pub fn hold_next_reply(&self) -> Event {
        self.hold_reply_to(|_| true)
    }

    /// Catches the first request from now on that `matches`, before the server sees it, and closes
    /// the connection of its client. [`Parked::deliver`] sends it on later: a request that lands
    /// late.
    pub fn park_request(&self, matches: impl Fn(&[u8]) -> bool + Send + 'static) -> Parked {
        self.shared.traps.park(matches)
    }

    fn change(&self, change: impl FnOnce(&mut Faults)) {
        self.shared.faults.send_modify(change);
    }
}
