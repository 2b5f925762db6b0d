//! A client's link to its servers: through a fault proxy to each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::select_all;
use latchwork_core::Address;
use latchwork_servers::proxy::{Direction, Event, EventLost, Parked, Proxy};

use crate::testbed::{Armed, Link};

/// The ways of one client to the servers.
pub(super) struct ProxyLink(pub(super) Vec<Arc<Proxy>>);

#[async_trait]
impl Link for ProxyLink {
    fn cut(&self) {
        self.0.iter().for_each(|proxy| proxy.cut());
    }

    fn heal(&self) {
        self.0.iter().for_each(|proxy| proxy.resume());
    }

    fn refuse(&self) {
        self.0.iter().for_each(|proxy| proxy.refuse());
    }

    fn silence(&self) -> bool {
        self.0.iter().for_each(|proxy| proxy.hold(Direction::ToClient));
        true
    }

    fn drop_reply(&self, key: &str) -> Box<dyn Armed> {
        let first = FirstNaming::new(key);
        Box::new(ArmedEvents(
            self.0.iter().map(|proxy| proxy.drop_reply_to(first.clone().on_a_way())).collect(),
        ))
    }

    fn park(&self, key: &str) -> Box<dyn Armed> {
        let first = FirstNaming::new(key);
        Box::new(ArmedParks(
            self.0.iter().map(|proxy| proxy.park_request(first.clone().on_a_way())).collect(),
        ))
    }

    fn delay(&self, delay: Duration) {
        for proxy in &self.0 {
            proxy.delay(Direction::ToServer, delay / 2);
            proxy.delay(Direction::ToClient, delay / 2);
        }
    }

    fn drop_wake(&self, _queue: &Address, _sequence: u64) -> bool {
        false
    }

    fn narrow(&self, bytes_a_second: u32) -> bool {
        self.0.iter().for_each(|proxy| proxy.narrow(Direction::ToServer, Some(bytes_a_second)));
        true
    }

    fn asked(&self) -> u64 {
        self.0.iter().map(|proxy| proxy.asked()).sum()
    }

    fn kill_renewal(&self) -> bool {
        false
    }
}

/// The first request that names a key, on whichever way it goes. The same request sent again, on another
/// way, is not the first.
#[derive(Clone)]
struct FirstNaming {
    key: Vec<u8>,
    seen: Arc<AtomicBool>,
}

impl FirstNaming {
    fn new(key: &str) -> Self {
        Self { key: key.as_bytes().to_vec(), seen: Arc::default() }
    }

    fn on_a_way(self) -> impl Fn(&[u8]) -> bool + Send + 'static {
        move |chunk| {
            let names = chunk.windows(self.key.len()).any(|window| window == self.key);
            names && !self.seen.swap(true, Ordering::AcqRel)
        }
    }
}

/// Armed on each way; the request takes one of them.
struct ArmedEvents(Vec<Event>);
struct ArmedParks(Vec<Parked>);

#[async_trait]
impl Armed for ArmedEvents {
    async fn caught(&mut self) -> std::result::Result<(), EventLost> {
        let (caught, ..) = select_all(self.0.iter_mut().map(|event| event.fired().boxed())).await;
        caught
    }

    async fn deliver(self: Box<Self>) {}
}

#[async_trait]
impl Armed for ArmedParks {
    async fn caught(&mut self) -> std::result::Result<(), EventLost> {
        let (caught, way, _) = select_all(self.0.iter_mut().map(|parked| parked.caught().boxed())).await;
        self.0.swap(0, way);
        self.0.truncate(1);
        caught
    }

    async fn deliver(mut self: Box<Self>) {
        if self.0.len() > 1 {
            // Nobody has waited for it yet; the delivery below reports what went wrong.
            let _ = self.caught().await;
        }
        // A server that has closed that connection drops the request: then it never lands, which is
        // safe too.
        for parked in self.0 {
            if let Err(error) = parked.deliver().await {
                eprintln!("a parked request was not delivered: {error}");
            }
        }
    }
}
