use super::fields::Config;

impl Config {
    /// Returns a URL without login, files and settings of a client, because others read it on a server.
    pub(crate) fn shared_url(&self) -> String {
        let place = Self {
            hosts: self.hosts.clone(),
            path: self.path.clone(),
            tls: self.tls,
            namespace: self.namespace.clone(),
            options: self.options.of_place(),
            ..Self::new(&*self.backend)
        };
        place.url_without_secrets()
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
