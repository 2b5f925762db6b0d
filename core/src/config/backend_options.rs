use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::label::check_visible;

const SECRET: [&str; 4] = ["pass", "pwd", "secret", "token"];

/// The options of one backend, by name. [`connect`](crate::connect()) refuses an option that the backend does
/// not have. `Debug` and serde hide the value of an option whose name contains `pass`, `pwd`, `secret` or
/// `token`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Returns the value of an option as text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets an option, and replaces an earlier value.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Sets an option to a duration.
    pub fn set_duration(&mut self, name: impl Into<String>, value: Duration) {
        self.set(name, humantime::format_duration(value).to_string());
    }

    /// Returns the names of all options.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Reads an option that is `true` or `false` (default `false`).
    ///
    /// # Errors
    /// `InvalidArgument` naming the option if it has another value.
    pub fn flag(&self, name: &'static str) -> Result<bool> {
        let read = |text: &str| {
            text.parse().map_err(|_| Error::invalid(name, format!("{text:?} is neither true nor false")))
        };
        self.get(name).map_or(Ok(false), read)
    }

    /// Reads an option that is a duration.
    ///
    /// # Errors
    /// `InvalidArgument` naming the option if its value is not a duration.
    pub fn duration(&self, name: &'static str) -> Result<Option<Duration>> {
        self.get(name).map(|text| duration(name, text)).transpose()
    }

    /// Returns the options that belong to the place of a namespace.
    pub(super) fn of_place(&self) -> Self {
        let of_place = self.0.iter().filter(|(name, _)| OF_THE_SCHEME.contains(&name.as_str()));
        Self(of_place.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Returns all options except secrets and options that the scheme expresses.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        let options = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        options.filter(|(name, _)| !is_secret(name) && !OF_THE_SCHEME.contains(name))
    }

    pub(crate) fn has_secret(&self) -> bool {
        self.names().any(is_secret)
    }

    pub(super) fn check(&self) -> Result<()> {
        self.0
            .iter()
            .flat_map(|(name, value)| [name, value])
            .try_for_each(|text| check_visible("options", text))
    }
}

/// A URL expresses these options by its scheme and path.
pub(super) const OF_THE_SCHEME: [&str; 2] = ["cluster", "sentinel_service"];

fn is_secret(name: &str) -> bool {
    SECRET.iter().any(|part| name.to_ascii_lowercase().contains(part))
}

pub(super) fn duration(name: &'static str, text: &str) -> Result<Duration> {
    humantime::parse_duration(text).map_err(|error| {
        Error::invalid(name, format!("{text:?} is not a duration such as 10s or 500ms: {error}"))
    })
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().map(|(name, value)| (name, if is_secret(name) { "***" } else { value }));
        f.debug_map().entries(shown).finish()
    }
}

impl Serialize for Options {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(name, _)| !is_secret(name)))
    }
}

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "an option must be a string, a whole number, true or false")]
        enum Scalar {
            Text(String),
            Flag(bool),
            Number(i64),
        }
        let options = BTreeMap::<String, Scalar>::deserialize(deserializer)?;
        let text = |scalar| match scalar {
            Scalar::Text(text) => text,
            Scalar::Flag(flag) => flag.to_string(),
            Scalar::Number(number) => number.to_string(),
        };
        Ok(Self(options.into_iter().map(|(name, value)| (name, text(value))).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_by_type_or_refused_by_name() {
        let mut options = Options::default();
        for (name, value) in [("tick", "100ms"), ("sasl", "true"), ("bad", "soon")] {
            options.set(name, value);
        }
        assert_eq!(options.duration("tick").expect("a duration"), Some(Duration::from_millis(100)));
        assert!(options.flag("sasl").expect("a flag") && !options.flag("other").expect("absent"));
        assert_eq!(options.duration("bad").expect_err("no duration").argument(), Some("bad"));
        assert_eq!(options.flag("bad").expect_err("no flag").argument(), Some("bad"));
    }

    #[test]
    fn secret_options_are_neither_shown_nor_written() {
        for name in ["sentinel_password", "passwrd", "Secret", "api_token"] {
            let mut options = Options::default();
            options.set(name, "hunter2");
            options.set("user", "me");
            let json = serde_json::to_string(&options).expect("JSON");
            let shown = format!("{options:?} {json} {:?}", options.shown().collect::<Vec<_>>());
            assert!(!shown.contains("hunter2") && shown.matches("\"me\"").count() == 3, "{shown}");
            assert!(options.has_secret());
        }
    }
}
