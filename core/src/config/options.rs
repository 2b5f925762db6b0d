use std::collections::HashSet;

use super::backend_options::duration;
use super::fields::Config;
use crate::error::{Error, Result};
use crate::label::check_visible;

/// All other options belong to the [backend](super::Options).
pub(super) const OPTIONS: [&str; 11] = [
    "namespace",
    "name",
    "ttl",
    "connect_timeout",
    "request_timeout",
    "label",
    "ca",
    "cert",
    "key",
    "server_name",
    "min_replicas",
];

impl Config {
    pub(super) fn read_options(&mut self, query: &str) -> Result<()> {
        let mut given = HashSet::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let option = decode("url", name)?;
            let bad = |why: String| Err(Error::invalid("url", why));
            let argument = OPTIONS.into_iter().find(|known| *known == option).unwrap_or("url");
            if !given.insert(option.clone()) {
                return bad(format!("the option {option:?} is given twice: delete one of them"));
            }
            // A form decodes + as a space, and a settings file does not: two names for one lock.
            if value.contains('+') {
                let why = format!("the option {option:?} contains a +: write %2B, or %20 for a space");
                return Err(Error::invalid(argument, why));
            }
            let value = decode(argument, value)?;
            match (argument, option.as_str()) {
                ("url", "db") if self.options.get("sentinel_service").is_some() => self.path = value,
                ("url", "db") => {
                    return bad("`db` is an option of redis-sentinel://: at redis://, write the database as the path, as in redis://host/2"
                        .to_owned());
                }
                ("url", _) => self.options.set(option, value),
                _ => self.set(argument, value)?,
            }
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
            "min_replicas" => {
                self.min_replicas = value.parse().map_err(|_| {
                    Error::invalid(option, format!("{value:?} is not a whole number from 0 to {}", u32::MAX))
                })?;
            }
            other => unreachable!("{other} is not among the options"),
        }
        Ok(())
    }
}

/// Keeps texts apart that differ in a byte. The `url` crate drops tabs and line ends, resolves `..`, and
/// turns invalid UTF-8 into U+FFFD.
pub(super) fn decode(argument: &'static str, text: &str) -> Result<String> {
    let bad = |why: &'static str| Err(Error::invalid(argument, why));
    let coded = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if text.split('%').skip(1).any(|rest| !coded(rest)) {
        return bad("contains a % that does not start a code such as %2F: write it as %25");
    }
    let Ok(decoded) = percent_encoding::percent_decode_str(text).decode_utf8() else {
        return bad("is not valid UTF-8 after decoding its %XX codes");
    };
    check_visible(argument, &decoded)?;
    Ok(decoded.into_owned())
}
