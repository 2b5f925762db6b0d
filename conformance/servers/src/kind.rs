//! The kinds of server, and the names that belong to each.

use std::fmt;
use std::str::FromStr;

/// A kind of coordination server.
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
    /// Every kind.
    pub const ALL: [Kind; 3] = [Kind::Redis, Kind::Zookeeper, Kind::Etcd];

    /// What belongs to this kind, out of what belongs to Redis, ZooKeeper and etcd.
    const fn of<T: Copy>(self, [redis, zookeeper, etcd]: [T; 3]) -> T {
        match self {
            Kind::Redis => redis,
            Kind::Zookeeper => zookeeper,
            Kind::Etcd => etcd,
        }
    }

    /// The name in lower case, which is also the scheme of its URLs.
    pub const fn name(self) -> &'static str {
        self.of(["redis", "zookeeper", "etcd"])
    }

    /// The environment variable that names a server to use.
    pub const fn url_variable(self) -> &'static str {
        self.of(["LATCHWORK_REDIS_URL", "LATCHWORK_ZOOKEEPER_URL", "LATCHWORK_ETCD_URL"])
    }

    /// The environment variable that says which clocks the server of
    /// [`url_variable`](Kind::url_variable) has: `fast`, or anything else (or nothing) for default
    /// ones.
    pub const fn clocks_variable(self) -> &'static str {
        self.of(["LATCHWORK_REDIS_CLOCKS", "LATCHWORK_ZOOKEEPER_CLOCKS", "LATCHWORK_ETCD_CLOCKS"])
    }

    /// The environment variable that names another container image.
    pub const fn image_variable(self) -> &'static str {
        self.of(["LATCHWORK_REDIS_IMAGE", "LATCHWORK_ZOOKEEPER_IMAGE", "LATCHWORK_ETCD_IMAGE"])
    }

    /// The container image that is used unless another is named.
    pub const fn default_image(self) -> &'static str {
        self.of(["redis:7", "zookeeper:3.8", "quay.io/coreos/etcd:v3.4.23"])
    }

    /// The port its clients use by default.
    pub const fn default_port(self) -> u16 {
        self.of([6379, 2181, 2379])
    }

    /// The Debian and Ubuntu packages that hold it.
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
            .ok_or_else(|| format!("no kind of server {name:?}: expected redis, zookeeper or etcd"))
    }
}
