use std::time::{Duration, Instant};

use latchwork_conformance::actions::in_turn;
use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_conformance::servers::Server;
use latchwork_core::recipes::{Mutex, QuorumLock};
use latchwork_core::{Config, Coordinator, connect};

use super::{KEY, TTL};
use crate::common::PATIENCE;

pub(crate) struct Links(pub(crate) Vec<Proxy>);

impl Links {
    pub(crate) async fn to(servers: &[Server]) -> Self {
        let link = async |server: &Server| Proxy::start(server.addr()).await.expect("a link");
        Self(in_turn(servers.iter().map(link)).await)
    }

    pub(crate) fn urls(&self, servers: &[Server]) -> Vec<String> {
        servers.iter().zip(&self.0).map(|(server, link)| server.url_at(link.addr())).collect()
    }

    pub(crate) fn part_from(&self, servers: &[usize]) {
        for server in servers {
            self.0[*server].hold(Direction::ToServer);
            self.0[*server].hold(Direction::ToClient);
        }
    }

    pub(crate) fn rejoin(&self, servers: &[usize]) {
        servers.iter().for_each(|server| self.0[*server].resume());
    }
}

pub(crate) struct Clients {
    pub(crate) coordinators: Vec<Coordinator>,
    ttl: Duration,
}

impl Clients {
    pub(crate) async fn connect(urls: &[String]) -> Self {
        Self::connect_with(urls, TTL, TTL / 2).await
    }

    pub(crate) async fn connect_with(urls: &[String], ttl: Duration, request_timeout: Duration) -> Self {
        let mut coordinators = Vec::new();
        for (number, url) in urls.iter().enumerate() {
            let mut config = Config::from_url(url).expect("a good URL");
            (config.name, config.ttl) = (Some(format!("server-{number}")), ttl);
            config.request_timeout = request_timeout;
            coordinators.push(surely_connected(&config).await);
        }
        Self { coordinators, ttl }
    }

    pub(crate) fn mutexes(&self) -> Vec<Mutex> {
        self.coordinators.iter().map(|coordinator| coordinator.mutex(KEY).expect("a good key")).collect()
    }

    pub(crate) fn lock(&self, guarded: bool) -> QuorumLock {
        let new = match guarded {
            true => QuorumLock::new(KEY, self.coordinators.clone(), self.ttl),
            false => QuorumLock::trusting(KEY, self.coordinators.clone(), self.ttl),
        };
        new.expect("good members")
    }
}

async fn surely_connected(config: &Config) -> Coordinator {
    let begun = Instant::now();
    loop {
        match connect(&[latchwork_redis::connector()], config).await {
            Ok(coordinator) => return coordinator,
            Err(error) => assert!(error.may_pass() && begun.elapsed() < PATIENCE, "{error}"),
        }
    }
}
