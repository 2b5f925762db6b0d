//! A configuration as a URL.

use std::collections::HashSet;
use std::time::Duration;

use url::Url;

use super::{Config, Secret, check_host};
use crate::error::{Error, Result};

/// Schemes of TLS, which comes later.
const TLS_SCHEMES: [&str; 5] = ["rediss", "valkeys", "zookeepers", "etcds", "https"];

impl Config {
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
        let scheme = scheme.to_ascii_lowercase();
        // A login before the scheme is not quoted.
        if scheme.is_empty()
            || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
        {
            return Err(bad(
                "what stands before :// is no scheme (redis, valkey, zookeeper, etcd or memory)",
            ));
        }
        if TLS_SCHEMES.contains(&&*scheme) {
            return Err(bad(&format!("{scheme}:// asks for TLS, which this version does not have yet")));
        }
        // The url crate knows one host and no more: the list of hosts is taken out before it parses the rest.
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if looks_like_a_broken_login(authority, tail) {
            // Nothing of it is quoted: what looks like a host or an option here is part of a password.
            return Err(bad(
                "an @ stands behind the first /, ? or #: in a user or password write these as %2F, %3F and %23 (and @ as %40), elsewhere write the @ as %40",
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

        let mut config = Config::new(if scheme == "valkey" { "redis" } else { &scheme });
        for host in hosts.split(',').filter(|_| !hosts.is_empty()) {
            check_host("url", host)?;
            config.hosts.push(host.to_owned());
        }
        config.path = decode("url", url.path().trim_start_matches('/'))?;
        if !url.username().is_empty() {
            config.user = Some(decode("user", url.username())?);
        }
        if let Some(password) = url.password() {
            config.password = Some(Secret(decode("password", password)?));
        }
        // A form would take it for a space, and who writes the same into a table for itself: two names for one lock.
        if let Some(pair) = url.query().unwrap_or_default().split('&').find(|pair| pair.contains('+')) {
            let argument = match pair.split_once('=') {
                Some(("namespace", _)) => "namespace",
                Some(("label", _)) => "label",
                _ => "url",
            };
            return Err(Error::invalid(argument, "has a + in it: write %2B, or %20 for a space"));
        }
        let mut given = HashSet::new();
        for (option, value) in url.query_pairs() {
            if !given.insert(option.clone()) {
                return Err(bad(&format!("the option {option:?} is given twice")));
            }
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

/// Whether an unescaped `/`, `?` or `#` of a password has cut a login in two: `user:pass` here, `word@host` there. The value
/// of a free option may hold an `@`.
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
            ("rediss://h", "url"),
            ("redis://h:port", "url"),
            ("redis://a,,b", "url"),
            ("redis://h?colour=red", "url"),
            ("redis://h?ttl=5s&ttl=60s", "url"),
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
            ("redis://h?tick=0s", "tick"),
            ("redis://h?ttl", "ttl"),
            ("redis://h?ttl=999ms", "ttl"),
            ("redis://h?ttl=99999999999999999999s", "ttl"),
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
        // An @ in it too, or the host forgotten, or the login in front of everything.
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
        // An @ that is no part of a login is none.
        let config = Config::from_url("redis://h:6379/0?label=me@here").unwrap();
        assert_eq!((config.hosts[0].as_str(), config.label.as_deref()), ("h:6379", Some("me@here")));
    }
}
