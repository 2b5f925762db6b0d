//! What a test asks of its server.

use std::time::Duration;

use crate::tls::ServerTls;

/// How fast a server's own timers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clocks {
    /// ZooKeeper ticks every 100 ms and grants sessions of 200 ms to 60 s, etcd beats every 20 ms,
    /// elects after 200 ms, and does not wait for its disk.
    #[default]
    Fast,
    /// What the servers do out of the box: ZooKeeper ticks every 2 s and grants 4 s to 40 s, etcd
    /// beats every 100 ms and elects after 1 s.
    Default,
}

impl Clocks {
    /// What belongs to these clocks, out of what belongs to fast and to default ones.
    const fn of<T: Copy>(self, [fast, default]: [T; 2]) -> T {
        match self {
            Clocks::Fast => fast,
            Clocks::Default => default,
        }
    }

    /// ZooKeeper's tick.
    pub const fn zookeeper_tick(self) -> Duration {
        Duration::from_millis(self.of([100, 2_000]))
    }

    /// The arguments for etcd's heartbeat interval, and for its election timeout, which bounds its shortest
    /// lease from below.
    pub(super) fn etcd_args(self) -> [String; 2] {
        let (heartbeat, election) = self.of([(20, 200), (100, 1_000)]);
        [format!("--heartbeat-interval={heartbeat}"), format!("--election-timeout={election}")]
    }

    /// Has etcd not wait for its disk: each write does, and a busy disk may take seconds. It is no argument,
    /// since releases before 3.4.10 do not know it.
    pub(super) fn etcd_environment(self) -> Option<(String, String)> {
        (self == Clocks::Fast).then(|| ("ETCD_UNSAFE_NO_FSYNC".to_owned(), "true".to_owned()))
    }

    /// The value of [`Kind::clocks_variable`](super::Kind::clocks_variable).
    pub(super) const fn name(self) -> &'static str {
        self.of(["fast", "default"])
    }
}

/// What is asked of a server. The default takes any server, with fast clocks where it is started
/// here.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(super) clocks: Clocks,
    pub(super) own: bool,
    pub(super) args: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) tls: Option<ServerTls>,
}

impl Options {
    /// Any server, fast clocks, no further arguments.
    pub fn new() -> Self {
        Self::default()
    }

    /// With these clocks. [`Clocks::Fast`] is a wish: a server named in the environment has the
    /// clocks it has ([`Server::clocks`](super::Server::clocks)). [`Clocks::Default`] is a demand.
    pub fn clocks(mut self, clocks: Clocks) -> Self {
        self.clocks = clocks;
        self
    }

    /// A program of this process' own, which can be stopped, started again, and be harmed by faults
    /// without disturbing others.
    pub fn own(mut self) -> Self {
        self.own = true;
        self
    }

    /// A program of this process' own that speaks TLS too, at [`Server::tls_addr`](super::Server::tls_addr).
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self.own()
    }

    /// A program of this process' own, with this variable in its environment.
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self.own()
    }

    /// With more arguments: of the command line for Redis and etcd, lines of `zoo.cfg`
    /// (`key=value`) or properties of Java (`-Dkey=value`) for ZooKeeper. A server named in the environment is not used then, since
    /// nobody knows how it was started.
    pub fn args<I: IntoIterator<Item = S>, S: Into<String>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}
