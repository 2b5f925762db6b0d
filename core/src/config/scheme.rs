use std::fmt;

use super::fields::Config;

/// The role of the hosts in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// The servers with the locks.
    Servers,
    /// Sentinels, which name the master.
    Sentinels,
    /// Some servers of a Redis Cluster, which know all servers.
    Cluster,
}

const OF_REDIS: [(Hosts, &str); 3] =
    [(Hosts::Sentinels, "-sentinel"), (Hosts::Cluster, "-cluster"), (Hosts::Servers, "")];

/// The parts of a URL's scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme<'a> {
    /// The backend's name.
    pub backend: &'a str,
    /// The role of the hosts.
    pub hosts: Hosts,
    /// Whether the client speaks TLS.
    pub tls: bool,
}

impl<'a> Scheme<'a> {
    /// An unknown scheme is the name of a backend.
    pub(super) fn parse(text: &'a str) -> Self {
        let (plain, tls) = text.strip_suffix("+tls").map_or((text, false), |plain| (plain, true));
        let of_redis = OF_REDIS.into_iter().find_map(|(hosts, end)| {
            let tls = match plain.strip_suffix(end)? {
                "redis" | "valkey" => tls,
                "rediss" | "valkeys" if !tls => true,
                _ => return None,
            };
            Some(Scheme { backend: "redis", hosts, tls })
        });
        of_redis.unwrap_or(Scheme { backend: plain, hosts: Hosts::Servers, tls })
    }

    pub(crate) fn of(config: &'a Config) -> Self {
        let hosts = match (config.options.get("sentinel_service"), config.options.get("cluster")) {
            (Some(_), _) => Hosts::Sentinels,
            (None, Some("true")) => Hosts::Cluster,
            (None, _) => Hosts::Servers,
        };
        Scheme { backend: &config.backend, hosts, tls: config.tls }
    }

    /// Returns the same scheme with TLS.
    #[must_use]
    pub fn with_tls(self) -> Self {
        Self { tls: true, ..self }
    }
}

/// Writes the scheme as in a URL, without `://`.
impl fmt::Display for Scheme<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = OF_REDIS.into_iter().find(|(hosts, _)| *hosts == self.hosts).map_or("", |(_, end)| end);
        match (self.backend, self.tls) {
            ("redis", true) => write!(f, "rediss{end}"),
            (backend, true) => write!(f, "{backend}{end}+tls"),
            (backend, false) => write!(f, "{backend}{end}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_read_back_as_it_is_shown() {
        for backend in ["redis", "zookeeper", "etcd", "memory", "of-others"] {
            for (hosts, _) in OF_REDIS {
                for tls in [false, true] {
                    let scheme = Scheme { backend, hosts, tls };
                    let shown = scheme.to_string();
                    match (backend, hosts) {
                        ("redis", _) | (_, Hosts::Servers) => {
                            assert_eq!(Scheme::parse(&shown), scheme, "{shown}")
                        }
                        _ => assert_eq!(Scheme::parse(&shown).hosts, Hosts::Servers, "{shown}"),
                    }
                }
            }
        }
    }

    #[test]
    fn each_way_to_write_a_scheme_says_the_same() {
        let redis = |hosts, tls| Scheme { backend: "redis", hosts, tls };
        for (text, scheme) in [
            ("valkey", redis(Hosts::Servers, false)),
            ("valkeys", redis(Hosts::Servers, true)),
            ("redis+tls", redis(Hosts::Servers, true)),
            ("valkeys-sentinel", redis(Hosts::Sentinels, true)),
            ("redis-sentinel+tls", redis(Hosts::Sentinels, true)),
            ("rediss-cluster", redis(Hosts::Cluster, true)),
            // TLS is requested only once.
            ("rediss+tls", Scheme { backend: "rediss", hosts: Hosts::Servers, tls: true }),
            ("my-cluster", Scheme { backend: "my-cluster", hosts: Hosts::Servers, tls: false }),
        ] {
            assert_eq!(Scheme::parse(text), scheme, "{text}");
        }
    }
}
