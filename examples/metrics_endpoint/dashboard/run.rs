use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use latchwork::operator::Move;
use latchwork::{Config, MoveConfig};
use latchwork_servers::proxy::{Direction, Proxy};
use latchwork_servers::{Kind, Options, Server, WatchedRedis, ask};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::process::{Child, Command};

use crate::prometheus::Prometheus;

/// Each outage is longer, and a busy machine renews in time.
const TTL: Duration = Duration::from_secs(3);

const PEACE: Duration = Duration::from_secs(8);

pub(crate) struct Run<S> {
    pub(crate) prometheus: Prometheus,
    services: Vec<Child>,
    // The servers must be dropped last.
    _servers: S,
}

impl Run<(Proxy, Server)> {
    pub(crate) async fn through_an_outage() -> Self {
        let server =
            Server::start(Kind::Redis, Options::new().own()).await.unwrap_or_else(|error| panic!("{error}"));
        let proxy = Proxy::start(server.addr()).await.expect("a port");
        let url = patient(&server.url_at(proxy.addr()));
        let side = |namespace: &str| format!("{url}&namespace={namespace}");
        let [from, to] = ["before", "after"].map(side);
        let moving =
            format!("moving:?from={}&to={}&move=m", from.replace('&', "%26"), to.replace('&', "%26"));
        let (services, mut scraped) = serve(&[&url, &url, &moving]).await;
        let operators = free_address();
        PrometheusBuilder::new().with_http_listener(operators).install().expect("the first recorder");
        scraped.push(operators);
        let at = |url: &str| Config::from_url(url).expect("a good URL");
        let sides = MoveConfig::new(at(&from), at(&to), "m");
        let operator = Move::connect(&latchwork::connectors(), &sides).await.expect("connected");
        let prometheus = Prometheus::start(&scraped).await;
        operator.start(|told| println!("{told}")).await.expect("both");
        tokio::time::sleep(PEACE).await;
        [Direction::ToServer, Direction::ToClient].into_iter().for_each(|way| proxy.hold(way));
        tokio::time::sleep(2 * TTL).await;
        proxy.resume();
        operator.run(|told| println!("{told}")).await.expect("done");
        operator.close().await.expect("closed");
        tokio::time::sleep(PEACE).await;
        Self { prometheus, services, _servers: (proxy, server) }
    }
}

impl Run<WatchedRedis> {
    /// Each killed master comes back as a replica.
    pub(crate) async fn through_failovers(services: usize, kills: u32, every: Duration) -> Self {
        let watched = WatchedRedis::start().await.unwrap_or_else(|error| panic!("{error}"));
        let url = patient(&watched.url());
        let (services, scraped) = serve(&vec![url.as_str(); services]).await;
        let prometheus = Prometheus::start(&scraped).await;
        let mut next = tokio::time::interval(every);
        next.tick().await;
        for _ in 0..kills {
            next.tick().await;
            let master = watched.master().await.expect("a master");
            watched.kill(master).await.expect("killed");
            watched.wait_until_replaced(master).await.expect("another master");
            watched.launch(master).await.expect("started again");
            watched.wait_until_whole().await.expect("whole again");
        }
        next.tick().await;
        Self { prometheus, services, _servers: watched }
    }
}

impl<S> Run<S> {
    pub(crate) async fn end(self) {
        for mut service in self.services {
            service.kill().await.expect("killed");
        }
    }
}

fn patient(url: &str) -> String {
    format!("{url}?ttl={}s&request_timeout=1s", TTL.as_secs())
}

async fn serve(urls: &[&str]) -> (Vec<Child>, Vec<SocketAddr>) {
    let addresses: Vec<_> = urls.iter().map(|_| free_address()).collect();
    let services = urls.iter().zip(&addresses).map(|(url, at)| service(url, *at)).collect();
    for address in &addresses {
        until_served(*address).await;
    }
    (services, addresses)
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

/// No event reports the first acquisition.
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

pub(crate) fn free_address() -> SocketAddr {
    let ports = latchwork_servers::free_ports(1).expect("a free port");
    SocketAddr::from(([127, 0, 0, 1], ports[0]))
}
