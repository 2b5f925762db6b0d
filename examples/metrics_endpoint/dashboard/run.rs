//! Two services on a Redis behind a proxy, and one whose locks move there from one namespace to another,
//! through outages.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use latchwork::{Config, Move, MoveConfig};
use latchwork_servers::proxy::{Direction, Proxy};
use latchwork_servers::{Kind, Options, Server, ask};
use metrics_exporter_prometheus::PrometheusBuilder;
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
        let side = |namespace: &str| format!("{url}&namespace={namespace}");
        let [from, to] = ["before", "after"].map(side);
        let moving =
            format!("moving:?from={}&to={}&move=m", from.replace('&', "%26"), to.replace('&', "%26"));
        let addresses = [(); 3].map(|()| free_address());
        let urls = [&url, &url, &moving];
        let services: Vec<_> = urls.iter().zip(addresses).map(|(url, at)| service(url, at)).collect();
        for address in addresses {
            until_served(address).await;
        }
        // This process operates the move.
        let operators = free_address();
        PrometheusBuilder::new().with_http_listener(operators).install().expect("the first recorder");
        let at = |url: &str| Config::from_url(url).expect("a good URL");
        let sides = MoveConfig::new(at(&from), at(&to), "m");
        let operator = Move::connect(&latchwork::connectors(), &sides).await.expect("connected");
        let scraped: Vec<_> = addresses.into_iter().chain([operators]).collect();
        let prometheus = Prometheus::start(&scraped).await;
        operator.start(|told| println!("{told}")).await.expect("both");
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
        operator.run(|told| println!("{told}")).await.expect("done");
        operator.close().await.expect("closed");
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
    let ports = latchwork_servers::free_ports(1).expect("a free port");
    SocketAddr::from(([127, 0, 0, 1], ports[0]))
}
