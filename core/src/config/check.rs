use ::url::Url;

use super::fields::{Config, MOVING};
use super::scheme::Scheme;
use crate::address::{Address, Kind, check_length};
use crate::decide::check_ttl;
use crate::error::{Error, Result};
use crate::label::check_visible;
use crate::secret::Secret;

#[cfg(feature = "tls")]
pub(crate) fn backend_name(backend: &str) -> &'static str {
    const OURS: [&str; 4] = ["memory", "redis", "zookeeper", "etcd"];
    OURS.into_iter().find(|ours| *ours == backend).unwrap_or("the server of this URL")
}

impl Config {
    /// Checks the fields that all backends have.
    ///
    /// # Errors
    /// `InvalidArgument` naming the wrong field.
    pub fn validate(&self) -> Result<()> {
        check_ttl(self.ttl)?;
        match (&self.moving, self.backend == MOVING) {
            (Some(sides), true) => sides.validate()?,
            (Some(_), false) => {
                return Err(Error::invalid(
                    "moving",
                    "needs the backend \"moving\": delete it, or change `backend`",
                ));
            }
            (None, true) => {
                return Err(Error::invalid(
                    "moving",
                    "is missing: the backend \"moving\" needs `from`, `to` and `move`",
                ));
            }
            (None, false) => {}
        }
        for (name, timeout) in
            [("connect_timeout", self.connect_timeout), ("request_timeout", self.request_timeout)]
        {
            if timeout.is_zero() {
                return Err(Error::invalid(name, "must not be zero"));
            }
        }
        self.check_tls()?;
        if self.credentials.0.is_some() && (self.user.is_some() || self.password.is_some()) {
            return Err(Error::invalid(
                "credentials",
                "a provider and a fixed login are set: remove one of them",
            ));
        }
        if self.credentials.0.is_some() && self.backend == "memory" {
            return Err(Error::invalid("credentials", "memory:// has no login: remove the provider"));
        }
        self.options.check()?;
        Address::new(&self.namespace, Kind::Mutex, "probe")?;
        for (name, text) in [
            ("namespace", Some(self.namespace.as_str())),
            ("user", self.user.as_deref()),
            ("password", self.password.as_ref().map(Secret::expose)),
            ("path", Some(self.path.as_str())),
        ] {
            check_visible(name, text.unwrap_or_default())?;
        }
        if let Some(name) = &self.name {
            check_length("name", name)?;
            check_visible("name", name)?;
        }
        if let Some(label) = &self.label {
            crate::label::check(label)?;
        }
        self.hosts.iter().try_for_each(|host| check_host("hosts", host))
    }

    /// Refuses half an identity, and TLS options without TLS: the user would rely on them in vain.
    fn check_tls(&self) -> Result<()> {
        let given = [
            ("ca", self.ca.is_some()),
            ("cert", self.cert.is_some()),
            ("key", self.key.is_some()),
            ("server_name", self.server_name.is_some()),
        ];
        if let Some((name, _)) = given.into_iter().find(|(_, given)| *given && !self.tls) {
            let plain = Scheme::of(self);
            let tls = plain.with_tls();
            return Err(Error::invalid(name, format!("needs TLS, and {plain}:// has none: write {tls}://")));
        }
        for (name, missing) in [("key", self.cert.is_some()), ("cert", self.key.is_some())] {
            if missing && self.cert.is_some() != self.key.is_some() {
                return Err(Error::invalid(
                    name,
                    "is missing: a client certificate needs both `cert` and `key`",
                ));
            }
        }
        for (name, path) in [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)] {
            check_visible(name, &path.as_deref().unwrap_or("".as_ref()).to_string_lossy())?;
        }
        check_visible("server_name", self.server_name.as_deref().unwrap_or_default())
    }
}

/// Parses the host as the url crate does for known schemes. The text after a colon may be the password of a
/// login whose `@host` was forgotten, so no error quotes it.
pub(super) fn check_host(argument: &'static str, host: &str) -> Result<()> {
    let refuse = |why: String| Err(Error::invalid(argument, why));
    if host.contains("://") {
        return refuse(
            "a host must not contain a scheme: give one URL, or a field for each part of it".to_owned(),
        );
    }
    if host.contains('@') {
        return refuse("a host must not contain a login: use the fields `user` and `password`".to_owned());
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    if name.contains(':') && !name.starts_with('[') {
        return refuse("a host has more than one colon: write an IPv6 address in brackets".to_owned());
    }
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return refuse(format!("the port of host {name:?} is not a number from 1 to 65535"));
    }
    // The url crate drops line ends, but name resolution does not.
    let blank = name.contains(|c: char| c.is_whitespace() || c.is_control());
    match Url::parse(&format!("http://{name}/")) {
        Ok(url) if !blank && url.path() == "/" && url.host_str().is_some() => Ok(()),
        _ => refuse(format!("{name:?} is not a host name or address")),
    }
}
