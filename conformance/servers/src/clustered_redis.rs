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

/// Six Redis servers in a cluster. Servers 0 to 2 start as masters of a third of the slots each, 3 to 5 as
/// their replicas.
///
/// A killed server starts again without data. If slots have no master, the other slots still work
/// (`cluster-require-full-coverage no`).
///
/// Sources, waits, errors and panics are as for an [`Ensemble`](crate::Ensemble).
#[derive(Debug)]
pub struct ClusteredRedis {
    servers: Vec<Local>,
    ids: Vec<String>,
    host: String,
    // `None`: servers cannot be cut off. Dropped before its ports are free.
    crossings: Option<Crossings>,
    ports: ClaimedPorts,
}

/// For clients, for TLS, and for the bus; if the server can be cut off, also the announced ports in place of
/// the first and the last.
type NodePorts = [u16; PORTS];
const PORTS: usize = 5;

impl ClusteredRedis {
    /// Starts all servers, and waits until the cluster is whole. A master that is silent for
    /// `cluster-node-timeout` is replaced.
    pub async fn start(node_timeout: Duration) -> Result<Self, ServerError> {
        Self::start_with(node_timeout, Wiring::Plain).await
    }

    /// Starts servers that can be [cut off](Self::cut). Needs Linux and Redis 7.0 or later.
    pub async fn start_cuttable(node_timeout: Duration) -> Result<Self, ServerError> {
        Self::start_with(node_timeout, Wiring::Cuttable).await
    }

    /// Starts servers that also speak TLS. They report each other to clients by `host`: `127.0.0.1` or
    /// `localhost`.
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

    /// Returns the URL with the first two servers.
    pub fn url(&self) -> String {
        format!("redis-cluster://{}", self.servers()[..2].join(","))
    }

    /// Returns the URL for TLS.
    pub fn tls_url(&self) -> Option<String> {
        Some(format!("rediss-cluster://{}", self.tls_servers()?[..2].join(",")))
    }

    /// Returns each `host:port` for TLS.
    pub fn tls_servers(&self) -> Option<Vec<String>> {
        let port = |server: &Local| Some(format!("{}:{}", self.host, server.binary.tls_port?));
        self.servers.iter().map(port).collect()
    }

    /// Returns each `host:port`, as servers report it to clients.
    pub fn servers(&self) -> Vec<String> {
        let ports: &[NodePorts] = self.ports.numbers.as_chunks().0;
        let told = |&[port, _, _, by, _]: &NodePorts| if self.crossings.is_some() { by } else { port };
        ports.iter().map(|ports| format!("127.0.0.1:{}", told(ports))).collect()
    }

    /// Cuts a server off from all others: no bytes pass, and no connection closes. Clients still reach it.
    ///
    /// # Panics
    /// If the servers were not [started for cuts](Self::start_cuttable).
    pub fn cut(&self, server: usize) {
        assert!(server < SERVERS, "server {server} does not exist");
        self.crossings.as_ref().expect("started for cuts").cut(server);
    }

    /// Heals all cuts.
    pub fn heal(&self) {
        self.crossings.iter().for_each(Crossings::heal);
    }

    /// Waits until each running server knows a master of all slots, and each master a replica.
    pub async fn wait_until_whole(&self) -> Result<(), ServerError> {
        until("was not whole", self.states(), async || {
            let infos = join_all((0..SERVERS).map(|server| self.says(server, "INFO replication"))).await;
            let masters = infos.iter().filter(|info| info.contains("state=online")).count();
            let views = join_all((0..SERVERS).map(|server| self.says(server, "CLUSTER SLOTS"))).await;
            let whole = |view: &String| self.ids.iter().all(|id| view.contains(id.as_str()));
            (masters == MASTERS && views.iter().all(whole)).then_some(())
        })
        .await
    }

    /// Pauses a server (SIGSTOP): it accepts connections, but does not answer. All threads have stopped when
    /// this returns.
    pub async fn pause(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].pause().await
    }

    /// Continues a server.
    pub fn resume(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].signal(Signal::CONT)
    }

    /// Kills a server (SIGKILL).
    pub async fn kill(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].kill().await
    }

    /// Starts a killed server again. Its cluster file has its old role; the others give it its new role.
    pub async fn launch(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].launch().await
    }

    async fn say(&self, server: usize, line: &str) -> Result<String, ServerError> {
        let said = probe::ask_redis(&self.servers[server].binary.addr(), &format!("{line}\r\n")).await;
        said.map_err(ServerError::io(format!("asking {line:?}")))
    }

    async fn says(&self, server: usize, line: &str) -> String {
        self.say(server, line).await.unwrap_or_default()
    }

    async fn states(&self) -> String {
        self.servers.iter().map(Local::log_tail).collect::<Vec<_>>().join("\n\n")
    }
}

fn announced(&[port, _, bus, by, bus_by]: &NodePorts) -> Vec<Announced> {
    vec![Announced { port, by }, Announced { port: bus, by: bus_by }]
}
