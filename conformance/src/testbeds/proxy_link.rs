use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::select_all;
use latchwork_core::Address;
use latchwork_servers::proxy::{Direction, Event, EventLost, Parked, Proxy};

use crate::testbed::{Armed, Link};

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

/// Another proxy may repeat the request. ZooKeeper's reads do not count, because a write may read first.
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
            let names = |bytes: &[u8]| bytes.windows(self.key.len()).any(|window| window == self.key);
            let changes = match zookeeper_requests(chunk) {
                Some(requests) => {
                    requests.into_iter().any(|(code, body)| !READS.contains(&code) && names(body))
                }
                None => names(chunk),
            };
            changes && !self.seen.swap(true, Ordering::AcqRel)
        }
    }
}

/// exists, getData, getChildren, sync, getChildren2, checkWatches, removeWatches, multiRead, getEphemerals, getAllChildrenNumber,
/// setWatches2, addWatch.
const READS: [u32; 12] = [3, 4, 8, 9, 12, 17, 18, 22, 103, 104, 105, 106];

/// Code and body; `None` for other data.
fn zookeeper_requests(mut chunk: &[u8]) -> Option<Vec<(u32, &[u8])>> {
    let mut requests = Vec::new();
    while !chunk.is_empty() {
        let (length, rest) = chunk.split_first_chunk::<4>()?;
        let (request, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        let (_xid, request) = request.split_first_chunk::<4>()?;
        let (code, body) = request.split_first_chunk::<4>()?;
        requests.push((u32::from_be_bytes(*code), body));
        chunk = rest;
    }
    Some(requests)
}

/// Of all proxies.
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
            // The case may not have waited for it. The delivery reports errors.
            let _ = self.caught().await;
        }
        // A server that closed the connection drops the request, which is safe too.
        for parked in self.0 {
            if let Err(error) = parked.deliver().await {
                eprintln!("a parked request was not delivered: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_naming_passes_reads_of_zookeeper() {
        let request = |code: u8, path: &[u8]| {
            [&[0, 0, 0, 8 + path.len() as u8, 0, 0, 0, 1, 0, 0, 0, code], path].concat()
        };
        let (read, write) = (request(4, b"/n/key"), request(5, b"/n/key"));
        let is_caught = |chunk: &[u8]| FirstNaming::new("key").on_a_way()(chunk);
        assert!(!is_caught(&read) && is_caught(&write));
        assert!(is_caught(&[read.clone(), write].concat()));
        assert!(!is_caught(&[read, request(5, b"/n/other")].concat()));
        assert!(is_caught(b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"));
    }
}
