//! The options of a URL.

use std::collections::HashSet;
use std::time::Duration;

use super::check::check_applies;
use super::fields::Config;
use crate::error::{Error, Result};
use crate::label::check_visible;
use crate::secret::Secret;

/// Their names.
pub(super) const OPTIONS: [&str; 18] = [
    "namespace",
    "name",
    "ttl",
    "connect_timeout",
    "request_timeout",
    "tick",
    "label",
    "ca",
    "cert",
    "key",
    "server_name",
    "sasl",
    "strict",
    "remember",
    "min_replicas",
    "db",
    "sentinel_user",
    "sentinel_password",
];

impl Config {
    /// Sets what the query of a URL says.
    ///
    /// # Errors
    /// `InvalidArgument` naming the option, or `url` for one that is unknown or given twice.
    pub(super) fn read_options(&mut self, query: &str) -> Result<()> {
        let mut given = HashSet::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let option = decode("url", name)?;
            let bad = |why: String| Err(Error::invalid("url", why));
            let Some(argument) = OPTIONS.into_iter().find(|known| *known == option) else {
                return bad(format!("unknown option {option:?}"));
            };
            if !given.insert(argument) {
                return bad(format!("the option {option:?} is given twice"));
            }
            // A form decodes + as a space, and a settings file takes it literally: two names for
            // one lock.
            if value.contains('+') {
                return Err(Error::invalid(argument, "has a + in it: write %2B, or %20 for a space"));
            }
            check_applies(&self.backend, argument)?;
            if argument == "db" && self.sentinel_service.is_none() {
                return bad(
                    "`db` is an option of redis-sentinel://; elsewhere the database is the path".to_owned()
                );
            }
            self.set(argument, decode(argument, value)?)?;
        }
        Ok(())
    }

    fn set(&mut self, option: &'static str, value: String) -> Result<()> {
        match option {
            "namespace" => self.namespace = value,
            "name" => self.name = Some(value),
            "label" => self.label = Some(value),
            "ca" => self.ca = Some(value.into()),
            "cert" => self.cert = Some(value.into()),
            "key" => self.key = Some(value.into()),
            "server_name" => self.server_name = Some(value),
            "ttl" => self.ttl = duration(option, &value)?,
            "connect_timeout" => self.connect_timeout = duration(option, &value)?,
            "request_timeout" => self.request_timeout = duration(option, &value)?,
            "tick" => self.tick = duration(option, &value)?,
            "remember" => self.remember = Some(duration(option, &value)?),
            "min_replicas" => {
                self.min_replicas =
                    value.parse().map_err(|_| Error::invalid("min_replicas", "must be a whole number"))?;
            }
            "db" => self.path = value,
            "sentinel_user" => self.sentinel_user = Some(value),
            "sentinel_password" => self.sentinel_password = Some(Secret::new(value)),
            "sasl" => self.sasl = truth(option, &value)?,
            "strict" => self.strict = truth(option, &value)?,
            other => unreachable!("{other} stands among the options"),
        }
        Ok(())
    }
}

/// Decodes a part of a URL. Nothing is dropped or guessed, so that texts that differ in a byte stay
/// different. (The `url` crate drops tabs and line ends, resolves `..`, and turns invalid UTF-8
/// into U+FFFD.)
pub(super) fn decode(argument: &'static str, text: &str) -> Result<String> {
    let bad = |why: &'static str| Err(Error::invalid(argument, why));
    let coded = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if text.split('%').skip(1).any(|rest| !coded(rest)) {
        return bad("has a % in it that begins no %XX: write it as %25");
    }
    let Ok(decoded) = percent_encoding::percent_decode_str(text).decode_utf8() else {
        return bad("is not UTF-8 when decoded");
    };
    check_visible(argument, &decoded)?;
    Ok(decoded.into_owned())
}

fn truth(name: &'static str, text: &str) -> Result<bool> {
    text.parse().map_err(|_| Error::invalid(name, "must be true or false"))
}

fn duration(name: &'static str, text: &str) -> Result<Duration> {
    humantime::parse_duration(text).map_err(|error| {
        Error::invalid(name, format!("{text:?} is not a duration such as 10s or 500ms: {error}"))
    })
}
