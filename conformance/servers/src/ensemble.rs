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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Leader,
    Follower,
}

/// ZooKeeper or etcd servers. Each connection between them passes a [`Proxy`](crate::proxy::Proxy), so that a
/// server can be cut off.
///
/// A cut-off ZooKeeper follower serves reads for [`Ensemble::SYNC_LIMIT`], while its leader counts down the
/// sessions of its clients. A cut-off etcd member answers no linearizable read, and knows no leader after 600
/// ms.
///
/// A ZooKeeper server closes a connection from a lower-numbered server, and connects back to the address that
/// this server named, without the proxy. So the proxies remove that address, as releases before 3.5 did. Then
/// the server uses its own configuration, which names a proxy.
///
/// The servers are always programs of this machine. A cancelled start leaves no server, and waits are cancel
/// safe. Waits fail with [`ServerError::Ensemble`] after a minute, other methods with
/// [`ServerError::Stopped`] or [`ServerError::Io`] if a server does not run. Methods panic if the server does
/// not exist.
#[derive(Debug)]
pub struct Ensemble {
    kind: Kind,
    servers: Vec<Local>,
    links: Vec<Link>,
    _ports: ClaimedPorts,
}

type Started = (Vec<Local>, Vec<Link>, ClaimedPorts);

impl Ensemble {
    /// How long a ZooKeeper follower with fast clocks serves without its leader.
    pub const SYNC_LIMIT: Duration = Duration::from_secs(3);

    /// Starts `size` ZooKeeper servers with fast clocks.
    pub async fn zookeeper(size: usize) -> Result<Ensemble, ServerError> {
        Ok(Self::of(Kind::Zookeeper, on_free_ports(|| zookeeper::start(size, None)).await?))
    }

    /// Starts servers that also speak TLS with clients.
    pub async fn zookeeper_with_tls(size: usize, tls: &ServerTls) -> Result<Ensemble, ServerError> {
        Ok(Self::of(Kind::Zookeeper, on_free_ports(|| zookeeper::start(size, Some(tls))).await?))
    }

    /// Starts `size` etcd servers. They elect a leader after 600 ms without a message, and grant leases of one second or more.
    pub async fn etcd(size: usize) -> Result<Ensemble, ServerError> {
        Ok(Self::of(Kind::Etcd, on_free_ports(|| etcd::start(size)).await?))
    }

    fn of(kind: Kind, (servers, links, ports): Started) -> Self {
        Self { kind, servers, links, _ports: ports }
    }

    /// Returns the number of servers.
    pub fn size(&self) -> usize {
        self.servers.len()
    }

    /// Returns the URL with all servers.
    pub fn url(&self) -> String {
        let addrs: Vec<_> = self.servers.iter().map(|server| server.binary.addr()).collect();
        format!("{}://{}", self.kind, addrs.join(","))
    }

    /// Returns the `host:port` for clients.
    pub fn addr(&self, server: usize) -> String {
        self.servers[server].binary.addr()
    }

    /// Returns the `host:port` for TLS.
    pub fn tls_addr(&self, server: usize) -> Option<String> {
        Some(format!("127.0.0.1:{}", self.servers[server].binary.tls_port?))
    }

    /// Waits until exactly one server leads and a majority serves.
    pub async fn leader(&self) -> Result<usize, ServerError> {
        until("had no leader", self.states(), async || {
            let roles = self.roles().await;
            let majority = roles.iter().flatten().count() > roles.len() / 2;
            let mut leaders = (0..roles.len()).filter(|server| roles[*server] == Some(Role::Leader));
            leaders.next().filter(|_| majority && leaders.next().is_none())
        })
        .await
    }

    /// Returns the current followers.
    pub async fn followers(&self) -> Vec<usize> {
        let roles = self.roles().await;
        (0..roles.len()).filter(|server| roles[*server] == Some(Role::Follower)).collect()
    }

    /// Returns whether a server serves, cut off or not.
    pub async fn serves(&self, server: usize) -> bool {
        self.role(server).await.is_some()
    }

    /// Waits until a server serves.
    pub async fn wait_until_serving(&self, server: usize) -> Result<(), ServerError> {
        until("did not have this server back", self.states(), async || {
            self.serves(server).await.then_some(())
        })
        .await
    }

    /// Waits until a server does not serve.
    pub async fn wait_until_not_serving(&self, server: usize) -> Result<(), ServerError> {
        until("had a server that did not stop serving", self.states(), async || {
            (!self.serves(server).await).then_some(())
        })
        .await
    }

    /// Cuts a server off from all others: no bytes pass, and no connection closes. Clients still reach it.
    pub fn cut(&self, server: usize) {
        assert!(server < self.size(), "server {server} does not exist");
        self.hold(|link| link.from == server || link.to == server);
    }

    /// Cuts only the link between two servers.
    pub fn cut_between(&self, one: usize, other: usize) {
        assert!(one.max(other) < self.size(), "such a server does not exist");
        self.hold(|link| (link.from, link.to) == (one, other) || (link.from, link.to) == (other, one));
    }

    /// Heals all cuts. Bytes continue if both ends still have their connection.
    pub fn heal(&self) {
        self.links.iter().for_each(Link::heal);
    }

    /// Kills one server (SIGKILL).
    pub async fn kill(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].kill().await
    }

    /// Starts a killed server again with its data. It does not answer while it is cut off or without a
    /// majority.
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

    /// Returns the signs of diverged ZooKeeper servers: digests that differ from the leader's, and ephemeral
    /// nodes of only some servers. The second sign is valid only without clients.
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

    /// Describes all servers, for a failed test.
    pub async fn report(&self) -> String {
        let mut report = self.states().await;
        if self.kind != Kind::Zookeeper {
            return report;
        }
        for server in 0..self.size() {
            let had = self.digest_mismatches(server);
            let nodes = zookeeper::ephemerals(&self.addr(server)).await;
            let _ = writeln!(
                report,
                "server {server}: {had} digests do not match; nodes of sessions: {nodes:#?}"
            );
        }
        report
    }

    async fn states(&self) -> String {
        let mut states = String::new();
        for (server, role) in self.roles().await.into_iter().enumerate() {
            let log = self.servers[server].log_tail();
            let _ = writeln!(states, "\nserver {server}: {role:?}\n{log}");
        }
        states
    }
}
