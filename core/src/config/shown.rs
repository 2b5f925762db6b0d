use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::fields::{Config, MOVING, MoveConfig};
use super::scheme::Scheme;

const CODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~');
const IN_PATH: &AsciiSet = &CODED.remove(b'/');

impl Config {
    fn shown_move(&self, sides: &MoveConfig) -> String {
        let side = |side: &Self| coded(&side.url_without_secrets());
        let options = [text("label", &self.label), text("name", &self.name)];
        let options: String =
            options.into_iter().flatten().map(|(name, value)| format!("&{name}={value}")).collect();
        let (from, to, name) = (side(&sides.from), side(&sides.to), coded(&sides.name));
        format!("{MOVING}:?from={from}&to={to}&move={name}{options}")
    }

    /// Returns this configuration as a URL, without the password, the [secret options](super::Options),
    /// default values, and settings that a URL cannot express (a credentials provider, an operator's client).
    ///
    /// ```
    /// use latchwork_core::Config;
    /// let config: Config = "redis://app:secret@cache/2?ttl=5s".parse()?;
    /// assert_eq!(config.url_without_secrets(), "redis://app@cache/2?ttl=5s");
    /// # Ok::<(), latchwork_core::Error>(())
    /// ```
    pub fn url_without_secrets(&self) -> String {
        let defaults = Config::new(&*self.backend);
        // A new field does not compile until it is named here: show it below, unless it is a secret.
        let Config {
            backend: _,
            hosts,
            path,
            user,
            password: _,
            tls: _,
            ca,
            cert,
            key,
            server_name,
            namespace,
            name,
            ttl,
            connect_timeout,
            request_timeout,
            label,
            min_replicas,
            options: of_backend,
            moving,
            credentials: _,
            layout: _,
            operator: _,
            participates: _,
        } = self;
        if let Some(sides) = moving {
            return self.shown_move(sides);
        }
        let user = user.as_deref().map(|user| coded(user) + "@").unwrap_or_default();
        // With Sentinels, the path is the service, and the database an option.
        let (path, db) = match of_backend.get("sentinel_service") {
            Some(service) => (service, (!path.is_empty()).then(|| path.clone())),
            None => (path.as_str(), None),
        };
        let path = match path.is_empty() {
            true => String::new(),
            false => format!("/{}", utf8_percent_encode(path, IN_PATH)),
        };
        let options = [
            (*namespace != defaults.namespace).then(|| ("namespace", coded(namespace))),
            text("name", name),
            text("label", label),
            file("ca", ca),
            file("cert", cert),
            file("key", key),
            text("server_name", server_name),
            text("db", &db),
            time("ttl", *ttl, defaults.ttl),
            time("connect_timeout", *connect_timeout, defaults.connect_timeout),
            time("request_timeout", *request_timeout, defaults.request_timeout),
            (*min_replicas != 0).then(|| ("min_replicas", min_replicas.to_string())),
        ];
        let of_backend = of_backend.shown().map(|(name, value)| format!("{}={}", coded(name), coded(value)));
        let options = options.into_iter().flatten().map(|(name, value)| format!("{name}={value}"));
        let options: Vec<_> = options.chain(of_backend).collect();
        let query = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
        format!("{}://{user}{}{path}{query}", Scheme::of(self), hosts.join(","))
    }
}

type Written = Option<(&'static str, String)>;

fn coded(text: &str) -> String {
    utf8_percent_encode(text, CODED).to_string()
}

fn text(name: &'static str, value: &Option<String>) -> Written {
    value.as_deref().map(|value| (name, coded(value)))
}

fn file(name: &'static str, value: &Option<PathBuf>) -> Written {
    value.as_deref().map(|value| (name, coded(&value.to_string_lossy())))
}

fn time(name: &'static str, value: Duration, default: Duration) -> Written {
    (value != default).then(|| (name, coded(&humantime::format_duration(value).to_string())))
}

#[cfg(test)]
mod tests {
    use super::super::options::OPTIONS;
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
            "rediss-sentinel://a/cache",
            "rediss-cluster://a,b",
            "rediss://h?ca=%2Fetc%2Fca.pem&cert=%2Fa.pem&key=%2Fa%20b.key&server_name=cache",
            "zookeeper+tls://a,b/chroot?ca=%2Fca.pem",
            "zookeeper://app:hunter2@h?sasl=true",
            "etcd+tls://h",
            "memory://",
        ] {
            let mut config = Config::from_url(url).unwrap();
            let shown = config.url_without_secrets();
            assert!(!shown.contains("hunter2"), "{shown}");
            config.password = None;
            let shown_options = config.options.names().filter(|name| *name != "sentinel_password").count();
            let again = Config::from_url(&shown).unwrap();
            assert_eq!(again.options.names().count(), shown_options, "{url} shown as {shown}");
            config.options = again.options.clone();
            assert_eq!(again, config, "{url} shown as {shown}");
        }
    }

    #[test]
    fn each_option_of_a_url_is_shown() {
        for option in OPTIONS {
            let (url, value) = match option {
                "ttl" | "connect_timeout" | "request_timeout" => ("redis://h?", "7s"),
                "min_replicas" => ("redis://h?", "2"),
                "ca" | "server_name" => ("rediss://h?", "a.b"),
                "cert" => ("rediss://h?key=k.pem&", "a.b"),
                "key" => ("rediss://h?cert=c.pem&", "a.b"),
                "namespace" | "name" | "label" => ("redis://h?", "a.b"),
                new => panic!("say here how {new} looks"),
            };
            let shown = Config::from_url(&format!("{url}{option}={value}")).unwrap().url_without_secrets();
            assert!(shown.contains(&format!("{option}={value}")), "{option}: {shown}");
        }
    }
}
