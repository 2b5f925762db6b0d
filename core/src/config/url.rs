use super::check::check_host;
use super::fields::Config;
use super::options::decode;
use super::scheme::{Hosts, Scheme};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// TLS schemes of other programs, and of this library.
const OTHERS_TLS_SCHEMES: [(&str, &str); 4] = [
    ("zookeepers", "zookeeper+tls"),
    ("etcds", "etcd+tls"),
    ("https", "etcd+tls"),
    ("tcp+tls", "zookeeper+tls"),
];

impl Config {
    /// Reads `scheme://[user[:password]@]host[:port][,host…][/path][?option=value&…]`.
    ///
    /// All backends have the options `namespace`, `name`, `ttl`, `connect_timeout`, `request_timeout`,
    /// `label` and `min_replicas`. The schemes with TLS (`rediss://`, `rediss-sentinel://`,
    /// `rediss-cluster://`, `zookeeper+tls://` and `etcd+tls://`) also have `ca`, `cert`, `key` and
    /// `server_name`. A duration is a number with a unit, such as `10s` or `500ms`. All other options belong
    /// to [one backend](super::Options).
    ///
    /// `redis-cluster://h1,h2` names some servers of a Redis Cluster. `redis-sentinel://h1,h2/service` names
    /// Sentinels and their service. Its option `db` is the database, and `sentinel_user` and
    /// `sentinel_password` are the login at the Sentinels.
    ///
    /// `moving:?from=<URL>&to=<URL>&move=<name>` names both coordinators of a move
    /// ([`MoveConfig`](super::MoveConfig)).
    ///
    /// `%XX` is a byte of UTF-8, and all other text is literal. Control characters are refused in both forms.
    ///
    /// # Errors
    /// `InvalidArgument` naming `url`, `user`, `password` or the option. The message never contains the password.
    pub fn from_url(text: &str) -> Result<Self> {
        let bad = |why: &str| Error::invalid("url", why.to_owned());
        if let Some(rest) = text.strip_prefix("moving:") {
            return Self::of_moving(rest);
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| {
            bad("expected scheme://host, for example redis://localhost, zookeeper://a,b,c/chroot, etcd://localhost or memory://")
        })?;
        let scheme = scheme.to_ascii_lowercase();
        // The text may be a login, so it is not quoted.
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
        {
            return Err(bad(
                "the text before :// is not a scheme such as redis, valkey, zookeeper, etcd or memory",
            ));
        }
        if let Some((_, ours)) = OTHERS_TLS_SCHEMES.into_iter().find(|(theirs, _)| *theirs == scheme) {
            return Err(bad(&format!("{scheme}:// is not a known scheme: for TLS, write {ours}://")));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if looks_like_a_broken_login(authority, tail) {
            // The apparent host or option is a part of a password, so it is not quoted.
            return Err(bad(
                "an @ follows the first /, ? or #: in a user or password, write / as %2F, ? as %3F, # as %23 and @ as %40; elsewhere, write @ as %40",
            ));
        }
        if text.ends_with(' ') {
            // The space would be a part of a namespace.
            return Err(bad("ends with a space: delete it, or write %20"));
        }
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        if tail.contains('#') {
            return Err(bad(
                "has a fragment (#…), which has no meaning here: delete it; in a password, write # as %23",
            ));
        }
        let (path, query) = tail.split_once('?').unwrap_or((tail, ""));

        let Scheme { backend, hosts: found, tls } = Scheme::parse(&scheme);
        let watched = found == Hosts::Sentinels;
        let mut config = Config { tls, ..Config::new(backend) };
        if found == Hosts::Cluster {
            config.options.set("cluster", "true");
        }
        for host in hosts.split(',').filter(|_| !hosts.is_empty()) {
            check_host("url", host)?;
            config.hosts.push(host.to_owned());
        }
        let path = decode("url", path.strip_prefix('/').unwrap_or(path))?;
        match watched {
            true if config.hosts.is_empty() => {
                return Err(bad("has no Sentinel: write redis-sentinel://h1,h2/service"));
            }
            true if path.is_empty() => {
                return Err(bad("has no service name: write redis-sentinel://h1,h2/service"));
            }
            true => config.options.set("sentinel_service", path),
            false => config.path = path,
        }
        let (user, password) =
            login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
        if !user.is_empty() {
            config.user = Some(decode("user", user)?);
        }
        if let Some(password) = password {
            config.password = Some(Secret::new(decode("password", password)?));
        }
        config.read_options(query)?;
        config.validate()?;
        Ok(config)
    }
}

impl std::str::FromStr for Config {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        Self::from_url(url)
    }
}

impl TryFrom<&str> for Config {
    type Error = Error;

    fn try_from(url: &str) -> Result<Self> {
        Self::from_url(url)
    }
}

impl TryFrom<String> for Config {
    type Error = Error;

    fn try_from(url: String) -> Result<Self> {
        Self::from_url(&url)
    }
}

impl TryFrom<&String> for Config {
    type Error = Error;

    fn try_from(url: &String) -> Result<Self> {
        Self::from_url(url)
    }
}

#[allow(
    clippy::infallible_try_from,
    reason = "a borrowed configuration goes where a URL goes: connect takes both"
)]
impl TryFrom<&Config> for Config {
    type Error = std::convert::Infallible;

    fn try_from(config: &Config) -> std::result::Result<Self, std::convert::Infallible> {
        Ok(config.clone())
    }
}

/// Returns whether an unescaped `/`, `?` or `#` in a password has cut a login in two: `authority` is
/// `user:pass`, and `tail` contains `word@host`. Free-text options may contain an `@`.
fn looks_like_a_broken_login(authority: &str, tail: &str) -> bool {
    let in_an_option = || {
        let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
        let options =
            tail.split_once('?').filter(|(path, _)| !path.contains('@')).map(|(_, options)| options);
        hosts.split(',').all(|host| check_host("url", host).is_ok())
            && options.is_some_and(|options| {
                options.split('&').filter(|option| option.contains('@')).all(|option| {
                    matches!(option.split_once('='), Some((name, _)) if matches!(name, "label" | "namespace"))
                })
            })
    };
    tail.contains('@') && !in_an_option()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_url_with_everything() {
        let config = Config::from_url(
            "zookeeper://app:p%40ss@a:2181,b,[::1]:2182/chroot/x?ttl=30s&connect_timeout=1s&namespace=n&tick=100ms&label=me",
        )
        .unwrap();
        assert_eq!(config.hosts, ["a:2181", "b", "[::1]:2182"]);
        assert_eq!(config.hosts_with_port(9).unwrap(), ["a:2181", "b:9", "[::1]:2182"]);
        assert_eq!((config.path.as_str(), config.user.as_deref()), ("chroot/x", Some("app")));
        assert_eq!(config.password.as_ref().unwrap().expose(), "p@ss");
        assert_eq!((config.ttl, config.options.get("tick")), (Duration::from_secs(30), Some("100ms")));
        assert_eq!(config.options.names().collect::<Vec<_>>(), ["tick"]);
    }

    #[test]
    fn the_path_of_sentinels_is_their_service() {
        let url = "valkey-sentinel://u:p@a,b:1/cache%20x?db=2&sentinel_user=s&sentinel_password=hunter2";
        let config = Config::from_url(url).unwrap();
        assert_eq!((config.backend.as_str(), config.path.as_str()), ("redis", "2"));
        let options = ["sentinel_service", "sentinel_user", "sentinel_password"];
        let options = options.map(|name| config.options.get(name).unwrap());
        assert_eq!(options, ["cache x", "s", "hunter2"]);
        let json = serde_json::to_string(&config).unwrap();
        assert!(!json.contains("hunter2") && !format!("{config:?}").contains("hunter2"), "{json}");
    }

    #[test]
    fn a_scheme_asks_for_tls() {
        for (url, backend, tls) in [
            ("redis://h", "redis", false),
            ("rediss://h", "redis", true),
            ("REDISS://h", "redis", true),
            ("valkeys://h", "redis", true),
            ("rediss-sentinel://h/service", "redis", true),
            ("valkeys-sentinel://h/service", "redis", true),
            ("redis-sentinel+tls://h/service", "redis", true),
            ("rediss-cluster://h", "redis", true),
            ("valkeys-cluster://h", "redis", true),
            ("zookeeper+tls://h", "zookeeper", true),
            ("etcd+tls://h", "etcd", true),
            ("own+tls://h", "own", true),
        ] {
            let config = Config::from_url(url).unwrap();
            assert_eq!((config.backend.as_str(), config.tls), (backend, tls), "{url}");
        }
        let config =
            Config::from_url("rediss://h?ca=/etc/ca.pem&cert=c%2C.pem&key=k.pem&server_name=cache").unwrap();
        assert_eq!(config.ca.as_deref(), Some("/etc/ca.pem".as_ref()));
        assert_eq!(config.cert.as_deref(), Some("c,.pem".as_ref()));
        assert_eq!(config.key.as_deref(), Some("k.pem".as_ref()));
        assert_eq!(config.server_name.as_deref(), Some("cache"));
    }

    #[test]
    fn bad_url_error_names_the_argument() {
        for (url, argument) in [
            ("redis", "url"),
            ("redis://h?namespace=a+b", "namespace"),
            ("redis://h?ttl=3s&label=a+b", "label"),
            ("://h", "url"),
            (" redis://h", "url"),
            ("redis://h\n", "url"),
            ("redis://h:0", "url"),
            ("redis://h:65536", "url"),
            ("redis://h:", "url"),
            ("redis://::1", "url"),
            ("redis://h%", "url"),
            ("redis://%ff@h", "user"),
            ("redis://u:%ff@h", "password"),
            ("redis://h/%ff", "url"),
            ("zookeepers://h", "url"),
            ("https://h", "url"),
            ("redis://h?ca=a.pem", "ca"),
            ("rediss-sentinel://h", "url"),
            ("redis-sentinel://h/service?ca=a.pem", "ca"),
            ("redis-cluster://h?server_name=a", "server_name"),
            ("etcd://h?server_name=a", "server_name"),
            ("rediss://h?cert=a.pem", "key"),
            ("etcd+tls://h?key=a.pem", "cert"),
            ("rediss://h?ca=a%00b", "ca"),
            ("rediss://h?server_name=a%0ab", "server_name"),
            ("redis://h:port", "url"),
            ("redis://a,,b", "url"),
            ("redis://h?ttl=5s&ttl=60s", "url"),
            ("redis://h?colour=red&colour=blue", "url"),
            ("redis://h?colour=a+b", "url"),
            ("redis://h?colour=a%00b", "url"),
            ("redis://h?label=", "label"),
            ("redis://h?label=a%00b", "label"),
            ("redis://h#x", "url"),
            ("redis://h?ttl=0s", "ttl"),
            ("redis://h?request_timeout=0s", "request_timeout"),
            ("redis://h?ttl=2h", "ttl"),
            ("redis://h?ttl=soon", "ttl"),
            ("redis://h?connect_timeout=0s", "connect_timeout"),
            ("redis://h?request_timeout=0s", "request_timeout"),
            ("redis://h?namespace=", "namespace"),
            ("redis://h?request_timeout=-1s", "request_timeout"),
            ("redis://h?ttl", "ttl"),
            ("redis://h?ttl=999ms", "ttl"),
            ("redis://h?ttl=99999999999999999999s", "ttl"),
            ("redis://h?min_replicas=-1", "min_replicas"),
            ("redis://h?min_replicas=two", "min_replicas"),
            ("redis-sentinel://a,b", "url"),
            ("redis-sentinel:///service", "url"),
            ("redis://h?db=2", "url"),
        ] {
            assert_eq!(Config::from_url(url).unwrap_err().argument(), Some(argument), "{url}");
        }
        assert!(Config::from_url("redis://u:hunter2@h:x").unwrap_err().to_string().find("hunter2").is_none());
    }

    #[test]
    fn a_password_that_breaks_the_url_is_not_shown_either() {
        for password in [
            "hun/ter2",
            "hun?ter2",
            "hun#ter2",
            "42/ter2",
            "42?ter2",
            "42#ter2",
            "42?ttl=ter2",
            "42/a?ttl=ter2",
        ] {
            for user in ["u", ""] {
                let url = format!("redis://{user}:{password}@h:6379/0");
                let error = Config::from_url(&url).expect_err("not what was meant");
                let shown = format!("{error} {error:?}");
                assert!(!["hun", "ter2", "42"].iter().any(|part| shown.contains(part)), "{url}: {shown}");
                assert!(error.to_string().contains("%2F"), "{error}");
            }
        }
        // An @ in the password, no host, or the login before the scheme.
        for url in [
            "redis://u:p@hun?ter2@h",
            "redis://u:p@hun/ter2@h",
            "redis://u:p@hun#ter2@h",
            "redis://hun:ter2",
            "redis://hun:a:ter2",
            "u:hunter2@redis://h",
        ] {
            let shown = format!("{:?}", Config::from_url(url).expect_err("not what was meant"));
            assert!(!shown.contains("ter2"), "{url}: {shown}");
        }
        let mut config = Config::new("redis");
        for host in ["u:hunter2@h", "u:hunter2", "u:hun:ter2"] {
            config.hosts = vec![host.to_owned()];
            assert!(!config.validate().unwrap_err().to_string().contains("ter2"));
        }
        let config = Config::from_url("redis://h:6379/0?label=me@here").unwrap();
        assert_eq!((config.hosts[0].as_str(), config.label.as_deref()), ("h:6379", Some("me@here")));
    }
}
