//! Makes each TLS mistake of the guide's table on every backend.

use std::collections::BTreeMap;

use latchwork_conformance::mistakes::Mistakes;
use latchwork_core::{Config, Coordinator, Error, ErrorKind, connect};
use latchwork_servers::proxy::Proxy;
use latchwork_servers::{Authority, Certificates, Kind, Options, Server, Validity};

use crate::connectors;

fn secured(kind: Kind) -> String {
    match kind {
        Kind::Redis => "rediss".to_owned(),
        other => format!("{other}+tls"),
    }
}

async fn open(url: &str) -> Result<Coordinator, Error> {
    let mut config = Config::from_url(url)?;
    if config.backend == "zookeeper" {
        config.options.set_duration("tick", latchwork_servers::Clocks::Fast.zookeeper_tick());
    }
    connect(&connectors(), &config).await
}

async fn refusal(url: &str) -> Error {
    match open(url).await {
        Err(error) => error,
        Ok(coordinator) => {
            coordinator.close_now().await.expect("closed");
            panic!("{url}: it connected")
        }
    }
}

struct Secured {
    server: Server,
    certificates: Certificates,
}

impl Secured {
    async fn new(kind: Kind, certificates: Certificates, demands: bool) -> Self {
        let options = Options::new().tls(certificates.server(demands));
        let server = Server::start(kind, options).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        Self { server, certificates }
    }

    fn at(&self, options: &str) -> String {
        let (scheme, addr) =
            (secured(self.server.kind()), self.server.tls_addr().expect("the server has a TLS address"));
        format!("{scheme}://{addr}?{options}{PATIENT}")
    }

    fn url(&self, more: &str) -> String {
        self.at(&(self.certificates.trusting() + more))
    }

    fn mutual(&self) -> String {
        self.at(&self.certificates.mutual())
    }
}

/// A JVM is slow at first.
const PATIENT: &str = "&connect_timeout=20s";

/// `demanding` asks its clients for certificates.
async fn mistakes(kind: Kind, demanding: &Secured) -> BTreeMap<&'static str, Error> {
    let mut seen = BTreeMap::new();
    let (tls, scheme) = (demanding.server.tls_addr().expect("the server has a TLS address"), secured(kind));
    let plain = demanding.server.addr();
    let certificates = &demanding.certificates;
    for (mistake, names, validity) in [
        ("the server's certificate has expired", ["127.0.0.1"], Validity::Over),
        ("the server's certificate is not valid yet", ["127.0.0.1"], Validity::ToCome),
        ("the server's certificate has another name", ["elsewhere"], Validity::Now),
    ] {
        let certificates = Certificates::of(&names, validity).expect("made");
        let server = Secured::new(kind, certificates, false).await;
        seen.insert(mistake, refusal(&server.url("")).await);
        if mistake.ends_with("another name") {
            // The advice of the error works.
            let coordinator =
                open(&server.url("&server_name=elsewhere")).await.expect("the server has this other name");
            coordinator.close().await.expect("closed");
            // The system's authorities do not include the tests' authority.
            seen.insert(
                "no trusted authority signed the server's certificate",
                refusal(&server.at("")).await,
            );
        }
    }
    let none = refusal(&demanding.url("")).await;
    seen.insert("the server demands a client certificate, and the URL has none", none);
    let theirs = certificates.of_a_stranger().expect("written");
    let error = refusal(&demanding.at(&theirs)).await;
    seen.insert("the server does not trust the authority of the client's certificate", error);
    let expired = certificates.expired().expect("written");
    seen.insert("the client's certificate has expired", refusal(&demanding.at(&expired)).await);
    let file = |name: &str| certificates.path(name).display().to_string();
    seen.insert("the server uses TLS, and the URL does not", refusal(&format!("{kind}://{tls}")).await);
    let plainly = format!("{scheme}://{plain}?{}", certificates.mutual());
    seen.insert("the URL uses TLS, and the server does not", refusal(&plainly).await);
    seen.insert("a file does not exist", refusal(&format!("{scheme}://{tls}?ca=/nowhere.pem")).await);
    certificates.write("garbled.pem", "-----BEGIN").expect("written");
    seen.insert("a file is not PEM", refusal(&format!("{scheme}://{tls}?ca={}", file("garbled.pem"))).await);
    let other = format!("&cert={}&key={}", file("client.pem"), file("stranger.key"));
    seen.insert("`key` belongs to another certificate", refusal(&demanding.url(&other)).await);
    let half = format!("&cert={}", file("client.pem"));
    seen.insert("a certificate without a key", refusal(&demanding.url(&half)).await);
    let unused = format!("{kind}://{plain}?{}", certificates.trusting());
    seen.insert("`ca`, `cert`, `key` or `server_name` without TLS", refusal(&unused).await);
    seen
}

async fn every_mistake_gives_the_error_in_the_guide(kind: Kind) {
    let demanding = Secured::new(kind, Certificates::new().expect("made"), true).await;
    let coordinator = open(&demanding.mutual()).await.expect("client and server trust each other");
    let hold = coordinator.mutex("tls").expect("a key").acquire().await.expect("free");
    assert!(hold.is_held());
    hold.release().await.expect("released");
    coordinator.close().await.expect("closed");

    let mut table = Mistakes::of(include_str!("../../../src/guide/tls_errors.md"), "# When TLS fails");
    for (mistake, error) in mistakes(kind, &demanding).await {
        println!("{kind}: {error}");
        table.made(mistake, &error);
        assert!(!error.is_retryable(), "{error}");
    }
    table.all_made();
}

/// The new certificate is used at the reconnect, and not before.
async fn a_renewed_certificate_is_used_at_the_next_reconnect(kind: Kind) {
    let server = Secured::new(kind, Certificates::new().expect("made"), true).await;
    let proxy =
        Proxy::start(server.server.tls_addr().expect("the server has a TLS address")).await.expect("a port");
    let scheme = secured(kind);
    let url = format!("{scheme}://{}?{}&ttl=30s{PATIENT}", proxy.addr(), server.certificates.mutual());
    let coordinator = open(&url).await.expect("connected");
    let mutex = coordinator.mutex("renewed").expect("a key");
    mutex.acquire().await.expect("free").release().await.expect("released");

    let stranger = Authority::new("a stranger").expect("made").client("client", Validity::Now).expect("made");
    server.certificates.write("client.pem", &stranger.0).expect("written");
    server.certificates.write("client.key", &stranger.1).expect("written");
    proxy.sever();
    let error =
        mutex.acquire().within(std::time::Duration::from_secs(5)).await.expect_err("the client is refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

    server.certificates.renew_client("renewed").expect("written");
    let hold = mutex
        .acquire()
        .within(std::time::Duration::from_secs(20))
        .await
        .expect("the client is connected again");
    hold.release().await.expect("released");
    coordinator.close().await.expect("closed");
}

const URL: &str = "LATCHWORK_TEST_SYSTEM_TRUSTS";

/// A separate process gets the system's authorities by `SSL_CERT_FILE`.
async fn client_without_ca_trusts_the_system_authorities(kind: Kind) {
    if let Ok(url) = std::env::var(URL) {
        match open(&url).await {
            Ok(coordinator) => {
                coordinator.close().await.expect("closed");
                println!("it is trusted");
            }
            Err(error) => println!("{error}"),
        }
        return;
    }
    let server = Secured::new(kind, Certificates::new().expect("made"), false).await;
    let url = server.at("");
    let stranger = Authority::new("a stranger").expect("made");
    server.certificates.write("other.pem", stranger.certificate()).expect("written");
    for (file, says) in [("ca.pem", "it is trusted"), ("other.pem", "no trusted authority has signed")] {
        let name = format!("tls::{kind}::client_without_ca_trusts_the_system_authorities");
        let mut program = tokio::process::Command::new(std::env::current_exe().expect("this program"));
        program.args(["--exact", &name, "--nocapture"]).env(URL, &url).kill_on_drop(true);
        program.env("SSL_CERT_FILE", server.certificates.path(file)).env_remove("SSL_CERT_DIR");
        let output = program.output().await.expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(says), "{kind}, {file}: {said}");
    }
}

macro_rules! on {
    ($($feature:literal $name:ident $kind:ident;)*) => { $(
        #[cfg(feature = $feature)]
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn every_mistake_gives_the_error_in_the_guide() {
                super::every_mistake_gives_the_error_in_the_guide(Kind::$kind).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_renewed_certificate_is_used_at_the_next_reconnect() {
                super::a_renewed_certificate_is_used_at_the_next_reconnect(Kind::$kind).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn client_without_ca_trusts_the_system_authorities() {
                super::client_without_ca_trusts_the_system_authorities(Kind::$kind).await;
            }
        }
    )* };
}

on! {
    "redis" redis Redis;
    "zookeeper" zookeeper Zookeeper;
    "etcd" etcd Etcd;
}
