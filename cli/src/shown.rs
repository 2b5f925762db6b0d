//! A coordinator's URL without its secrets.

use std::path::PathBuf;
use std::time::Duration;

use latchwork::Config;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// In a login and in options.
const CODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~');
/// In a path, whose slashes are meant.
const IN_PATH: &AsciiSet = &CODED.remove(b'/');

/// The URL that makes this configuration, but for its password, and the Sentinels' login, which is
/// nothing without one. It has no default options.
pub(crate) fn url_without_secrets(config: &Config) -> String {
    let defaults = Config::new(&*config.backend);
    let coded = |text: &str| utf8_percent_encode(text, CODED).to_string();
    let user = config.user.as_deref().map(|user| coded(user) + "@").unwrap_or_default();
    // Behind Sentinels the path is the service, and the database an option.
    let (path, db) = match &config.sentinel_service {
        Some(service) => (service, (!config.path.is_empty()).then(|| config.path.clone())),
        None => (&config.path, None),
    };
    let path = match path.is_empty() {
        true => String::new(),
        false => format!("/{}", utf8_percent_encode(path, IN_PATH)),
    };
    let file = |name: &str, value: &Option<PathBuf>| {
        value.as_deref().map(|value| (name.to_owned(), coded(&value.to_string_lossy())))
    };
    let text =
        |name: &str, value: &Option<String>| value.as_deref().map(|value| (name.to_owned(), coded(value)));
    let time = |name: &str, value: Duration, default: Duration| {
        (value != default).then(|| (name.to_owned(), coded(&humantime::format_duration(value).to_string())))
    };
    let flag = |name: &str, set: bool| set.then(|| (name.to_owned(), "true".to_owned()));
    let options = [
        (config.namespace != defaults.namespace).then(|| ("namespace".to_owned(), coded(&config.namespace))),
        text("name", &config.name),
        text("label", &config.label),
        file("ca", &config.ca),
        file("cert", &config.cert),
        file("key", &config.key),
        text("server_name", &config.server_name),
        text("db", &db),
        time("ttl", config.ttl, defaults.ttl),
        time("connect_timeout", config.connect_timeout, defaults.connect_timeout),
        time("request_timeout", config.request_timeout, defaults.request_timeout),
        time("tick", config.tick, defaults.tick),
        config.remember.and_then(|remember| time("remember", remember, Duration::ZERO)),
        flag("sasl", config.sasl),
        flag("strict", config.strict),
        (config.min_replicas != 0).then(|| ("min_replicas".to_owned(), config.min_replicas.to_string())),
    ];
    let options: Vec<_> =
        options.into_iter().flatten().map(|(name, value)| format!("{name}={value}")).collect();
    let query = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
    format!("{}://{user}{}{path}{query}", scheme(config), config.hosts.join(","))
}

fn scheme(config: &Config) -> String {
    let tls = if config.tls { "+tls" } else { "" };
    match (&*config.backend, &config.sentinel_service, config.cluster) {
        ("redis", Some(_), _) => format!("redis-sentinel{tls}"),
        ("redis", None, true) => format!("redis-cluster{tls}"),
        ("redis", None, false) if config.tls => "rediss".to_owned(),
        (backend, ..) => format!("{backend}{tls}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_back_as_the_same_but_for_the_password() {
        for url in [
            "redis://app:hunter2@cache:6380/2?ttl=5s&namespace=a%2Fb&remember=1m&min_replicas=2&strict=true",
            "zookeeper://a:1,b,[::1]:3/chroot/x?tick=100ms&label=an%20op&request_timeout=1s&connect_timeout=9s",
            "etcd://h?name=east",
            "redis://a%2Fb:hunter2@h",
            "redis-cluster://app:hunter2@a:1,b:2?ttl=5s",
            "redis-sentinel://app:hunter2@a,b/the%20cache?db=3&sentinel_user=watch&sentinel_password=hunter2",
            "redis-sentinel://a/cache",
            "rediss://h?ca=%2Fetc%2Fca.pem&cert=%2Fa.pem&key=%2Fa%20b.key&server_name=cache",
            "zookeeper+tls://a,b/chroot?ca=%2Fca.pem",
            "zookeeper://app:hunter2@h?sasl=true",
            "etcd+tls://h",
            "memory://",
        ] {
            let mut config = Config::from_url(url).unwrap();
            let shown = url_without_secrets(&config);
            assert!(!shown.contains("hunter2"), "{shown}");
            (config.password, config.sentinel_user, config.sentinel_password) = (None, None, None);
            assert_eq!(Config::from_url(&shown).unwrap(), config, "{url} shown as {shown}");
        }
    }
}
