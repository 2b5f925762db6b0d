//! A Redis Cluster of three masters and their replicas: its servers, from their start to their end.

mod slots;

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use rustix::process::Signal;

use crate::binary::{Binary, on_free_ports};
use crate::crossings::{Announced, Crossings, source};
use crate::local::Local;
use crate::ports::ClaimedPorts;
use crate::reached::until;
use crate::wiring::Wiring;
use crate::{ServerError, ServerTls, probe};

const MASTERS: usize = 3;
const SERVERS: usize = 2 * MASTERS;
const SLOTS: usize = 16_384;

/// Six Redis servers of this machine in a cluster: 0 to 2 begin as masters of a third of the slots
/// each, 3 to 5 as their replicas.
///
/// The servers keep nothing on disk: one that was killed comes back empty. Slots without a master
/// cost the others nothing (`cluster-require-full-coverage no`).
#[derive(Debug)]
pub struct ClusteredRedis {
    servers: Vec<Local>,
    ids: Vec<String>,
    host: String,
    // Where servers can be cut off. Dropped before its ports are anybody else's.
    crossings: Option<Crossings>,
    ports: ClaimedPorts,
}

/// The ports of one server: for clients, for clients with TLS, for the bus; and those that it announces for
/// the first and the last where it can be cut off.
type NodePorts = [u16; PORTS];
const PORTS: usize = 5;

impl ClusteredRedis {
    /// Starts all of them, and waits until the cluster is whole. A master that is silent for so long
    /// (`cluster-node-timeout`) is replaced.
    ///
    /// # Cancel safety
    /// Cancelled, it leaves no server behind.
    ///
    /// # Errors
    /// As [`Server::start`](super::Server::start): the servers are programs of this machine,
    /// always.
    pub async fn start(node_timeout: Duration) -> Result<Self, ServerError> {
        Self::start_with(node_timeout, Wiring::Plain).await
    }

    /// The same, of which each server can be [cut off](Self::cut). On Linux, with Redis 7.0 at the least. It runs
    /// on the tokio runtime that started it.
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_cuttable(node_timeout: Duration) -> Result<Self, ServerError> {
        Self::start_with(node_timeout, Wiring::Cuttable).await
    }

    /// The same with TLS among all of them, on ports beside those without. Servers name each other to
    /// clients by `host`: `127.0.0.1` or `localhost`.
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_secured(
        node_timeout: Duration,
        tls: &ServerTls,
        host: &str,
    ) -> Result<Self, ServerError> {
        Self::start_with(node_timeout, Wiring::Secured(tls, host)).await
    }

    async fn start_with(timeout: Duration, wiring: Wiring<'_>) -> Result<Self, ServerError> {
        let cluster = on_free_ports(|| Self::launch_all(timeout, wiring)).await?;
        cluster.meet().await?;
        Ok(cluster)
    }

    async fn launch_all(timeout: Duration, wiring: Wiring<'_>) -> Result<Self, ServerError> {
        let (tls, host) = wiring.tls_and_host();
        let ports = ClaimedPorts::take(PORTS * SERVERS)?;
        let all: &[NodePorts] = ports.numbers.as_chunks().0;
        let crossings = Crossings::open(wiring, all.iter().map(announced).collect(), SERVERS).await?;
        let timeout = timeout.as_millis();
        let servers = all.iter().enumerate().map(async |(server, &[port, tls_port, bus, by, bus_by])| {
            let mut args = format!(
                "--cluster-enabled yes --cluster-port {bus} --cluster-node-timeout {timeout} \
                 --cluster-require-full-coverage no --repl-diskless-sync-delay 0"
            );
            if wiring.is_named() {
                args += " --cluster-preferred-endpoint-type hostname --cluster-announce-hostname ";
                args += host;
            }
            if crossings.is_some() {
                let from = source(server);
                args += &format!(" --bind-source-addr {from} --cluster-announce-port {by}");
                args += &format!(" --cluster-announce-bus-port {bus_by}");
            }
            Local::run(Binary::redis_member([port, tls_port], tls, &args)?).await
        });
        let servers = try_join_all(servers).await?;
        let mut cluster = Self { servers, ids: Vec::new(), host: host.to_owned(), crossings, ports };
        for server in 0..SERVERS {
            let id = cluster.say(server, "CLUSTER MYID").await?;
            cluster.ids.push(id.lines().nth(1).unwrap_or_default().to_owned());
            cluster.say(server, &format!("CLUSTER SET-CONFIG-EPOCH {}", server + 1)).await?;
            cluster.say(0, &cluster.meet_line(server)).await?;
        }
        Ok(cluster)
    }

    /// What makes another server meet this one.
    fn meet_line(&self, server: usize) -> String {
        let ports: &[NodePorts] = self.ports.numbers.as_chunks().0;
        let [_, _, bus, by, bus_by] = ports[server];
        let (port, bus) = match &self.crossings {
            Some(_) => (by, bus_by),
            None => (self.servers[server].binary.known_port(), bus),
        };
        format!("CLUSTER MEET 127.0.0.1 {port} {bus}")
    }

    async fn meet(&self) -> Result<(), ServerError> {
        for master in 0..MASTERS {
            let (first, end) = (master * SLOTS / MASTERS, (master + 1) * SLOTS / MASTERS);
            self.say(master, &format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1)).await?;
        }
        until("did not meet", self.states(), async || {
            let infos = join_all((0..SERVERS).map(|server| self.says(server, "CLUSTER INFO"))).await;
            let known = format!("cluster_known_nodes:{SERVERS}\r\n");
            infos.iter().all(|info| info.contains(&known) && info.contains("cluster_state:ok")).then_some(())
        })
        .await?;
        for replica in MASTERS..SERVERS {
            let said =
                self.say(replica, &format!("CLUSTER REPLICATE {}", self.ids[replica - MASTERS])).await?;
            debug_assert!(said.starts_with("+OK"), "{said}");
        }
        self.wait_until_whole().await
    }

    /// The URL that names the first two servers: they know the others.
    pub fn url(&self) -> String {
        format!("redis-cluster://{}", self.servers()[..2].join(","))
    }

    /// The URL with the ports for TLS, if they were started with it.
    pub fn tls_url(&self) -> Option<String> {
        Some(format!("rediss-cluster://{}", self.tls_servers()?[..2].join(",")))
    }

    /// The `host:port` of each server for TLS, if they were started with it.
    pub fn tls_servers(&self) -> Option<Vec<String>> {
        let port = |server: &Local| Some(format!("{}:{}", self.host, server.binary.tls_port?));
        self.servers.iter().map(port).collect()
    }

    /// The `host:port` of each server, as clients are told.
    pub fn servers(&self) -> Vec<String> {
        let ports: &[NodePorts] = self.ports.numbers.as_chunks().0;
        let told = |&[port, _, _, by, _]: &NodePorts| if self.crossings.is_some() { by } else { port };
        ports.iter().map(|ports| format!("127.0.0.1:{}", told(ports))).collect()
    }

    /// Cuts a server off from all others, as a network partition does: nothing passes, nothing is closed.
    /// Clients still reach it. A master serves them until it notices.
    ///
    /// # Panics
    /// When they were not [started for that](Self::start_cuttable).
    pub fn cut(&self, server: usize) {
        assert!(server < SERVERS, "there is no server {server}");
        self.crossings.as_ref().expect("started for cuts").cut(server);
    }

    /// Heals every cut.
    pub fn heal(&self) {
        self.crossings.iter().for_each(Crossings::heal);
    }

    /// Waits until each server that is up knows a master of all slots, and each master a replica.
    ///
    /// # Cancel safety
    /// Cancel safe, like all waits here.
    ///
    /// # Errors
    /// [`ServerError::Ensemble`] after a minute.
    pub async fn wait_until_whole(&self) -> Result<(), ServerError> {
        until("was not whole", self.states(), async || {
            let infos = join_all((0..SERVERS).map(|server| self.says(server, "INFO replication"))).await;
            let masters = infos.iter().filter(|info| info.contains("state=online")).count();
            let views = join_all((0..SERVERS).map(|server| self.says(server, "CLUSTER SLOTS"))).await;
            // Each master with one replica: two servers a range.
            let whole = |view: &String| self.ids.iter().all(|id| view.contains(id.as_str()));
            (masters == MASTERS && views.iter().all(whole)).then_some(())
        })
        .await
    }

    /// Stops a server without its connections noticing (SIGSTOP): it accepts, and answers nothing. It has
    /// stopped when this returns.
    ///
    /// # Errors
    /// As [`kill`](Self::kill).
    pub async fn pause(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].pause().await
    }

    /// Lets a stopped server go on.
    ///
    /// # Errors
    /// As [`kill`](Self::kill).
    pub fn resume(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].signal(Signal::CONT)
    }

    /// Kills a server (SIGKILL).
    ///
    /// # Errors
    /// [`ServerError::Stopped`] if it does not run.
    ///
    /// # Panics
    /// When there is no such server, like every method that takes one.
    pub async fn kill(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].kill().await
    }

    /// Starts a killed server again, empty: it finds in its file of the cluster what it was, and
    /// learns from the others what it is.
    ///
    /// # Errors
    /// As [`Server::launch`](super::Server::launch).
    pub async fn launch(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].launch().await
    }

    async fn say(&self, server: usize, line: &str) -> Result<String, ServerError> {
        let said = probe::ask_redis(&self.servers[server].binary.addr(), &format!("{line}\r\n")).await;
        said.map_err(ServerError::io(format!("asking {line:?}")))
    }

    /// What a server says; nothing where it does not run.
    async fn says(&self, server: usize, line: &str) -> String {
        self.say(server, line).await.unwrap_or_default()
    }

    /// The ends of all logs.
    async fn states(&self) -> String {
        self.servers.iter().map(Local::log_tail).collect::<Vec<_>>().join("\n\n")
    }
}

fn announced(&[port, _, bus, by, bus_by]: &NodePorts) -> Vec<Announced> {
    vec![Announced { port, by }, Announced { port: bus, by: bus_by }]
}
