use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::backend_options::Options;
use super::fields::{self, Config, MoveConfig};
use crate::credentials::Provider;
use crate::secret::Secret;

#[derive(Deserialize)]
#[serde(remote = "Config")]
struct Table {
    backend: String,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    path: String,
    user: Option<String>,
    password: Option<Secret>,
    #[serde(default)]
    tls: bool,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
    #[serde(default = "fields::default_namespace")]
    namespace: String,
    name: Option<String>,
    #[serde(default = "fields::default_ttl", with = "humantime_serde")]
    ttl: Duration,
    #[serde(default = "fields::default_connect_timeout", with = "humantime_serde")]
    connect_timeout: Duration,
    #[serde(default = "fields::default_request_timeout", with = "humantime_serde")]
    request_timeout: Duration,
    label: Option<String>,
    #[serde(default)]
    min_replicas: u32,
    moving: Option<Box<MoveConfig>>,
    #[serde(skip)]
    credentials: Provider,
    #[serde(skip, default = "fields::default_layout")]
    layout: u32,
    #[serde(skip)]
    operator: bool,
    #[serde(skip)]
    participates: Option<fields::Participates>,
    #[serde(flatten)]
    options: Options,
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UrlOrTable)
    }
}

struct UrlOrTable;

impl<'de> Visitor<'de> for UrlOrTable {
    type Value = Config;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a URL such as \"redis://host\", or a table with `backend` and `hosts`")
    }

    fn visit_str<E: de::Error>(self, url: &str) -> Result<Config, E> {
        // Serde's error would quote the whole text.
        Config::from_url(url).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Config, A::Error> {
        Table::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Serde's error would quote the value, such as a password of digits without quotes.
        let text = String::deserialize(deserializer);
        text.map(Self::new).map_err(|_| de::Error::custom("the password must be a string"))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Settings {
        coordinator: Config,
        #[serde(flatten)]
        _others: std::collections::BTreeMap<String, IgnoredAny>,
    }

    fn read(coordinator: &str) -> [Result<Config, String>; 2] {
        let toml = toml::from_str::<Settings>(&format!("coordinator = {coordinator}"));
        let json = coordinator.replace(" = ", ":").replace("{ backend", "{ \"backend\"");
        let json = serde_json::from_str::<Settings>(&format!("{{\"coordinator\": {json}}}"));
        [
            toml.map(|settings| settings.coordinator).map_err(|error| error.message().to_owned()),
            json.map(|settings| settings.coordinator).map_err(|error| error.to_string()),
        ]
    }

    #[test]
    fn a_string_is_a_url() {
        for config in read(r#""redis://app:hunter2@cache:6380/2?ttl=5s""#) {
            let config = config.unwrap();
            assert_eq!(config, "redis://app:hunter2@cache:6380/2?ttl=5s".parse().unwrap());
        }
    }

    #[test]
    fn a_table_has_the_defaults_of_a_url() {
        for config in read(r#"{ backend = "redis" }"#) {
            assert_eq!(config.unwrap(), Config::new("redis"));
        }
    }

    #[test]
    fn a_bad_string_is_reported_as_a_bad_url_without_the_password() {
        for (url, says) in [
            ("redis://app:hunter2@cache:port", "port"),
            ("app:hunter2@cache", "scheme://host"),
            ("redis://app:hunter2@cache?ttl=0s", "`ttl`"),
            ("rediss://app:hunter2@cache?cert=a.pem", "`key`"),
            ("redis://app:hunter2/4@cache", "%2F"),
        ] {
            for error in read(&format!("{url:?}")) {
                let error = error.unwrap_err();
                assert!(error.contains(says) && !error.contains("hunter2"), "{url}: {error}");
            }
        }
    }

    #[test]
    fn other_config_types_are_refused_with_the_expected_form() {
        for error in read("4711").into_iter().chain(read("[]")) {
            assert!(error.unwrap_err().contains("a URL such as"));
        }
        for error in read(r#"{ backend = "redis", "host" = ["h"] }"#) {
            assert!(error.unwrap_err().contains("an option must be a string"));
        }
    }

    #[test]
    fn other_fields_of_a_table_are_options_of_the_backend() {
        for config in read(r#"{ backend = "redis", "remember" = "1m", "strict" = true, "shards" = 3 }"#) {
            let config = config.unwrap();
            let url = "redis://?remember=1m&strict=true&shards=3";
            assert_eq!(config, Config::from_url(url).unwrap());
            let json = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<Config>(&json).unwrap(), config);
        }
    }

    #[test]
    fn a_password_of_another_type_is_not_quoted() {
        for error in read(r#"{ backend = "redis", "password" = 4711 }"#) {
            let error = error.unwrap_err();
            assert!(!error.contains("4711") && error.contains("password"), "{error}");
        }
    }

    #[test]
    fn a_password_is_read_and_never_written() {
        let config = Config::from_url("redis://u:hunter2@h").unwrap();
        let json = serde_json::to_string(&config).unwrap();
        assert!(!json.contains("hunter2") && !format!("{config:?}").contains("hunter2"));
        for config in read(r#"{ backend = "redis", "hosts" = ["h"], "password" = "x", "ttl" = "5s" }"#) {
            let config = config.unwrap();
            assert_eq!((config.password.unwrap().expose(), config.ttl), ("x", Duration::from_secs(5)));
        }
    }
}
