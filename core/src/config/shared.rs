//! Where a namespace is, as everybody may know it.

use super::{Config, tls_scheme};
use crate::address::encode;

impl Config {
    /// The URL of this namespace for those who read it on a server: where it is, and nothing of a login,
    /// of files or of one client's settings.
    pub(crate) fn shared_url(&self) -> String {
        let backend = match (&self.sentinel_service, self.cluster) {
            (Some(_), _) => format!("{}-sentinel", self.backend),
            (None, true) => format!("{}-cluster", self.backend),
            (None, false) => self.backend.clone(),
        };
        let scheme = if self.tls { tls_scheme(&backend) } else { backend };
        // Behind Sentinels the path is the service, and the database an option.
        let (path, db) = match &self.sentinel_service {
            Some(service) => (service, Some(&self.path).filter(|db| !db.is_empty())),
            None => (&self.path, None),
        };
        let path: Vec<_> = path.split('/').map(encode).collect();
        let path = if path == [""] { String::new() } else { format!("/{}", path.join("/")) };
        let namespace = Some(&self.namespace).filter(|namespace| **namespace != Self::new("").namespace);
        let options = [("namespace", namespace), ("db", db)].into_iter();
        let options: Vec<_> = options
            .filter_map(|(name, value)| value.map(|value| format!("{name}={}", encode(value))))
            .collect();
        let query = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
        format!("{scheme}://{}{path}{query}", self.hosts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_the_place_and_nothing_else() {
        for (url, shared) in [
            (
                "redis://app:hunter2@cache:6380/2?ttl=5s&namespace=a%2Fb&label=me",
                "redis://cache:6380/2?namespace=a%2Fb",
            ),
            ("zookeeper://a:1,b,[::1]:3/chroot/x y?tick=100ms", "zookeeper://a:1,b,[::1]:3/chroot/x%20y"),
            ("etcd+tls://h?ca=%2Fa.pem", "etcd+tls://h"),
            ("rediss://h", "rediss://h"),
            ("redis-cluster://app:hunter2@a:1,b:2", "redis-cluster://a:1,b:2"),
            (
                "redis-sentinel://app:hunter2@a,b/the%20cache?db=3&sentinel_user=w&sentinel_password=hunter2",
                "redis-sentinel://a,b/the%20cache?db=3",
            ),
            ("memory://", "memory://"),
            ("memory://one", "memory://one"),
        ] {
            let config = Config::from_url(url).expect("a good URL");
            assert_eq!(config.shared_url(), shared);
            let again = Config::from_url(shared).expect("it is a URL");
            assert_eq!(again.shared_url(), shared);
            assert_eq!(
                (&again.hosts, &again.path, &again.namespace),
                (&config.hosts, &config.path, &config.namespace)
            );
        }
    }
}
