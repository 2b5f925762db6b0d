use std::fmt;
use std::str::FromStr;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Redis or Valkey.
    Redis,
    /// ZooKeeper.
    Zookeeper,
    /// etcd.
    Etcd,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Redis, Kind::Zookeeper, Kind::Etcd];

    const fn of<T: Copy>(self, [redis, zookeeper, etcd]: [T; 3]) -> T {
        match self {
            Kind::Redis => redis,
            Kind::Zookeeper => zookeeper,
            Kind::Etcd => etcd,
        }
    }

    /// Returns the name, which is also the scheme of URLs.
    pub const fn name(self) -> &'static str {
        self.of(["redis", "zookeeper", "etcd"])
    }

    /// Returns the environment variable with the URL of a server.
    pub const fn url_variable(self) -> &'static str {
        self.of(["LATCHWORK_REDIS_URL", "LATCHWORK_ZOOKEEPER_URL", "LATCHWORK_ETCD_URL"])
    }

    /// Returns the environment variable with that server's clocks: `fast`, or the defaults.
    pub const fn clocks_variable(self) -> &'static str {
        self.of(["LATCHWORK_REDIS_CLOCKS", "LATCHWORK_ZOOKEEPER_CLOCKS", "LATCHWORK_ETCD_CLOCKS"])
    }

    /// Returns the environment variable with another image.
    pub const fn image_variable(self) -> &'static str {
        self.of(["LATCHWORK_REDIS_IMAGE", "LATCHWORK_ZOOKEEPER_IMAGE", "LATCHWORK_ETCD_IMAGE"])
    }

    /// Returns the container image.
    pub const fn default_image(self) -> &'static str {
        self.of(["redis:7", "zookeeper:3.8", "quay.io/coreos/etcd:v3.4.23"])
    }

    /// Returns the clients' port.
    pub const fn default_port(self) -> u16 {
        self.of([6379, 2181, 2379])
    }

    /// Returns the Debian packages.
    pub const fn packages(self) -> &'static str {
        self.of(["redis-server", "libzookeeper-java default-jre-headless", "etcd-server"])
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let wanted = name.trim().to_ascii_lowercase();
        Kind::ALL
            .into_iter()
            .find(|kind| kind.name() == wanted)
            .ok_or_else(|| format!("unknown kind of server {name:?}: expected redis, zookeeper or etcd"))
    }
}
