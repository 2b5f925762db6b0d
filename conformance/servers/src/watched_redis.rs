//! A Redis with two replicas, and the three Sentinels that watch it.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};

use crate::binary::{Binary, on_free_ports};
use crate::crossings::{Announced, Crossings, source};
use crate::local::Local;
use crate::ports::ClaimedPorts;
use crate::reached::until;
use crate::wiring::Wiring;
use crate::{ServerError, ServerTls, probe};

const SERVERS: usize = 3;
const SENTINELS: usize = 3;

/// Three Redis servers of this machine, one of which leads, and three Sentinels: when the master is
/// killed, they promote a replica.
///
/// Servers and Sentinels are numbered from 0. The servers keep nothing on disk: one that was killed
/// comes back empty, as a replica.
#[derive(Debug)]
pub struct WatchedRedis {
    servers: Vec<Local>,
    sentinels: Vec<Local>,
    host: String,
    // By which the others and the Sentinels know the servers.
    known: Vec<u16>,
    // Where servers can be cut off. Dropped before its ports are anybody else's.
    crossings: Option<Crossings>,
    _ports: ClaimedPorts,
}

/// The ports of a server or Sentinel: without TLS, with it, and that which a server announces where it can be
/// cut off.
type WatchedPorts = [u16; PORTS];
const PORTS: usize = 3;

impl WatchedRedis {
    /// The name by which the Sentinels know the master.
    pub const SERVICE: &str = "watched";

    /// After so much silence a Sentinel takes the master for dead, unless it is started otherwise: a busy
    /// machine may stall a server for a second.
    pub const DOWN_AFTER: Duration = Duration::from_secs(2);

    /// The Sentinels' `failover-timeout`. They vote for so long, and vote again after twice that where none of them
    /// had most of the votes.
    pub const FAILOVER_TIMEOUT: Duration = Duration::from_secs(3);

    /// Starts all of them, and waits until each Sentinel knows the others and the replicas.
    ///
    /// # Cancel safety
    /// Cancelled, it leaves no server behind.
    ///
    /// # Errors
    /// As [`Server::start`](super::Server::start): the servers are programs of this machine,
    /// always.
    pub async fn start() -> Result<Self, ServerError> {
        Self::start_noticing(Self::DOWN_AFTER).await
    }

    /// The same, with Sentinels that take the master for dead after so much silence.
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_noticing(down_after: Duration) -> Result<Self, ServerError> {
        Self::start_with(Wiring::Plain, down_after).await
    }

    /// As [`start_noticing`](Self::start_noticing), with servers of which each can be [cut off](Self::cut). On
    /// Linux, with Redis 7.0 at the least. It runs on the tokio runtime that started it.
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_cuttable(down_after: Duration) -> Result<Self, ServerError> {
        Self::start_with(Wiring::Cuttable, down_after).await
    }

    /// The same with TLS among all of them, on ports beside those without. Sentinels name the servers
    /// by `host`: `127.0.0.1` or `localhost`.
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_secured(tls: &ServerTls, host: &str) -> Result<Self, ServerError> {
        Self::start_with(Wiring::Secured(tls, host), Self::DOWN_AFTER).await
    }

    async fn start_with(wiring: Wiring<'_>, down_after: Duration) -> Result<Self, ServerError> {
        let watched = on_free_ports(|| Self::launch_all(wiring, down_after)).await?;
        watched.wait_until_whole().await?;
        Ok(watched)
    }

    async fn launch_all(wiring: Wiring<'_>, down_after: Duration) -> Result<Self, ServerError> {
        let (tls, host) = wiring.tls_and_host();
        let ports = ClaimedPorts::take(PORTS * (SERVERS + SENTINELS))?;
        let (servers, sentinels) = ports.numbers.as_chunks().0.split_at(SERVERS);
        let announced = servers.iter().map(|&[port, _, by]: &WatchedPorts| vec![Announced { port, by }]);
        let crossings = Crossings::open(wiring, announced.collect(), SERVERS + SENTINELS).await?;
        let cuttable = crossings.is_some();
        let known: Vec<u16> = servers
            .iter()
            .map(|[port, tls_port, by]| match wiring {
                Wiring::Plain => *port,
                Wiring::Secured(..) => *tls_port,
                Wiring::Cuttable => *by,
            })
            .collect();
        let master = known[0];
        let servers = servers.iter().zip(&known).enumerate().map(async |(server, (ports, known))| {
            // Syncs begin at once, and not after 5 s.
            let mut args = "--repl-diskless-sync-delay 0".to_owned();
            if *known != master {
                args += &format!(" --replicaof 127.0.0.1 {master}");
            }
            if cuttable {
                args += &format!(" --replica-announce-port {known} --bind-source-addr {}", source(server));
            }
            // By which a Sentinel learns of a replica.
            if tls.is_some() {
                args += &format!(" --replica-announce-ip {host}");
            }
            let [port, tls_port, _] = *ports;
            Local::run(Binary::redis_member([port, tls_port], tls, &args)?).await
        });
        let servers = try_join_all(servers).await?;
        let (service, down_after) = (Self::SERVICE, down_after.as_millis());
        let failover_timeout = Self::FAILOVER_TIMEOUT.as_millis();
        let sentinels = sentinels.iter().enumerate().map(async |(sentinel, &[port, tls_port, _])| {
            // It would announce the address that it comes from.
            let from =
                format!("bind-source-addr {}\nsentinel announce-ip 127.0.0.1\n", source(SERVERS + sentinel));
            let from = if cuttable { from.as_str() } else { "" };
            // Names, where a host has one.
            let names = "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n";
            let names = if wiring.is_named() { names } else { "" };
            let lines = format!(
                "{from}{names}sentinel monitor {service} {host} {master} 2\n\
                 sentinel down-after-milliseconds {service} {down_after}\n\
                 sentinel failover-timeout {service} {failover_timeout}\n\
                 sentinel parallel-syncs {service} 2\n"
            );
            Local::run(Binary::sentinel([port, tls_port], tls, &lines)?).await
        });
        let sentinels = try_join_all(sentinels).await?;
        Ok(Self { servers, sentinels, host: host.to_owned(), known, crossings, _ports: ports })
    }

    /// The URL that names the Sentinels and the service.
    pub fn url(&self) -> String {
        format!("redis-sentinel://{}/{}", self.sentinels().join(","), Self::SERVICE)
    }

    /// The URL with the ports for TLS, if they were started with it.
    pub fn tls_url(&self) -> Option<String> {
        let port = |sentinel: &Local| Some(format!("{}:{}", self.host, sentinel.binary.tls_port?));
        let sentinels: Option<Vec<_>> = self.sentinels.iter().map(port).collect();
        Some(format!("rediss-sentinel://{}/{}", sentinels?.join(","), Self::SERVICE))
    }

    /// The `host:port` of each Sentinel.
    pub fn sentinels(&self) -> Vec<String> {
        self.sentinels.iter().map(|sentinel| sentinel.binary.addr()).collect()
    }

    /// The `host:port` of each server with data, as clients are told.
    pub fn servers(&self) -> Vec<String> {
        match &self.crossings {
            Some(_) => self.known.iter().map(|port| format!("127.0.0.1:{port}")).collect(),
            None => self.servers.iter().map(|server| server.binary.addr()).collect(),
        }
    }

    /// Cuts a server with data off from the others and from all Sentinels, as a network partition does:
    /// nothing passes, nothing is closed. Clients still reach it. A master goes on serving them.
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

    /// The server that most Sentinels name, and that says itself that it leads; waits for it.
    ///
    /// # Cancel safety
    /// Cancel safe, like all waits here.
    ///
    /// # Errors
    /// [`ServerError::Ensemble`] after a minute.
    pub async fn master(&self) -> Result<usize, ServerError> {
        until("had no master", self.states(), async || {
            let mut votes = [0; SERVERS];
            let named = join_all(self.sentinels.iter().map(|sentinel| self.named_by(sentinel))).await;
            named.into_iter().flatten().for_each(|named| votes[named] += 1);
            let named = votes.iter().position(|votes| *votes > SENTINELS / 2)?;
            self.leads(named).await.then_some(named)
        })
        .await
    }

    /// Whether a server says itself that it leads, be it right or not.
    pub async fn leads(&self, server: usize) -> bool {
        self.info(server).await.contains("role:master")
    }

    /// Waits until another server than this one leads: it was killed, say.
    ///
    /// # Errors
    /// As [`master`](Self::master).
    pub async fn wait_until_replaced(&self, server: usize) -> Result<usize, ServerError> {
        until("did not replace a master", self.states(), async || {
            self.master().await.ok().filter(|master| *master != server)
        })
        .await
    }

    /// Waits until both other servers follow the master, and all Sentinels know them and each
    /// other, and act: one that stood still for two seconds does nothing for the next thirty (TILT).
    ///
    /// # Errors
    /// As [`master`](Self::master).
    pub async fn wait_until_whole(&self) -> Result<(), ServerError> {
        let master = self.master().await?;
        until("was not whole", self.states(), async || {
            let info = self.info(master).await;
            let following = info.matches("state=online").count() == SERVERS - 1;
            let sentinels = join_all(self.sentinels.iter().map(Self::is_whole)).await;
            (following && sentinels.into_iter().all(|whole| whole)).then_some(())
        })
        .await
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

    /// Stops a server without its connections noticing (SIGSTOP): it accepts, and answers nothing.
    ///
    /// # Errors
    /// As [`kill`](Self::kill).
    pub fn pause(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].signal(rustix::process::Signal::STOP)
    }

    /// Lets a stopped server go on.
    ///
    /// # Errors
    /// As [`kill`](Self::kill).
    pub fn resume(&self, server: usize) -> Result<(), ServerError> {
        self.servers[server].signal(rustix::process::Signal::CONT)
    }

    /// How often Sentinels have found that they, or the machine, had stood still for two seconds: each does nothing
    /// for the next thirty (TILT).
    pub fn tilts(&self) -> usize {
        self.sentinels.iter().map(|sentinel| sentinel.binary.log_lines_with("+tilt")).sum()
    }

    /// Kills a Sentinel (SIGKILL).
    ///
    /// # Errors
    /// As [`kill`](Self::kill).
    pub async fn kill_sentinel(&self, sentinel: usize) -> Result<(), ServerError> {
        self.sentinels[sentinel].kill().await
    }

    /// Stops a Sentinel without its connections noticing (SIGSTOP).
    ///
    /// # Errors
    /// As [`kill`](Self::kill).
    pub fn pause_sentinel(&self, sentinel: usize) -> Result<(), ServerError> {
        self.sentinels[sentinel].signal(rustix::process::Signal::STOP)
    }

    /// Lets a stopped Sentinel go on.
    ///
    /// # Errors
    /// As [`kill`](Self::kill).
    pub fn resume_sentinel(&self, sentinel: usize) -> Result<(), ServerError> {
        self.sentinels[sentinel].signal(rustix::process::Signal::CONT)
    }

    /// Starts a killed server again, empty, and makes it a replica of the master there is now.
    ///
    /// # Errors
    /// As [`Server::launch`](super::Server::launch), and as [`master`](Self::master).
    pub async fn launch(&self, server: usize) -> Result<(), ServerError> {
        let master = self.master().await?;
        self.servers[server].launch().await?;
        // The Sentinels would do it too, in ten seconds.
        let port = self.known[master];
        let line = format!("REPLICAOF 127.0.0.1 {port}\r\n");
        let answer = probe::ask_redis(&self.servers[server].binary.addr(), &line).await;
        answer.map(drop).map_err(ServerError::io("making a replica"))
    }

    /// The server that a Sentinel names.
    async fn named_by(&self, sentinel: &Local) -> Option<usize> {
        let line = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}\r\n", Self::SERVICE);
        let said = probe::ask_redis(&sentinel.binary.addr(), &line).await.ok()?;
        (0..SERVERS).find(|server| said.contains(&format!("\r\n{}\r\n", self.known[*server])))
    }

    async fn is_whole(sentinel: &Local) -> bool {
        let lines = format!("SENTINEL MASTER {}\r\nINFO sentinel\r\n", Self::SERVICE);
        let said = probe::ask_redis(&sentinel.binary.addr(), &lines).await.unwrap_or_default();
        let says = |field: &str, count: usize| said.contains(&format!("{field}\r\n$1\r\n{count}\r\n"));
        let acts = said.contains("sentinel_tilt:0");
        acts && says("num-slaves", SERVERS - 1) && says("num-other-sentinels", SENTINELS - 1)
    }

    /// What a server says of its role; nothing where it does not run.
    async fn info(&self, server: usize) -> String {
        let addr = self.servers[server].binary.addr();
        probe::ask_redis(&addr, "INFO replication\r\n").await.unwrap_or_default()
    }

    /// The ends of all logs.
    async fn states(&self) -> String {
        let logs = self.servers.iter().chain(&self.sentinels).map(Local::log_tail);
        logs.collect::<Vec<_>>().join("\n\n")
    }
}
