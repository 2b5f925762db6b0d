//! Several servers of one kind with fault proxies between them.

mod etcd;
mod zookeeper;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use futures_util::future::join_all;

use crate::binary::on_free_ports;
use crate::link::Link;
use crate::local::Local;
use crate::ports::ClaimedPorts;
use crate::reached::until;
use crate::{Kind, ServerError, ServerTls};

/// What a server of an ensemble says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Leader,
    Follower,
}

/// Three (or more) ZooKeeper or etcd servers of this machine, each of whose connections to another
/// passes a [`Proxy`](crate::proxy::Proxy): any of them can be cut off from the rest and healed.
///
/// Servers are numbered from 0. A follower of ZooKeeper that is cut off goes on serving reads to its
/// clients until its sync limit ([`Ensemble::SYNC_LIMIT`]) has passed, while its leader counts down
/// their sessions: the window in which a client must not believe what it reads. One of etcd answers
/// no read that must be of now, and knows no leader after 600 ms.
///
/// A ZooKeeper that is dialled by one with a lower number hangs up and calls back, at the address
/// which the other named: past the proxy. So the proxies between them leave that address out, as
/// servers before release 3.5 did, and it calls back where its own configuration says: at a proxy.
#[derive(Debug)]
pub struct Ensemble {
    kind: Kind,
    servers: Vec<Local>,
    links: Vec<Link>,
    _ports: ClaimedPorts,
}

/// What an ensemble is made of.
type Started = (Vec<Local>, Vec<Link>, ClaimedPorts);

impl Ensemble {
    /// How long a ZooKeeper of an ensemble with fast clocks goes on without having heard from its
    /// leader.
    pub const SYNC_LIMIT: Duration = Duration::from_secs(3);

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
        Ok(Self::of(Kind::Zookeeper, on_free_ports(|| zookeeper::start(size, None)).await?))
    }

    /// As [`zookeeper`](Ensemble::zookeeper), of servers that speak TLS too, at
    /// [`tls_addr`](Ensemble::tls_addr); among themselves they do not.
    ///
    /// # Cancel safety
    /// As there.
    ///
    /// # Errors
    /// As there.
    pub async fn zookeeper_with_tls(size: usize, tls: &ServerTls) -> Result<Ensemble, ServerError> {
        Ok(Self::of(Kind::Zookeeper, on_free_ports(|| zookeeper::start(size, Some(tls))).await?))
    }

    /// Starts a cluster of `size` etcd servers, which elect a leader after 600 ms of silence and
    /// grant leases of a second, and waits until all of them serve.
    ///
    /// # Cancel safety
    /// Cancelled, it leaves no server behind.
    ///
    /// # Errors
    /// As [`zookeeper`](Ensemble::zookeeper).
    pub async fn etcd(size: usize) -> Result<Ensemble, ServerError> {
        Ok(Self::of(Kind::Etcd, on_free_ports(|| etcd::start(size)).await?))
    }

    fn of(kind: Kind, (servers, links, ports): Started) -> Self {
        Self { kind, servers, links, _ports: ports }
    }

    /// How many servers there are.
    pub fn size(&self) -> usize {
        self.servers.len()
    }

    /// The URL that names all servers.
    pub fn url(&self) -> String {
        let addrs: Vec<_> = self.servers.iter().map(|server| server.binary.addr()).collect();
        format!("{}://{}", self.kind, addrs.join(","))
    }

    /// The `host:port` of one server's clients.
    ///
    /// # Panics
    /// When there is no such server, like every method that takes one.
    pub fn addr(&self, server: usize) -> String {
        self.servers[server].binary.addr()
    }

    /// The `host:port` where one server speaks TLS with its clients, if it was asked to.
    pub fn tls_addr(&self, server: usize) -> Option<String> {
        Some(format!("127.0.0.1:{}", self.servers[server].binary.tls_port?))
    }

    /// Waits until exactly one server leads and a majority serves, and says which one it is.
    ///
    /// # Cancel safety
    /// Cancel safe, like all waits here.
    ///
    /// # Errors
    /// [`ServerError::Ensemble`] after a minute.
    pub async fn leader(&self) -> Result<usize, ServerError> {
        until("had no leader", self.states(), async || {
            let roles = self.roles().await;
            let majority = roles.iter().flatten().count() > roles.len() / 2;
            let mut leaders = (0..roles.len()).filter(|server| roles[*server] == Some(Role::Leader));
            leaders.next().filter(|_| majority && leaders.next().is_none())
        })
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
        until("did not have this server back", self.states(), async || {
            self.serves(server).await.then_some(())
        })
        .await
    }

    /// Waits until a server has stopped serving.
    ///
    /// # Errors
    /// [`ServerError::Ensemble`] after a minute.
    pub async fn wait_until_not_serving(&self, server: usize) -> Result<(), ServerError> {
        until("went on with a server that was to give up", self.states(), async || {
            (!self.serves(server).await).then_some(())
        })
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
        self.links.iter().for_each(Link::heal);
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
        self.links.iter().filter(|link| cuts(link)).for_each(Link::hold);
    }

    async fn role(&self, server: usize) -> Option<Role> {
        let addr = self.addr(server);
        match self.kind {
            Kind::Zookeeper => zookeeper::role(&addr).await,
            _ => etcd::role(&addr).await,
        }
    }

    async fn roles(&self) -> Vec<Option<Role>> {
        join_all((0..self.size()).map(|server| self.role(server))).await
    }

    /// What shows that ZooKeeper's servers have diverged: transactions that a server itself found to make
    /// other data than its leader's; and nodes that go with a session, and that some of the servers that serve
    /// have while others have not. The latter says something only while nobody uses them. Nothing is shown
    /// by servers of etcd.
    pub async fn divergence(&self) -> Vec<String> {
        if self.kind != Kind::Zookeeper {
            return Vec::new();
        }
        let mismatches = (0..self.size()).filter_map(|server| match self.digest_mismatches(server) {
            0 => None,
            count => Some(format!("server {server}: {count} digests do not match")),
        });
        let each =
            join_all((0..self.size()).map(async |server| zookeeper::ephemerals(&self.addr(server)).await))
                .await;
        let each: Vec<_> = each.into_iter().flatten().collect();
        let nodes: BTreeSet<_> = each.iter().flatten().collect();
        let ghosts = nodes.into_iter().filter(|node| !each.iter().all(|nodes| nodes.contains(*node)));
        mismatches.chain(ghosts.map(|node| format!("only some servers have {node}"))).collect()
    }

    fn digest_mismatches(&self, server: usize) -> usize {
        self.servers[server].binary.log_lines_with(zookeeper::DIVERGED)
    }

    /// What each server is and has now, for a test that has failed.
    pub async fn report(&self) -> String {
        let mut report = self.states().await;
        if self.kind != Kind::Zookeeper {
            return report;
        }
        for server in 0..self.size() {
            let had = self.digest_mismatches(server);
            let nodes = zookeeper::ephemerals(&self.addr(server)).await;
            // Writing to a String cannot fail.
            let _ = writeln!(
                report,
                "server {server}: {had} digests do not match; nodes of sessions: {nodes:#?}"
            );
        }
        report
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
