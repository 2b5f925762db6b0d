use std::time::Duration;

use crate::tls::ServerTls;

/// The speed of a server's own timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clocks {
    /// ZooKeeper has a tick of 100 ms and grants sessions of 200 ms to 60 s. etcd has a heartbeat of 20 ms,
    /// elects after 200 ms, and does not wait for its disk.
    #[default]
    Fast,
    /// The servers' defaults: ZooKeeper has a tick of 2 s and grants 4 s to 40 s. etcd has a heartbeat of 100 ms and elects after
    /// 1 s.
    Default,
}

impl Clocks {
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

    /// The election timeout limits etcd's shortest lease.
    pub(super) fn etcd_args(self) -> [String; 2] {
        let (heartbeat, election) = self.of([(20, 200), (100, 1_000)]);
        [format!("--heartbeat-interval={heartbeat}"), format!("--election-timeout={election}")]
    }

    /// Each write of etcd waits for its disk, and a busy disk may take seconds. Not an argument: releases
    /// before 3.4.10 refuse unknown arguments.
    pub(super) fn etcd_environment(self) -> Option<(String, String)> {
        (self == Clocks::Fast).then(|| ("ETCD_UNSAFE_NO_FSYNC".to_owned(), "true".to_owned()))
    }

    pub(super) const fn name(self) -> &'static str {
        self.of(["fast", "default"])
    }
}

/// The options of a server. The default accepts any server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(super) clocks: Clocks,
    pub(super) own: bool,
    pub(super) args: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) tls: Option<ServerTls>,
}

impl Options {
    /// Creates the default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the clocks. [`Clocks::Fast`] is a wish, [`Clocks::Default`] a requirement.
    pub fn clocks(mut self, clocks: Clocks) -> Self {
        self.clocks = clocks;
        self
    }

    /// Requires a separate program, so that its faults affect no other test.
    pub fn own(mut self) -> Self {
        self.own = true;
        self
    }

    /// Requires a separate program that also speaks TLS.
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self.own()
    }

    /// Requires a separate program with this environment variable.
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self.own()
    }

    /// Adds arguments: of the command line for Redis and etcd; lines of `zoo.cfg` (`key=value`) or properties
    /// of Java (`-Dkey=value`) for ZooKeeper. They exclude a server of the environment, whose arguments are
    /// unknown.
    pub fn args<I: IntoIterator<Item = S>, S: Into<String>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}
