use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::decide::{contact_period, margin};
use latchwork_core::backend::{LinkLog, Transport};
use latchwork_core::{Clock, Config, Error, ErrorKind, Logins, Result, Secret, encode};

use crate::layout::{SERVERS_OWN, check_path};

pub(crate) const NAME: &str = "zookeeper";

const PORT: u16 = 2181;

/// A silence that is normal for a healthy server.
const A_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) clock: Clock,
    pub(crate) hosts: Vec<String>,
    pub(crate) transport: Transport,
    pub(crate) link: Arc<LinkLog>,
    /// `/a/b`, or `None` for the root.
    pub(crate) chroot: Option<String>,
    pub(crate) namespace: String,
    pub(crate) logins: Logins,
    pub(crate) sasl: bool,
    pub(crate) label: Arc<str>,
    pub(crate) ttl: Duration,
    pub(crate) tick: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    /// False in tests of the plain protocol.
    pub(crate) fast_path: bool,
    /// A negative control for tests: an answered read counts as a proof of contact.
    #[cfg(feature = "controls")]
    pub(crate) believes_reads: bool,
}

pub(crate) const OPTIONS: [&str; 2] = ["tick", "sasl"];

const TICK: Duration = Duration::from_secs(2);

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
                "/zookeeper belongs to the server: choose another namespace, or a chroot",
            ));
        }
        let sasl = config.options.flag("sasl")?;
        let tick = config.options.duration("tick")?.unwrap_or(TICK);
        if tick.is_zero() {
            return Err(Error::invalid("tick", "must not be zero"));
        }
        match (&config.user, &config.password) {
            (Some(user), Some(_)) if sasl || !user.contains(':') => {}
            (None, None) => {}
            _ => {
                return Err(Error::invalid(
                    "user",
                    "a login needs a user and a password; without SASL, the user must not contain a colon",
                ));
            }
        }
        check_sasl(config)?;
        Ok(Self {
            clock: Clock::system(),
            link: Arc::new(LinkLog::new(NAME, hosts.join(","))),
            hosts,
            transport: Transport::of(config, None)?,
            chroot,
            namespace,
            logins: Logins::of(config),
            sasl,
            label: config.label.as_deref().unwrap_or_default().into(),
            ttl: config.ttl,
            tick,
            connect_timeout: config.connect_timeout,
            request_timeout: config.request_timeout,
            fast_path: true,
            #[cfg(feature = "controls")]
            believes_reads: false,
        })
    }

    /// # Errors
    /// `InvalidArgument` naming `credentials`, and the errors of a provider.
    pub(crate) async fn login(&self) -> Result<Option<(String, Secret)>> {
        let Some(login) = self.logins.now(self.request_timeout).await? else { return Ok(None) };
        match login.user {
            Some(user) if self.sasl => {
                check_sasl_user("credentials", &user)?;
                Ok(Some((user, login.password)))
            }
            Some(user) if !user.contains(':') => Ok(Some((user, login.password))),
            _ => Err(Error::invalid(
                "credentials",
                "a login needs a user; without SASL, the user must not contain a colon",
            )),
        }
    }

    /// The time between two proofs of a session that was granted for `ttl`.
    ///
    /// # Errors
    /// `Misconfigured` if a follower takes longer to report a contact to its leader
    /// (LEASE-PROOF-BY-EARLIER-WRITE).
    pub(crate) fn contact_period(&self, ttl: Duration) -> Result<Duration> {
        let period = contact_period(ttl, self.tick);
        if period > self.tick / 2 {
            return Ok(period);
        }
        Err(Error::new(
            ErrorKind::Misconfigured,
            format!(
                "a session of {ttl:?} is too short for a tickTime of {:?}: raise ttl above 1.5 times tickTime, or set tick to the server's tickTime",
                self.tick
            ),
        ))
    }

    /// How long the client crate waits for a silent host, and for a new connection: it has one setting for
    /// both.
    ///
    /// The crate tries hosts in any order, even hosts that were just silent. While a majority serves, hosts
    /// that are down must cost no hold and no connect. So they share the time between a due proof and the
    /// deadline, with one share left for the work itself. Below a TTL of about four ticks this time is too
    /// short, and a hold may be lost with its host.
    pub(crate) fn host_timeout(&self) -> Duration {
        let most = self.ttl * 2 / 5;
        if self.hosts.len() == 1 {
            return most;
        }
        let parts = u32::try_from(self.hosts.len() / 2 + 2).unwrap_or(u32::MAX);
        let left = self.ttl.saturating_sub(margin(self.ttl) + contact_period(self.ttl, self.tick) * 2);
        (left.min(self.connect_timeout) / parts).max(A_PAUSE).min(most)
    }
}

pub(crate) fn check_sasl_is_built(config: &Config, built: bool) -> Result<()> {
    if config.options.flag("sasl")? && !built {
        let why = "needs the feature `sasl` of the crate latchwork, or of this backend's own crate";
        return Err(Error::invalid("sasl", why));
    }
    Ok(())
}

fn check_sasl(config: &Config) -> Result<()> {
    check_sasl_is_built(config, cfg!(feature = "sasl"))?;
    if !config.options.flag("sasl")? {
        return Ok(());
    }
    if !Logins::of(config).are_given() {
        let why = "needs a login: write zookeeper://user:password@host?sasl=true, or set a provider";
        return Err(Error::invalid("sasl", why));
    }
    config.user.as_deref().map_or(Ok(()), |user| check_sasl_user("user", user))
}

/// Sent between quotation marks without escapes; a server takes the text after a `/` or `@` for an instance
/// and a realm.
fn check_sasl_user(argument: &'static str, user: &str) -> Result<()> {
    match user.contains(['"', '\\', '/', '@']) {
        true => Err(Error::invalid(argument, "a SASL user must not contain a quotation mark, \\, / or @")),
        false => Ok(()),
    }
}

pub(crate) fn ttl_refused(asked: Duration, granted: Duration) -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        format!(
            "the server grants sessions of at most {granted:?} (maxSessionTimeout), but the TTL is {asked:?}: lower ttl, or raise maxSessionTimeout"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Result<Settings> {
        Settings::read(&Config::from_url(url)?)
    }

    #[test]
    fn a_url_becomes_settings() {
        let settings = settings("zookeeper://app:pw@a:2182,b,[::1]/x/y/?namespace=my ns").unwrap();
        assert_eq!(settings.hosts, ["a:2182", "b:2181", "[::1]:2181"]);
        assert_eq!(settings.chroot.as_deref(), Some("/x/y"));
        assert!(settings.logins.are_given());
        assert!(!format!("{settings:?}").contains("pw"));
        assert_eq!(settings.namespace, "my%20ns");
    }

    #[test]
    fn a_refused_setting_is_named() {
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
            ("zookeeper://h?sasl=true", "sasl"),
            ("zookeeper://u:p@h?sasl=1", "sasl"),
            ("zookeeper://h?tick=0s", "tick"),
            ("zookeeper://h?tick=soon", "tick"),
            #[cfg(feature = "sasl")]
            ("zookeeper://app@h?sasl=true", "user"),
            #[cfg(feature = "sasl")]
            ("zookeeper://a%22b:pw@h?sasl=true", "user"),
            #[cfg(not(feature = "sasl"))]
            ("zookeeper://app:pw@h?sasl=true", "sasl"),
        ] {
            assert_eq!(settings(url).unwrap_err().argument(), Some(argument), "{url}");
        }
        assert!(settings("zookeeper://h/a?namespace=zookeeper").is_ok());
    }

    #[test]
    fn a_table_is_checked_as_a_url_is() {
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
        // A server may be configured to grant these, but a follower reports to its leader once a second.
        for ttl in [1000, 3000] {
            let refused = period("zookeeper://h", ttl).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{ttl}");
        }
        assert!(period("zookeeper://h?tick=500ms", 1000).is_ok());
    }

    #[test]
    fn silent_hosts_leave_time_for_one_that_answers() {
        for (url, millis) in [
            ("zookeeper://a", 4000),
            // Two silent hosts and one share for the work, in five seconds.
            ("zookeeper://a,b,c", 1666),
            ("zookeeper://a,b,c,d,e", 1250),
            // Bounded by the time for connecting.
            ("zookeeper://a,b,c?ttl=30s", 1666),
            ("zookeeper://a,b,c?ttl=30s&connect_timeout=12s", 4000),
            ("zookeeper://a,b,c?ttl=4s", 1000),
            ("zookeeper://a,b,c?ttl=1s&tick=100ms", 400),
        ] {
            assert_eq!(settings(url).unwrap().host_timeout().as_millis(), millis, "{url}");
        }
    }
}
