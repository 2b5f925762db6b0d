//! The options of a server.

use std::time::Duration;

use crate::tls::ServerTls;

/// The speed of a server's own timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clocks {
    /// ZooKeeper has a tick of 100 ms and grants sessions of 200 ms to 60 s. etcd has a heartbeat of 20 ms, elects after 200 ms,
    /// and does not wait for its disk.
    #[default]
    Fast,
    /// The servers' defaults: ZooKeeper has a tick of 2 s and grants 4 s to 40 s. etcd has a heartbeat of 100 ms and elects
    /// after 1 s.
    Default,
}

impl Clocks {
    /// Returns the element of these clocks, of the elements for fast and default clocks.
    const fn of<T: Copy>(self, [fast, default]: [T; 2]) -> T {
        match self {
            Clocks::Fast => fast,
            Clocks::Default => default,
        }
    }

    /// Returns ZooKeeper's tick.
    pub const fn zookeeper_tick(self) -> Duration {
        Duration::from_millis(self.of([100, 2_000]))
    }

    /// Returns the arguments for etcd's heartbeat interval and its election timeout. The election timeout limits its shortest
    /// lease.
    pub(super) fn etcd_args(self) -> [String; 2] {
        let (heartbeat, election) = self.of([(20, 200), (100, 1_000)]);
        [format!("--heartbeat-interval={heartbeat}"), format!("--election-timeout={election}")]
    }

    /// Returns the variable that stops etcd from waiting for its disk: by default each write waits, and a busy disk may take
    /// seconds. It is not an argument, because releases before 3.4.10 refuse an unknown argument.
    pub(super) fn etcd_environment(self) -> Option<(String, String)> {
        (self == Clocks::Fast).then(|| ("ETCD_UNSAFE_NO_FSYNC".to_owned(), "true".to_owned()))
    }

    /// Returns the value of [`Kind::clocks_variable`](super::Kind::clocks_variable).
    pub(super) const fn name(self) -> &'static str {
        self.of(["fast", "default"])
    }
}

/// The options of a server. The default accepts any server, and fast clocks if it is started here.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(super) clocks: Clocks,
    pub(super) own: bool,
    pub(super) args: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) tls: Option<ServerTls>,
}

impl Options {
    /// Creates the default: any server, fast clocks, no arguments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the clocks. [`Clocks::Fast`] is a wish: a server of the environment keeps its clocks
    /// ([`Server::clocks`](super::Server::clocks)). [`Clocks::Default`] is a requirement.
    pub fn clocks(mut self, clocks: Clocks) -> Self {
        self.clocks = clocks;
        self
    }

    /// Requires a program that this process starts. It can be stopped, started again, and get faults without an effect on others.
    pub fn own(mut self) -> Self {
        self.own = true;
        self
    }

    /// Requires a program that this process starts and that speaks TLS too, at [`Server::tls_addr`](super::Server::tls_addr).
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self.own()
    }

    /// Requires a program that this process starts with this environment variable.
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self.own()
    }

    /// Adds arguments: of the command line for Redis and etcd; lines of `zoo.cfg` (`key=value`) or properties of Java
    /// (`-Dkey=value`) for ZooKeeper. Then a server of the environment is not used, because its arguments are unknown.
    pub fn args<I: IntoIterator<Item = S>, S: Into<String>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}
