//! Links to all servers, and a client of each over them.

use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_conformance::servers::Server;
use latchwork_core::recipes::{Mutex, QuorumLock};
use latchwork_core::{Config, Coordinator, connect};

use super::{KEY, TTL};

/// A link to each server.
pub(crate) struct Links(pub(crate) Vec<Proxy>);

impl Links {
    pub(crate) async fn to(servers: &[Server]) -> Self {
        let mut links = Vec::new();
        for server in servers {
            links.push(Proxy::start(server.addr()).await.expect("a link"));
        }
        Self(links)
    }

    /// Where the servers are, over these links.
    pub(crate) fn urls(&self, servers: &[Server]) -> Vec<String> {
        servers.iter().zip(&self.0).map(|(server, link)| server.url_at(link.addr())).collect()
    }

    /// The client does not hear from these servers, nor they from it.
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

/// One client of each server.
pub(crate) struct Clients(pub(crate) Vec<Coordinator>);

impl Clients {
    pub(crate) async fn connect(urls: &[String]) -> Self {
        let mut coordinators = Vec::new();
        for (number, url) in urls.iter().enumerate() {
            let mut config = Config::from_url(url).expect("a good URL");
            (config.name, config.ttl) = (Some(format!("server-{number}")), TTL);
            config.request_timeout = TTL / 2;
            let connected = connect(&[latchwork_redis::connector()], &config).await;
            coordinators.push(connected.expect("connected"));
        }
        Self(coordinators)
    }

    pub(crate) fn mutexes(&self) -> Vec<Mutex> {
        self.0.iter().map(|coordinator| coordinator.mutex(KEY).expect("a good key")).collect()
    }

    pub(crate) fn lock(&self, guarded: bool) -> QuorumLock {
        let new = match guarded {
            true => QuorumLock::new(self.mutexes(), TTL),
            false => QuorumLock::trusting(self.mutexes(), TTL),
        };
        new.expect("good members")
    }
}
