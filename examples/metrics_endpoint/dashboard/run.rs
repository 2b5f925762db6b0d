//! Two services on a Redis behind a proxy, through outages.

use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use latchwork_servers::proxy::{Direction, Proxy};
use latchwork_servers::{Kind, Options, Server, ask};
use tokio::process::{Child, Command};

use crate::prometheus::Prometheus;

/// As short as it may be on a busy machine: each outage takes longer.
const TTL: Duration = Duration::from_secs(3);

/// A run that is over, and what Prometheus has of it.
pub(crate) struct Run {
    pub(crate) prometheus: Prometheus,
    services: Vec<Child>,
    // Dropped last.
    _proxy: Proxy,
    _server: Server,
}

impl Run {
    pub(crate) async fn through_outages() -> Self {
        let server =
            Server::start(Kind::Redis, Options::new().own()).await.unwrap_or_else(|error| panic!("{error}"));
        let proxy = Proxy::start(server.addr()).await.expect("a port");
        let url = format!("{}?ttl={}s&request_timeout=1s", server.url_at(proxy.addr()), TTL.as_secs());
        let addresses = [(); 2].map(|()| free_address());
        let services: Vec<_> = addresses.iter().map(|address| service(&url, *address)).collect();
        for address in addresses {
            until_served(address).await;
        }
        let prometheus = Prometheus::start(&addresses).await;
        let long = std::env::var_os("LATCHWORK_PICTURE").is_some();
        let (outages, between) =
            if long { (3, Duration::from_secs(50)) } else { (1, Duration::from_secs(8)) };
        for outage in 0..outages {
            tokio::time::sleep(between).await;
            // Silent, closed and refused; silent again.
            match outage % 2 {
                0 => [Direction::ToServer, Direction::ToClient].into_iter().for_each(|way| proxy.hold(way)),
                _ => proxy.cut(),
            }
            tokio::time::sleep(2 * TTL).await;
            proxy.resume();
        }
        tokio::time::sleep(between).await;
        Self { prometheus, services, _proxy: proxy, _server: server }
    }

    /// Ends the services, as their users would.
    pub(crate) async fn end(self) {
        for mut service in self.services {
            service.kill().await.expect("killed");
        }
    }
}

fn service(url: &str, address: SocketAddr) -> Child {
    Command::new(env!("CARGO_BIN_EXE_metrics_endpoint"))
        .args([url, &address.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the service starts")
}

/// Waits until a service has counted something, which it has no event for.
async fn until_served(address: SocketAddr) {
    let (host, patience) = (address.to_string(), tokio::time::Instant::now() + Duration::from_secs(60));
    loop {
        let answer = ask(&host, &format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n")).await;
        if answer.as_ref().is_ok_and(|text| text.contains("latchwork_acquisitions_total")) {
            return;
        }
        assert!(tokio::time::Instant::now() < patience, "the service at {host} does not come up: {answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An address that nobody has now.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}
