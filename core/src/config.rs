//! How to reach a coordinator: all that a URL says, as fields.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use url::Url;

use crate::decide::check_ttl;
use crate::error::{Error, Result};

/// A password: never shown in `Debug`, errors, spans or JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` out of sight.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text: for the client crate that logs in with it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        // Serde's own error would quote what it found: a password of digits that nobody put in quotes.
        let text = String::deserialize(deserializer);
        text.map(Self).map_err(|_| serde::de::Error::custom("the password must be a string"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How to reach a coordinator, and on what terms. Parsed from a URL ([`Config::from_url`], [`str::parse`]), or read from a
/// file by serde, where it is a table of these fields. (To keep the URL in a file, read a string, and parse that.)
///
/// ```
/// use latchwork_core::Config;
/// let config: Config = "redis://app@cache:6380/2?ttl=5s&namespace=billing".parse()?;
/// assert_eq!(config.hosts, ["cache:6380"]);
/// assert_eq!(config.ttl.as_secs(), 5);
/// # Ok::<(), latchwork_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// `memory`, `redis`, `zookeeper` or `etcd`.
    pub backend: String,
    /// `host` or `host:port`; for `memory` at most one, the shared store's name.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// What follows the host: a Redis database number, a ZooKeeper chroot.
    #[serde(default)]
    pub path: String,
    /// User.
    #[serde(default)]
    pub user: Option<String>,
    /// Password. Read, never written.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// The namespace of all keys (default `latchwork`).
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The lease's TTL that is asked for, 1 s to 1 h (default 10 s).
    #[serde(default = "default_ttl", with = "humantime_serde")]
    pub ttl: Duration,
    /// One deadline over the whole of connecting (default 5 s).
    #[serde(default = "default_connect_timeout", with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// The bound of one request (default 2 s).
    #[serde(default = "default_request_timeout", with = "humantime_serde")]
    pub request_timeout: Duration,
    /// The label shown in listings (default: host, process id and a short random client id).
    #[serde(default)]
    pub label: Option<String>,
    /// ZooKeeper: an upper bound of the server's tickTime (default 2 s).
    #[serde(default = "default_tick", with = "humantime_serde")]
    pub tick: Duration,
    /// Refuse a server that may evict locks, rather than warn.
    #[serde(default)]
    pub strict: bool,
}

fn default_namespace() -> String {
    "latchwork".to_owned()
}
fn default_ttl() -> Duration {
    Duration::from_secs(10)
}
fn default_connect_timeout() -> Duration {
    Duration::from_secs(5)
}
fn default_request_timeout() -> Duration {
    Duration::from_secs(2)
}
fn default_tick() -> Duration {
    Duration::from_secs(2)
}

/// Schemes of TLS, which comes later.
const TLS_SCHEMES: [&str; 5] = ["rediss", "valkeys", "zookeepers", "etcds", "https"];

impl Config {
    /// The defaults, for a backend.
    pub fn new(backend: impl Into<String>) -> Self {
        Self {
            backend: backend.into(),
            hosts: Vec::new(),
            path: String::new(),
            user: None,
            password: None,
            namespace: default_namespace(),
            ttl: default_ttl(),
            connect_timeout: default_connect_timeout(),
            request_timeout: default_request_timeout(),
            label: None,
            tick: default_tick(),
            strict: false,
        }
    }

    /// Reads `scheme://[user[:password]@]host[:port][,host…][/path][?option=value&…]`. Options:
    /// `namespace`, `ttl`, `connect_timeout`, `request_timeout`, `tick` (durations like `10s` or `500ms`), `label`, `strict`.
    ///
    /// # Errors
    /// `InvalidArgument` naming `url` or the option; the message never holds the password.
    pub fn from_url(text: &str) -> Result<Self> {
        let bad = |why: &str| Error::invalid("url", why.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(|| {
            bad("expected scheme://host, for example redis://localhost, zookeeper://a,b,c/chroot, etcd://localhost or memory://")
        })?;
        if TLS_SCHEMES.contains(&scheme) {
            return Err(bad(&format!("{scheme}:// asks for TLS, which this version does not have yet")));
        }
        // The url crate knows one host and no more: the list of hosts is taken out before it parses the rest.
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if looks_like_a_broken_login(authority, tail) {
            // Nothing of it is quoted: what looks like a host or an option here is part of a password.
            return Err(bad(
                "an @ stands behind the first /, ? or #: in a user or password write these as %2F, %3F and %23, elsewhere write the @ as %40",
            ));
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), authority),
        };
        let url = Url::parse(&format!("{scheme}://{login}host{tail}"))
            .map_err(|error| bad(&format!("malformed: {error}")))?;
        let decode = |argument: &'static str, text: &str| {
            percent_encoding::percent_decode_str(text)
                .decode_utf8()
                .map(|text| text.into_owned())
                .map_err(|_| Error::invalid(argument, "is not UTF-8 when decoded"))
        };

        let mut config = Config::new(if scheme == "valkey" { "redis" } else { scheme });
        for host in hosts.split(',').filter(|_| !hosts.is_empty()) {
            check_host(host)?;
            config.hosts.push(host.to_owned());
        }
        config.path = decode("url", url.path().trim_start_matches('/'))?;
        if !url.username().is_empty() {
            config.user = Some(decode("user", url.username())?);
        }
        if let Some(password) = url.password() {
            config.password = Some(Secret(decode("password", password)?));
        }
        for (option, value) in url.query_pairs() {
            match &*option {
                "namespace" => config.namespace = value.into_owned(),
                "ttl" => config.ttl = duration("ttl", &value)?,
                "connect_timeout" => config.connect_timeout = duration("connect_timeout", &value)?,
                "request_timeout" => config.request_timeout = duration("request_timeout", &value)?,
                "tick" => config.tick = duration("tick", &value)?,
                "label" => config.label = Some(value.into_owned()),
                "strict" => {
                    config.strict =
                        value.parse().map_err(|_| Error::invalid("strict", "must be true or false"))?;
                }
                other => return Err(bad(&format!("unknown option {other:?}"))),
            }
        }
        if url.fragment().is_some() {
            return Err(bad("a fragment (#…) means nothing here; write a # of a password as %23"));
        }
        config.validate()?;
        Ok(config)
    }

    /// Checks what every backend asks of a configuration.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field.
    pub fn validate(&self) -> Result<()> {
        check_ttl(self.ttl)?;
        for (name, timeout) in [
            ("connect_timeout", self.connect_timeout),
            ("request_timeout", self.request_timeout),
            ("tick", self.tick),
        ] {
            if timeout.is_zero() {
                return Err(Error::invalid(name, "must not be zero"));
            }
        }
        crate::address::Address::new(&self.namespace, crate::address::Kind::Mutex, "probe")?;
        if let Some(label) = &self.label {
            crate::label::check(label)?;
        }
        self.hosts.iter().try_for_each(|host| check_host(host))
    }

    /// The hosts with `port` added where none is given.
    ///
    /// # Errors
    /// `InvalidArgument` naming `url` when there is no host.
    pub fn hosts_with_port(&self, port: u16) -> Result<Vec<String>> {
        if self.hosts.is_empty() {
            return Err(Error::invalid("url", format!("{}:// needs a host", self.backend)));
        }
        let has_port = |host: &str| host.rfind(':').is_some_and(|colon| !host[colon..].contains(']'));
        Ok(self
            .hosts
            .iter()
            .map(|host| if has_port(host) { host.clone() } else { format!("{host}:{port}") })
            .collect())
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

fn duration(name: &'static str, text: &str) -> Result<Duration> {
    humantime::parse_duration(text).map_err(|error| {
        Error::invalid(name, format!("{text:?} is no duration such as 10s or 500ms: {error}"))
    })
}

/// Whether an unescaped `/`, `?` or `#` of a password has cut a login in two: `user:pass` here, `word@host` there. After
/// a host alone, an option's value may hold an `@`.
fn looks_like_a_broken_login(authority: &str, tail: &str) -> bool {
    let in_an_option = || {
        let options =
            tail.split_once('?').filter(|(path, _)| !path.contains('@')).map(|(_, options)| options);
        let host = authority.split(',').all(|host| check_host(host).is_ok());
        host && options.is_some_and(|options| {
            options.split('&').filter(|option| option.contains('@')).all(|option| {
                matches!(option.split_once('='), Some((name, _)) if matches!(name, "label" | "namespace"))
            })
        })
    };
    !authority.contains('@') && tail.contains('@') && !in_an_option()
}

/// A host is checked by parsing it alone, as the url crate does for the schemes it knows.
fn check_host(host: &str) -> Result<()> {
    match Url::parse(&format!("http://{host}/")) {
        Ok(url) if url.username().is_empty() && url.path() == "/" && url.host_str().is_some() => Ok(()),
        // What stands before an @ may be a password.
        _ if host.contains('@') => Err(Error::invalid(
            "url",
            "a host must not hold a login (user and password are parts of their own)",
        )),
        _ => Err(Error::invalid("url", format!("{host:?} is not host or host:port"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_everything() {
        let config = Config::from_url(
            "zookeeper://app:p%40ss@a:2181,b,[::1]:2182/chroot/x?ttl=30s&connect_timeout=1s&namespace=n&tick=100ms&label=me&strict=true",
        )
        .unwrap();
        assert_eq!(config.hosts, ["a:2181", "b", "[::1]:2182"]);
        assert_eq!(config.hosts_with_port(9).unwrap(), ["a:2181", "b:9", "[::1]:2182"]);
        assert_eq!((config.path.as_str(), config.user.as_deref()), ("chroot/x", Some("app")));
        assert_eq!(config.password.as_ref().unwrap().expose(), "p@ss");
        assert_eq!((config.ttl, config.tick), (Duration::from_secs(30), Duration::from_millis(100)));
        assert!(config.strict);
    }

    #[test]
    fn bad_urls_name_what_is_wrong() {
        for (url, argument) in [
            ("redis", "url"),
            ("rediss://h", "url"),
            ("redis://h:port", "url"),
            ("redis://a,,b", "url"),
            ("redis://h?colour=red", "url"),
            ("redis://h#x", "url"),
            ("redis://h?ttl=0s", "ttl"),
            ("redis://h?ttl=2h", "ttl"),
            ("redis://h?ttl=soon", "ttl"),
            ("redis://h?connect_timeout=0s", "connect_timeout"),
            ("redis://h?request_timeout=0s", "request_timeout"),
            ("redis://h?namespace=", "namespace"),
            ("redis://h?strict=maybe", "strict"),
        ] {
            assert_eq!(Config::from_url(url).unwrap_err().argument(), Some(argument), "{url}");
        }
        assert!(Config::from_url("redis://u:hunter2@h:x").unwrap_err().to_string().find("hunter2").is_none());
    }

    /// A password with a `/`, `?` or `#` of its own ends what looks like the host: what is left of it must not be quoted.
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
        let mut config = Config::new("redis");
        config.hosts.push("u:hunter2@h".to_owned());
        assert!(!config.validate().unwrap_err().to_string().contains("hunter2"));
        // An @ that is no part of a login is none.
        let config = Config::from_url("redis://h:6379/0?label=me@here").unwrap();
        assert_eq!((config.hosts[0].as_str(), config.label.as_deref()), ("h:6379", Some("me@here")));
    }

    #[test]
    fn a_password_of_another_type_is_not_quoted() {
        let error = serde_json::from_str::<Config>(r#"{"backend":"redis","password":4711}"#).unwrap_err();
        assert!(!error.to_string().contains("4711") && error.to_string().contains("password"), "{error}");
    }

    #[test]
    fn a_password_is_read_and_never_written() {
        let config = Config::from_url("redis://u:hunter2@h").unwrap();
        let json = serde_json::to_string(&config).unwrap();
        assert!(!json.contains("hunter2") && !format!("{config:?}").contains("hunter2"));
        let read: Config =
            serde_json::from_str(r#"{"backend":"redis","hosts":["h"],"password":"x","ttl":"5s"}"#).unwrap();
        assert_eq!((read.password.unwrap().expose(), read.ttl), ("x", Duration::from_secs(5)));
    }
}
