use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::locate::{Program, locate};
use crate::options::{Clocks, Options};
use crate::ports::ClaimedPorts;
use crate::probe::{self, Identity};
use crate::process::Process;
use crate::tls::ServerTls;
use crate::{Kind, ServerError};

pub(super) const READY: Duration = Duration::from_secs(60);

pub(super) const AGAIN: Duration = Duration::from_millis(20);

const ATTEMPTS: usize = 5;

/// Can be started repeatedly, with the same ports and data.
#[derive(Debug)]
pub(super) struct Binary {
    pub(super) kind: Kind,
    program: Program,
    args: Vec<String>,
    environment: Vec<(String, String)>,
    pub(super) port: u16,
    pub(super) tls_port: Option<u16>,
    folder: TempDir,
    // Claimed also while the server is stopped. The owner of an ensemble claims its ports.
    _ports: Option<ClaimedPorts>,
}

impl Binary {
    pub(super) fn prepare(kind: Kind, options: &Options) -> Result<Binary, ServerError> {
        let ports = ClaimedPorts::take(3)?;
        let (port, peer_port) = (ports.numbers[0], ports.numbers[1]);
        let tls = options.tls.as_ref().map(|tls| (tls, ports.numbers[2]));
        let binary = Self::with_args(kind, port, tls.map(|(_, port)| port), |program, folder| match kind {
            Kind::Redis => Ok(redis_args(port, tls, options)),
            Kind::Etcd => Ok(etcd_args(folder, port, peer_port, tls, options)),
            Kind::Zookeeper => {
                let mut config = zookeeper_config(folder, port, options.clocks);
                if let Some((tls, port)) = tls {
                    config.push_str(&tls.zookeeper(port));
                }
                let (of_java, lines): (Vec<_>, Vec<_>) =
                    options.args.iter().cloned().partition(|arg| arg.starts_with("-D"));
                for line in lines {
                    config.push_str(&line);
                    config.push('\n');
                }
                zookeeper_args(program, folder, &config, &of_java)
            }
        })?;
        let of_etcd = if kind == Kind::Etcd { options.clocks.etcd_environment() } else { None };
        let environment = of_etcd.into_iter().chain(options.environment.iter().cloned()).collect();
        Ok(Binary { environment, _ports: Some(ports), ..binary })
    }

    fn with_args(
        kind: Kind,
        port: u16,
        tls_port: Option<u16>,
        args: impl FnOnce(&Program, &Path) -> Result<Vec<String>, ServerError>,
    ) -> Result<Binary, ServerError> {
        let (program, folder) = (locate(kind)?, temporary_folder(kind)?);
        let args = args(&program, folder.path())?;
        Ok(Binary { kind, program, args, environment: Vec::new(), port, tls_port, folder, _ports: None })
    }

    /// `lines`: the `server.N=` lines for this member.
    pub(super) fn zookeeper_member(
        id: usize,
        port: u16,
        tls_port: Option<u16>,
        clocks: Clocks,
        lines: &str,
    ) -> Result<Binary, ServerError> {
        Self::with_args(Kind::Zookeeper, port, tls_port, |program, folder| {
            std::fs::create_dir_all(folder.join("data"))
                .and_then(|()| std::fs::write(folder.join("data/myid"), id.to_string()))
                .map_err(ServerError::io("writing myid"))?;
            zookeeper_args(program, folder, &(zookeeper_config(folder, port, clocks) + lines), &[])
        })
    }

    pub(super) fn etcd_member(
        port: u16,
        args: impl FnOnce(&Path) -> Vec<String>,
    ) -> Result<Binary, ServerError> {
        let binary = Self::with_args(Kind::Etcd, port, None, |_, folder| Ok(args(folder)))?;
        Ok(Binary { environment: Clocks::Fast.etcd_environment().into_iter().collect(), ..binary })
    }

    /// With TLS, all use the second port.
    pub(super) fn redis_member(
        [port, tls_port]: [u16; 2],
        tls: Option<&ServerTls>,
        args: &str,
    ) -> Result<Binary, ServerError> {
        Self::with_args(Kind::Redis, port, tls.map(|_| tls_port), |_, _| {
            let tls_args = tls.map(|tls| tls.redis_member(tls_port)).unwrap_or_default();
            let args = args.split_whitespace().map(str::to_owned).chain(tls_args);
            Ok(redis_args(port, None, &Options::new().args(args)))
        })
    }

    pub(super) fn sentinel(
        [port, tls_port]: [u16; 2],
        tls: Option<&ServerTls>,
        lines: &str,
    ) -> Result<Binary, ServerError> {
        Self::with_args(Kind::Redis, port, tls.map(|_| tls_port), |_, folder| {
            let file = folder.join("sentinel.conf");
            let tls_lines = tls.map(|tls| tls.redis_lines(tls_port)).unwrap_or_default();
            let text = format!("port {port}\nbind 127.0.0.1\nprotected-mode no\n{tls_lines}{lines}");
            std::fs::write(&file, text).map_err(ServerError::io("writing sentinel.conf"))?;
            Ok(vec![file.to_string_lossy().into_owned(), "--sentinel".to_owned()])
        })
    }

    pub(super) fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The port for other servers, unless they can be cut off.
    pub(super) fn known_port(&self) -> u16 {
        self.tls_port.unwrap_or(self.port)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(super) fn log_tail(&self) -> String {
        tail(&self.log()).unwrap_or_else(|error| format!("(the log cannot be read: {error})"))
    }

    pub(super) fn log_lines_with(&self, text: &str) -> usize {
        let log = std::fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&log).lines().filter(|line| line.contains(text)).count()
    }

    fn spawn(&self) -> Result<Process, ServerError> {
        Process::spawn(&self.program, &self.args, &self.environment, self.folder.path(), &self.log())
    }

    pub(super) async fn run(&self) -> Result<Process, ServerError> {
        let mut process = self.spawn()?;
        let identity =
            Identity { pid: process.pid(), folder: self.folder.path().to_string_lossy().into_owned() };
        let deadline = Instant::now() + READY;
        while !self.serves(&identity).await {
            if Instant::now() > deadline {
                return Err(ServerError::NotReady { kind: self.kind, waited: READY, log: self.log_tail() });
            }
            // A server does not announce that it is ready.
            tokio::select! {
                ended = process.ended() => {
                    let status = ended?.to_string();
                    return Err(ServerError::Died { kind: self.kind, status, log: self.log_tail() });
                }
                () = sleep(AGAIN) => {}
            }
        }
        Ok(process)
    }

    /// ZooKeeper opens its TLS port later.
    async fn serves(&self, identity: &Identity) -> bool {
        let listens = async |port| TcpStream::connect(("127.0.0.1", port)).await.is_ok();
        probe::serves(self.kind, &self.addr(), Some(identity)).await
            && match self.tls_port {
                Some(port) => listens(port).await,
                None => true,
            }
    }
}

/// Another program may have taken the ports, or a child of this process before its exec.
pub(super) async fn on_free_ports<F, T>(start: impl Fn() -> F) -> Result<T, ServerError>
where
    F: Future<Output = Result<T, ServerError>>,
{
    let mut attempt = 1;
    loop {
        match start().await {
            Err(error) if is_for_a_port(&error) && attempt < ATTEMPTS => attempt += 1,
            done => return done,
        }
    }
}

fn is_for_a_port(error: &ServerError) -> bool {
    match error {
        ServerError::Died { log, .. } => port_taken(log),
        ServerError::Io { source, .. } => source.kind() == ErrorKind::AddrInUse,
        _ => false,
    }
}

fn port_taken(log: &str) -> bool {
    let log = log.to_ascii_lowercase();
    ["address already in use", "bindexception", "failed listening on port"]
        .iter()
        .any(|text| log.contains(text))
}

fn temporary_folder(kind: Kind) -> Result<TempDir, ServerError> {
    tempfile::Builder::new()
        .prefix(&format!("latchwork-{kind}-"))
        .tempdir()
        .map_err(ServerError::io("making a temporary folder"))
}

fn redis_args(port: u16, tls: Option<(&ServerTls, u16)>, options: &Options) -> Vec<String> {
    let port = port.to_string();
    let fixed = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"];
    let tls = tls.into_iter().flat_map(|(tls, port)| tls.redis(port));
    fixed.into_iter().map(str::to_owned).chain(tls).chain(options.args.iter().cloned()).collect()
}

fn etcd_args(
    folder: &Path,
    port: u16,
    peer_port: u16,
    tls: Option<(&ServerTls, u16)>,
    options: &Options,
) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let fixed = [
        "--name=latchwork".to_owned(),
        format!("--data-dir={}", folder.join("data").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=latchwork={peer}"),
    ];
    // The last of equal flags counts.
    let tls = tls.into_iter().flat_map(|(tls, port)| tls.etcd(&client, port));
    fixed
        .into_iter()
        .chain(options.clocks.etcd_args())
        .chain(tls)
        .chain(options.args.iter().cloned())
        .collect()
}

fn zookeeper_config(folder: &Path, port: u16, clocks: Clocks) -> String {
    let data = folder.join("data");
    let mut config = format!(
        "tickTime={}\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
         admin.enableServer=false\n4lw.commands.whitelist=*\n",
        clocks.zookeeper_tick().as_millis(),
        data.display(),
    );
    if clocks == Clocks::Fast {
        let _ = writeln!(config, "maxSessionTimeout=60000");
    }
    config
}

fn zookeeper_args(
    program: &Program,
    folder: &Path,
    config: &str,
    properties: &[String],
) -> Result<Vec<String>, ServerError> {
    let file = folder.join("zoo.cfg");
    std::fs::write(&file, config).map_err(ServerError::io("writing zoo.cfg"))?;
    let fixed = [
        "-Xmx256m",
        // For a program that runs for minutes on few cores.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        // Otherwise queries of the role fill the log.
        "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=warn",
        "-cp",
        program.class_path.as_deref().unwrap_or_default(),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
    ];
    let fixed = fixed.into_iter().map(str::to_owned).chain([file.to_string_lossy().into_owned()]);
    let unsynced = "-Dzookeeper.forceSync=no".to_owned();
    Ok([unsynced].into_iter().chain(properties.iter().cloned()).chain(fixed).collect())
}

fn tail(log: &Path) -> std::io::Result<String> {
    const BYTES: usize = 3_000;
    let log = std::fs::read(log)?;
    Ok(String::from_utf8_lossy(&log[log.len().saturating_sub(BYTES)..]).into_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    async fn attempts(fails: impl Fn() -> ServerError) -> usize {
        let attempts = Cell::new(0);
        let started = on_free_ports(|| async {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 3 { Err(fails()) } else { Ok(()) }
        });
        assert!(started.await.is_ok() || attempts.get() == 1);
        attempts.get()
    }

    #[tokio::test]
    async fn what_finds_its_ports_taken_is_started_again_and_nothing_else_is() {
        let io = |kind: ErrorKind| ServerError::io("opening a door")(kind.into());
        let died = |log: &str| ServerError::Died { kind: Kind::Redis, status: "1".into(), log: log.into() };
        assert_eq!(attempts(|| io(ErrorKind::AddrInUse)).await, 3);
        assert_eq!(attempts(|| died("bind: Address already in use")).await, 3);
        assert_eq!(attempts(|| io(ErrorKind::PermissionDenied)).await, 1);
        assert_eq!(attempts(|| died("out of memory")).await, 1);
    }
}
