use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::Backend;
use latchwork_core::{Address, Config, Connector, Kind, Result, Secret, connect, connect_lazy, memory};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use proptest::prelude::*;

fn refused(url: &str) -> Option<&'static str> {
    Config::from_url(url).expect_err(url).argument()
}

fn refused_table(fields: &str) -> Option<&'static str> {
    let config: Config = toml::from_str(fields).expect("a table");
    let json = serde_json::to_string(&toml::from_str::<toml::Table>(fields).expect("a table")).expect("JSON");
    let again: Config = serde_json::from_str(&json).expect("the same table");
    assert_eq!(config, again);
    config.validate().expect_err(fields).argument()
}

#[test]
fn invalid_utf8_is_refused_by_name_and_not_read_as_another_text() {
    for part in ["%ff", "%fe", "a%c3", "%ed%a0%80"] {
        assert_eq!(refused(&format!("redis://h?namespace={part}")), Some("namespace"), "{part}");
        assert_eq!(refused(&format!("redis://h?label={part}")), Some("label"), "{part}");
        assert_eq!(refused(&format!("redis://{part}@h")), Some("user"), "{part}");
        assert_eq!(refused(&format!("redis://u:{part}@h")), Some("password"), "{part}");
        assert_eq!(refused(&format!("redis://h/{part}")), Some("url"), "{part}");
    }
}

#[test]
fn a_stray_percent_is_refused_by_name() {
    for part in ["%", "a%", "%4", "%zz", "%%41", "%4é"] {
        assert_eq!(refused(&format!("redis://h?namespace={part}")), Some("namespace"), "{part}");
        assert_eq!(refused(&format!("redis://u:{part}@h")), Some("password"), "{part}");
    }
}

#[test]
fn a_control_character_is_refused_by_name_and_never_dropped() {
    for (raw, coded) in [("\t", "%09"), ("\n", "%0A"), ("\r", "%0d"), ("\0", "%00"), ("\u{1b}", "%1b")] {
        for c in [raw, coded] {
            assert_eq!(refused(&format!("redis://h?namespace=a{c}b")), Some("namespace"), "{c:?}");
            assert_eq!(refused(&format!("redis://h?label=a{c}b")), Some("label"), "{c:?}");
            assert_eq!(refused(&format!("redis://u:a{c}b@h")), Some("password"), "{c:?}");
            assert_eq!(refused(&format!("redis://a{c}b:p@h")), Some("user"), "{c:?}");
            assert_eq!(refused(&format!("zookeeper://h/a{c}b")), Some("url"), "{c:?}");
            assert_eq!(refused(&format!("redis://h?ttl=1{c}0s")), Some("ttl"), "{c:?}");
        }
    }
    // A password from a file may end in a newline.
    for field in ["namespace", "user", "password", "path", "label"] {
        for text in ["a\\tb", "secret\\n", "\\u001b[2J"] {
            let fields = format!("backend = \"redis\"\nhosts = [\"h\"]\n{field} = \"{text}\"");
            assert_eq!(refused_table(&fields), Some(field), "{fields}");
        }
    }
}

#[test]
fn a_character_that_reverses_text_is_refused_in_names_that_people_read() {
    for field in ["namespace", "user", "label"] {
        let fields = format!("backend = \"redis\"\nhosts = [\"h\"]\n{field} = \"gpj\\u202Eexe\"");
        assert_eq!(refused_table(&fields), Some(field), "{fields}");
    }
    assert_eq!(refused("redis://h?label=gpj\u{202e}exe"), Some("label"));
    assert_eq!(refused("redis://h?namespace=gpj%E2%80%AEexe"), Some("namespace"));
}

#[test]
fn url_path_is_decoded_without_normalization() {
    for (written, read) in [
        ("/a/../b", "a/../b"),
        ("/a/%2e%2e/b", "a/../b"),
        ("/./a", "./a"),
        ("//a", "/a"),
        ("/a//b/", "a//b/"),
        ("", ""),
    ] {
        let config = Config::from_url(&format!("zookeeper://h{written}")).expect(written);
        assert_eq!(config.path, read, "{written}");
    }
}

#[test]
fn a_space_at_the_end_makes_no_other_namespace() {
    assert_eq!(refused("redis://h?namespace=a "), Some("url"));
    assert_eq!(Config::from_url("redis://h?namespace=a%20").expect("meant").namespace, "a ");
    assert_eq!(Config::from_url("redis://h?namespace=a b").expect("meant").namespace, "a b");
}

#[test]
fn option_of_a_backend_is_kept_for_it() {
    for url in ["redis://h?strict=true", "etcd://h?tick=1s", "ours://h?tick=1s&strict=true"] {
        let config = Config::from_url(url).expect(url);
        assert_eq!(config.url_without_secrets(), url.replace("tick=1s&strict=true", "strict=true&tick=1s"));
    }
}

#[tokio::test]
async fn option_that_the_backend_does_not_have_is_refused_with_where_it_belongs() {
    let connectors = [memory::connector(), Arc::new(Other) as Arc<dyn Connector>];
    for (options, argument, says) in [
        ("strict=true", "strict", "other://"),
        ("min_replicas=1", "min_replicas", "other://"),
        ("colour=red", "options", "\"colour\""),
    ] {
        let config = Config::from_url(&format!("memory://h?{options}")).expect("a URL");
        let refused = [connect(&connectors, &config).await, connect_lazy(&connectors, &config)];
        for error in refused.map(|refused| refused.map(drop).expect_err(options)) {
            assert_eq!(error.argument(), Some(argument), "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}

#[derive(Debug)]
struct Other;

#[async_trait]
impl Connector for Other {
    fn name(&self) -> &'static str {
        "other"
    }

    fn options(&self) -> &'static [&'static str] {
        &["strict", "min_replicas"]
    }

    fn validate(&self, _config: &Config) -> Result<()> {
        Ok(())
    }

    async fn connect(&self, _config: &Config) -> Result<Arc<dyn Backend>> {
        unreachable!("no test connects to it")
    }
}

#[test]
fn a_table_that_was_written_is_read() {
    for backend in ["memory", "redis", "zookeeper", "etcd"] {
        let config = Config::new(backend);
        let json = serde_json::to_string(&config).expect("JSON");
        let read: Config = serde_json::from_str(&json).expect("a table");
        assert_eq!(read, config);
        read.validate().expect(&json);
    }
}

fn written(config: &Config) -> String {
    let code = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let user = config.user.as_deref().map(code).unwrap_or_default();
    let password = config.password.as_ref().map(|password| format!(":{}", code(password.expose())));
    let at = if user.is_empty() && password.is_none() { "" } else { "@" };
    let mut url = format!(
        "{}://{user}{}{at}{}/{}?namespace={}&ttl={}",
        config.backend,
        password.unwrap_or_default(),
        config.hosts.join(","),
        code(&config.path),
        code(&config.namespace),
        humantime::format_duration(config.ttl).to_string().replace(' ', "%20"),
    );
    if let Some(label) = &config.label {
        url.push_str(&format!("&label={}", code(label)));
    }
    url
}

fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-zA-Z0-9/?#@:&=%+.,;\\\\ üß🔒~!*'()\\[\\]{}-]{1,12}")
        .expect("a good pattern")
}

fn config() -> impl Strategy<Value = Config> {
    // A URL parser reads "a.0x" as a number, and "xn--a" as an invalid encoded name.
    let is_host =
        |name: &String| url::Host::parse(name).is_ok_and(|host| matches!(host, url::Host::Domain(_)));
    let host = ("[a-z][a-z0-9.-]{0,5}[a-z]".prop_filter("a host", is_host), "(:[1-9][0-9]{0,3})?")
        .prop_map(|(name, port)| name + &port);
    let hosts = prop::collection::vec(host, 1..4);
    let login = (prop::option::of(text()), prop::option::of(text()));
    (hosts, "[a-z0-9/. ü%?#]{0,9}", login, text(), prop::option::of(text()), 1_000_u64..3_600_000).prop_map(
        |(hosts, path, (user, password), namespace, label, ttl)| {
            let mut config = Config::new("zookeeper");
            (config.hosts, config.path, config.namespace, config.label) = (hosts, path, namespace, label);
            (config.user, config.password) = (user, password.map(Secret::new));
            config.ttl = Duration::from_millis(ttl);
            config
        },
    )
}

fn place(namespace: &str) -> Address {
    Address::new(namespace, Kind::Mutex, "a").expect("a good namespace")
}

proptest! {
    #[test]
    fn written_url_reads_back_as_the_same_config(config in config()) {
        let url = written(&config);
        let read = Config::from_url(&url).map_err(|error| TestCaseError::fail(format!("{url}: {error}")))?;
        prop_assert_eq!(read, config, "{}", url);
    }

    #[test]
    fn no_text_panics_or_shows_its_password(text in any::<String>(), tail in "[@:/?#=&%a-z\\x00-\\x20]{0,30}") {
        for url in [text.clone(), format!("redis://{text}"), format!("zookeeper://h/{text}?{tail}"), format!("etcd://{tail}")] {
            if let Ok(config) = Config::from_url(&url) {
                prop_assert!(config.validate().is_ok());
            }
        }
        if let Err(error) = Config::from_url(&format!("redis://app:hunter2@{tail}")) {
            let shown = format!("{error} {error:?} {error:#?}");
            prop_assert!(!shown.contains("hunter2"), "{}", shown);
        }
    }

    #[test]
    fn two_texts_are_never_one_namespace(texts in prop::collection::vec("([ab]|%6[12]|%[fF][eEfF]|%C3%BC|ü|%|\\t|\\n| |\\.|%2e|\u{fffd}){1,3}", 2..12)) {
        let mut seen = HashMap::new();
        for text in texts {
            let Ok(config) = Config::from_url(&format!("redis://h?namespace={text}")) else { continue };
            let place = format!("{:?}", place(&config.namespace));
            let meant: Vec<u8> = percent_decode_str(&text).collect();
            if let Some(other) = seen.insert(place, meant.clone()) {
                prop_assert_eq!(other, meant);
            }
        }
    }
}

/// The property above found this host.
#[test]
fn malformed_host_is_refused_in_a_url_and_in_a_table() {
    let mut table = Config::new("zookeeper");
    table.hosts = vec!["a.0x".to_owned()];
    for error in
        [Config::from_url("zookeeper://a.0x").expect_err("no host"), table.validate().expect_err("no host")]
    {
        assert!(error.to_string().contains("\"a.0x\" is not a host name or address"), "{error}");
    }
}
