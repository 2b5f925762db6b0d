//! Several ZooKeeper servers with fault proxies between them.

use std::fmt::Write as _;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};

use crate::proxy::{Direction, Manners, Proxy};

use crate::binary::{Binary, on_free_ports};
use crate::local::Local;
use crate::members::{self, Link, Ports, without_address};
use crate::options::Clocks;
use crate::ports::free_ports;
use crate::reached::until;
use crate::{Kind, ServerError, probe};

/// What a server of an ensemble says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Leader,
    Follower,
}

/// Three (or more) ZooKeeper servers of this machine, each of whose connections to another passes a
/// [`Proxy`]: any of them can be cut off from the rest and healed.
///
/// Servers are numbered from 0. A follower that is cut off goes on serving reads to its clients
/// until its sync limit ([`Ensemble::SYNC_LIMIT`]) has passed, while its leader counts down their
/// sessions: the window in which a client must not believe what it reads.
///
/// A server that is dialled by one with a lower number hangs up and calls back, at the address
/// which the other named: past the proxy. So the proxies between them leave that address out, as
/// servers before release 3.5 did, and it calls back where its own configuration says: at a proxy.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Local>,
    links: Vec<Link>,
}

impl Ensemble {
    /// How long a server of an ensemble with fast clocks goes on without having heard from its
    /// leader.
    pub const SYNC_LIMIT: Duration = members::SYNC_LIMIT;

    /// Starts an ensemble of `size` ZooKeeper servers with fast clocks, and waits until all of them
    /// serve.
    ///
    /// # Cancel safety
    /// Cancelled, it leaves no server behind.
    ///
    /// # Errors
    /// As [`Server::start`](super::Server::start): the servers are programs of this machine,
    /// always.
    pub async fn zookeeper(size: usize) -> Result<Ensemble, ServerError> {
        on_free_ports(|| Self::start(size)).await
    }

    async fn start(size: usize) -> Result<Ensemble, ServerError> {
        let ports = free_ports(3 * size)?;
        let ports = ports.as_chunks().0.iter();
        let ports: Vec<_> =
            ports.map(|&[client, quorum, election]| Ports { client, quorum, election }).collect();
        let mut links = Vec::new();
        for from in 0..size {
            for (to, ports) in ports.iter().enumerate().filter(|(to, _)| *to != from) {
                let proxy = async |port, introduce| {
                    let manners = Manners { introduce, patient: true };
                    let proxy = Proxy::start_with(format!("127.0.0.1:{port}"), manners).await;
                    proxy.map_err(ServerError::io("starting a proxy"))
                };
                let quorum = proxy(ports.quorum, None).await?;
                let election = proxy(ports.election, Some(without_address)).await?;
                links.push(Link { from, to, quorum, election });
            }
        }
        let servers = ports.iter().enumerate().map(async |(id, own)| {
            let binary = Binary::zookeeper_member(
                id + 1,
                own.client,
                Clocks::Fast,
                &members::members(id, *own, &links),
            )?;
            let process = binary.run().await?;
            Ok::<_, ServerError>(Local::new(Kind::Zookeeper, binary, process))
        });
        let servers = try_join_all(servers).await?;
        Ok(Ensemble { servers, links })
    }

    /// How many servers there are.
    pub fn size(&self) -> usize {
        self.servers.len()
    }

    /// The URL that names all servers.
    pub fn url(&self) -> String {
        let addrs: Vec<_> = self.servers.iter().map(|server| server.binary.addr()).collect();
        format!("zookeeper://{}", addrs.join(","))
    }

    /// The URL of one server.
    ///
    /// # Panics
    /// When there is no such server, like every method that takes one.
    pub fn server_url(&self, server: usize) -> String {
        format!("zookeeper://{}", self.addr(server))
    }

    /// The `host:port` of one server's clients.
    pub fn addr(&self, server: usize) -> String {
        self.servers[server].binary.addr()
    }

    /// Waits until exactly one server leads and a majority serves, and says which one it is.
    ///
    /// # Cancel safety
    /// Cancel safe, like all waits here.
    ///
    /// # Errors
    /// [`ServerError::Ensemble`] after a minute.
    pub async fn leader(&self) -> Result<usize, ServerError> {
        until(
            "had no leader",
            async || {
                let roles = self.roles().await;
                let majority = roles.iter().flatten().count() > roles.len() / 2;
                let mut leaders = (0..roles.len()).filter(|server| roles[*server] == Some(Role::Leader));
                leaders.next().filter(|_| majority && leaders.next().is_none())
            },
            async || self.states().await,
        )
        .await
    }

    /// The servers that follow a leader now.
    pub async fn followers(&self) -> Vec<usize> {
        let roles = self.roles().await;
        (0..roles.len()).filter(|server| roles[*server] == Some(Role::Follower)).collect()
    }

    /// Whether a server serves its clients now, as leader or follower, be it cut off or not.
    pub async fn serves(&self, server: usize) -> bool {
        self.role(server).await.is_some()
    }

    /// Waits until a server serves.
    ///
    /// # Errors
    /// [`ServerError::Ensemble`] after a minute.
    pub async fn wait_until_serving(&self, server: usize) -> Result<(), ServerError> {
        until(
            "did not have this server back",
            async || self.serves(server).await.then_some(()),
            async || self.states().await,
        )
        .await
    }

    /// Waits until a server has stopped serving.
    ///
    /// # Errors
    /// [`ServerError::Ensemble`] after a minute.
    pub async fn wait_until_not_serving(&self, server: usize) -> Result<(), ServerError> {
        until(
            "went on with a server that was to give up",
            async || (!self.serves(server).await).then_some(()),
            async || self.states().await,
        )
        .await
    }

    /// Cuts a server off from all others, as a network partition does: nothing passes, nothing is
    /// closed. Its clients still reach it.
    pub fn cut(&self, server: usize) {
        assert!(server < self.size(), "there is no server {server}");
        self.hold(|link| link.from == server || link.to == server);
    }

    /// Cuts the way between two servers only.
    pub fn cut_between(&self, one: usize, other: usize) {
        assert!(one.max(other) < self.size(), "there is no such server");
        self.hold(|link| (link.from, link.to) == (one, other) || (link.from, link.to) == (other, one));
    }

    /// Heals every cut. What was held goes on where both ends still want it.
    pub fn heal(&self) {
        for proxy in self.links.iter().flat_map(Link::proxies) {
            proxy.resume();
        }
    }

    /// Kills one server (SIGKILL).
    ///
    /// # Errors
    /// [`ServerError::Stopped`] if it does not run.
    pub async fn kill(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].kill().await
    }

    /// Starts a killed server again, with its data, and waits until it serves: so not while it is
    /// cut off, nor while others are missing for a majority.
    ///
    /// # Errors
    /// As [`Server::launch`](super::Server::launch).
    pub async fn launch(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].launch().await
    }

    fn hold(&self, cuts: impl Fn(&Link) -> bool) {
        for proxy in self.links.iter().filter(|link| cuts(link)).flat_map(Link::proxies) {
            proxy.hold(Direction::ToServer);
            proxy.hold(Direction::ToClient);
        }
    }

    async fn role(&self, server: usize) -> Option<Role> {
        // No answer is an answer: it does not serve.
        let said = probe::ask_in_time(&self.addr(server), "srvr").await.ok()?;
        if said.contains("Mode: leader") {
            Some(Role::Leader)
        } else {
            said.contains("Mode: follower").then_some(Role::Follower)
        }
    }

    async fn roles(&self) -> Vec<Option<Role>> {
        join_all((0..self.size()).map(|server| self.role(server))).await
    }

    /// What each server says now, and the end of its log.
    async fn states(&self) -> String {
        let mut states = String::new();
        for (server, role) in self.roles().await.into_iter().enumerate() {
            let log = self.servers[server].log_tail();
            // Writing to a String cannot fail.
            let _ = writeln!(states, "\nserver {server}: {role:?}\n{log}");
        }
        states
    }
}
