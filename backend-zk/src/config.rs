//! What this backend reads from a configuration.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::contracts::LinkLog;
use latchwork_core::decide::{contact_period, margin};
use latchwork_core::{Address, Clock, Config, Error, ErrorKind, Result, encode};

/// ZooKeeper's client port.
const PORT: u16 = 2181;

/// What a server that is up may be silent for.
const A_PAUSE: Duration = Duration::from_secs(1);

/// A client's settings, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) clock: Clock,
    pub(crate) hosts: Vec<String>,
    /// What the log says of the connection.
    pub(crate) link: Arc<LinkLog>,
    /// `/a/b`, or `None` for the root.
    pub(crate) chroot: Option<String>,
    /// Coded.
    pub(crate) namespace: String,
    /// `user:password`, as the digest scheme takes it. Kept out of `Debug`.
    pub(crate) login: Option<Login>,
    pub(crate) label: Arc<str>,
    pub(crate) ttl: Duration,
    pub(crate) tick: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    /// A control for tests: an answered read counts as a proof of contact, which it is not.
    #[cfg(feature = "controls")]
    pub(crate) believes_reads: bool,
}

/// Credentials of the digest scheme.
pub(crate) struct Login(pub(crate) String);

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Settings {
    pub(crate) fn read(config: &Config) -> Result<Self> {
        config.validate()?;
        let hosts = config.hosts_with_port(PORT)?;
        let chroot = match config.path.trim_end_matches('/') {
            "" => None,
            path => {
                let path = format!("/{path}");
                check_path("url", &path)?;
                Some(path)
            }
        };
        let namespace = encode(&config.namespace);
        if chroot.is_none() && namespace == SERVERS_OWN {
            return Err(Error::invalid(
                "namespace",
                "/zookeeper is the server's own: choose another name, or a chroot",
            ));
        }
        let login = match (&config.user, &config.password) {
            (Some(user), Some(password)) if !user.contains(':') => {
                Some(Login(format!("{user}:{}", password.expose())))
            }
            (None, None) => None,
            _ => {
                return Err(Error::invalid(
                    "user",
                    "digest login needs a user without a colon, and a password",
                ));
            }
        };
        Ok(Self {
            clock: Clock::system(),
            link: Arc::new(LinkLog::new(hosts.join(","))),
            hosts,
            chroot,
            namespace,
            login,
            // Core gives every client that it opens one.
            label: config.label.as_deref().unwrap_or_default().into(),
            ttl: config.ttl,
            tick: config.tick,
            connect_timeout: config.connect_timeout,
            request_timeout: config.request_timeout,
            #[cfg(feature = "controls")]
            believes_reads: false,
        })
    }

    /// How often a session that was granted for `ttl` is proven.
    ///
    /// # Errors
    /// `Misconfigured` where that is not longer than it takes a follower to tell its leader of us: such proofs would prove
    /// nothing (RULES C4).
    pub(crate) fn contact_period(&self, ttl: Duration) -> Result<Duration> {
        let period = contact_period(ttl, self.tick);
        if period > self.tick / 2 {
            return Ok(period);
        }
        Err(Error::new(
            ErrorKind::Misconfigured,
            format!(
                "a session of {ttl:?} is too short for a tickTime of {:?}: raise ttl above one and a half of it, or set tick to the server's",
                self.tick
            ),
        ))
    }

    /// After how long a silence the client crate turns to another host, if there is one, and how long it tries one: the same to
    /// it. It tries them in any order, those too that were silent a moment ago. So, while a majority serves, one in use that falls
    /// silent and all others that are down come before one that answers: they are to cost no hold, however old its last
    /// proof, and no connect. As long again is left for the work itself. (Where the TTL is below some four ticks there is no
    /// such time, and a hold may be lost with its host: a server that is up is not to be left for every pause.)
    pub(crate) fn host_timeout(&self) -> Duration {
        let most = self.ttl * 2 / 5;
        if self.hosts.len() == 1 {
            return most;
        }
        let parts = u32::try_from(self.hosts.len() / 2 + 2).unwrap_or(u32::MAX);
        let left = self.ttl.saturating_sub(margin(self.ttl) + contact_period(self.ttl, self.tick) * 2);
        (left.min(self.connect_timeout) / parts).max(A_PAUSE).min(most)
    }

    /// The path of a queue's directory.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key` for an exact address that is no path.
    pub(crate) fn queue_path(address: &Address) -> Result<String> {
        match address.namespace() {
            Some(namespace) => Ok(format!("/{namespace}/{}/{}", address.kind().as_str(), address.coded())),
            None => {
                check_path("key", address.coded())?;
                if address.coded().split('/').any(|segment| segment.ends_with(EXACT_LIMIT)) {
                    let why =
                        format!("a name that ends with {EXACT_LIMIT} is that of a semaphore's stored limit");
                    return Err(Error::invalid("key", why));
                }
                Ok(address.coded().to_owned())
            }
        }
    }

    /// The path by which the release of a mutex's node of this name is told.
    pub(crate) fn released_path(&self, name: &str) -> String {
        format!("/{}/{RELEASED}/{name}", self.namespace)
    }

    /// The path of the plain node that stores a semaphore's limit: outside the queue's directory, which is a
    /// container and goes when it is empty.
    pub(crate) fn limit_path(address: &Address) -> String {
        match address.namespace() {
            Some(namespace) => format!("/{namespace}/{LIMITS}/{}", address.coded()),
            // Beside the directory, whatever the chroot of a client is; in it, Curator's semaphores would count it.
            None => format!("{}{EXACT_LIMIT}", address.coded()),
        }
    }
}

/// What a stored limit's name ends with, beside the queue at an exact address.
const EXACT_LIMIT: &str = ":latchwork-limit";
/// The directory of stored limits.
pub(crate) const LIMITS: &str = "limits";
/// The directory in which releases are told: empty.
pub(crate) const RELEASED: &str = "released";
/// The directory of clients.
pub(crate) const CLIENTS: &str = "client";

/// The directory at the root in which a server keeps what is its own: quotas, its configuration.
const SERVERS_OWN: &str = "zookeeper";

/// Checks what ZooKeeper asks of a path.
fn check_path(argument: &'static str, path: &str) -> Result<()> {
    let refuse = |why: &str| Err(Error::invalid(argument, format!("{path:?} is no ZooKeeper path: {why}")));
    let Some(rest) = path.strip_prefix('/') else {
        return refuse("it must begin with /");
    };
    if rest.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return refuse("it has an empty, . or .. segment");
    }
    if rest.split('/').next() == Some(SERVERS_OWN) {
        return refuse("/zookeeper is the server's own");
    }
    // A server looks at UTF-16, and refuses the half of a pair.
    let refused = |c: char| c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..);
    if path.chars().any(refused) {
        return refuse("it has a control character, or one for private use or beyond U+FFEF");
    }
    Ok(())
}

/// A server that grants less than was asked: the granted value could not be trusted to be what the user meant.
pub(crate) fn ttl_refused(asked: Duration, granted: Duration) -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        format!(
            "the server grants sessions of at most {granted:?} (maxSessionTimeout), asked for a TTL of {asked:?}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use latchwork_core::Kind;

    use super::*;

    fn settings(url: &str) -> Result<Settings> {
        Settings::read(&Config::from_url(url)?)
    }

    #[test]
    fn a_url_becomes_settings() {
        let settings = settings("zookeeper://app:pw@a:2182,b,[::1]/x/y/?namespace=my ns").unwrap();
        assert_eq!(settings.hosts, ["a:2182", "b:2181", "[::1]:2181"]);
        assert_eq!(settings.chroot.as_deref(), Some("/x/y"));
        assert_eq!(settings.login.as_ref().unwrap().0, "app:pw");
        assert!(!format!("{settings:?}").contains("pw"));
        let address = Address::new("my ns", Kind::Mutex, "a/b").unwrap();
        assert_eq!(Settings::queue_path(&address).unwrap(), "/my%20ns/mutex/a%2Fb");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, argument) in [
            ("zookeeper://", "url"),
            ("zookeeper://h:0", "url"),
            ("zookeeper://h/a//b", "url"),
            ("zookeeper://h/zookeeper/x", "url"),
            ("zookeeper://h/\u{1f512}", "url"),
            ("zookeeper://h/\u{e000}", "url"),
            ("zookeeper://h/a/../b", "url"),
            ("zookeeper://h/a/%2e%2e/b", "url"),
            ("zookeeper://h/..", "url"),
            ("zookeeper://h/./a", "url"),
            ("zookeeper://h?namespace=zookeeper", "namespace"),
            ("zookeeper://h/?namespace=zookeepe%72", "namespace"),
            ("zookeeper://app@h", "user"),
        ] {
            assert_eq!(settings(url).unwrap_err().argument(), Some(argument), "{url}");
        }
        // Below a chroot it is a name like any other.
        assert!(settings("zookeeper://h/a?namespace=zookeeper").is_ok());
    }

    #[test]
    fn what_a_table_says_is_checked_as_what_a_url_says() {
        let table = |path: &str, namespace: &str| {
            let mut config: Config = "zookeeper://h".parse().unwrap();
            (config.path, config.namespace) = (path.to_owned(), namespace.to_owned());
            Settings::read(&config).map(drop).map_err(|error| error.argument())
        };
        for path in ["a/../b", "..", "./a", "a/.", "a//b", "/a", "zookeeper/x"] {
            assert_eq!(table(path, "n"), Err(Some("url")), "{path:?}");
        }
        assert_eq!(table("", "zookeeper"), Err(Some("namespace")));
        assert_eq!(table("/", "zookeeper"), Err(Some("namespace")));
        assert_eq!((table("a/b", "zookeeper"), table("", "n")), (Ok(()), Ok(())));
    }

    #[test]
    fn a_session_is_long_enough_for_its_proofs_or_refused() {
        let period = |url, ttl| settings(url).unwrap().contact_period(Duration::from_millis(ttl));
        assert_eq!(period("zookeeper://h", 4000).unwrap(), Duration::from_millis(4000) / 3);
        // As a server may be configured to grant: a follower tells its leader of us once a second only.
        for ttl in [1000, 3000] {
            let refused = period("zookeeper://h", ttl).unwrap_err();
            assert_eq!(*refused.kind(), ErrorKind::Misconfigured, "{ttl}");
        }
        assert!(period("zookeeper://h?tick=500ms", 1000).is_ok());
    }

    #[test]
    fn silent_hosts_leave_time_for_one_that_answers() {
        for (url, millis) in [
            // Nobody to turn to: the crate's own choice.
            ("zookeeper://a", 4000),
            // Two of them, and as long again, in the five seconds between a proof that is due and the deadline.
            ("zookeeper://a,b,c", 1666),
            ("zookeeper://a,b,c,d,e", 1250),
            // And in the time for connecting.
            ("zookeeper://a,b,c?ttl=30s", 1666),
            ("zookeeper://a,b,c?ttl=30s&connect_timeout=12s", 4000),
            ("zookeeper://a,b,c?ttl=4s", 1000),
            ("zookeeper://a,b,c?ttl=1s&tick=100ms", 400),
        ] {
            assert_eq!(settings(url).unwrap().host_timeout().as_millis(), millis, "{url}");
        }
    }

    #[test]
    fn an_exact_address_is_a_path() {
        let exact =
            |path: &str| Settings::queue_path(&Address::new("n", Kind::Mutex, Address::exact(path)).unwrap());
        assert_eq!(exact("/app/locks/a").unwrap(), "/app/locks/a");
        assert_eq!(exact("/a-limit").unwrap(), "/a-limit");
        for bad in ["/a:latchwork-limit", "/a:latchwork-limit/b"] {
            assert_eq!(exact(bad).unwrap_err().argument(), Some("key"), "{bad:?}");
        }
        for bad in ["app", "/", "/a/", "/a//b", "/a/../b", "/zookeeper/quota", "/a\u{7}"] {
            assert_eq!(exact(bad).unwrap_err().argument(), Some("key"), "{bad:?}");
        }
    }
}
