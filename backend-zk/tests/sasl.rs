use std::io::Write as _;
use std::path::Path;

use crate::common::acls::{lists, made};
use crate::common::{at, config, loses_its_session, server, soon, started};
use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::{Certificates, Options, Server};
use latchwork_core::{Config, Coordinator, Error, ErrorKind, Secret};
use tempfile::NamedTempFile;
use tokio::sync::OnceCell;
use zookeeper_client::SaslOptions;

const RIGHT: &str = "right-hunter2";
const WRONG: &str = "wrong-hunter3";

fn users() -> Options {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let text = format!("Server {{ {module} required user_app=\"{RIGHT}\" user_other=\"{RIGHT}\"; }};");
    // A starting server reads the whole file or none.
    let mut written = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    written
        .write_all(text.as_bytes())
        .and_then(|()| written.persist(&file).map_err(|error| error.error))
        .expect("written");
    let provider = "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    let jaas = format!("-Djava.security.auth.login.config={}", file.display());
    Options::new().own().args([jaas.as_str(), provider])
}

static SHARED: OnceCell<Server> = OnceCell::const_new();

/// The default accepts no failed login, and demands none.
async fn strict() -> &'static Server {
    SHARED.get_or_init(async || started(users()).await).await
}

fn login(addr: &str, user: &str, password: &str) -> Config {
    let mut config = config(addr);
    (config.user, config.password) = (Some(user.to_owned()), Some(Secret::new(password)));
    config.option("sasl", "true")
}

async fn refused(config: &Config) -> Error {
    let error = at(config).await.expect_err("the server accepted the login");
    let text = format!("{error} {error:?} {error:#?}");
    assert!(!text.contains(RIGHT) && !text.contains(WRONG), "{text}");
    println!("{error}");
    error
}

async fn are_all_of(server: &Server, config: &Config, user: &str) {
    let login = SaslOptions::digest_md5(user.to_owned(), RIGHT);
    let owner = crate::common::foreign().with_sasl(login).connect(server.addr()).await.expect("logged in");
    let lists = lists(&owner, &format!("/{}", config.namespace)).await;
    assert!(lists.len() > 10, "{lists:?}");
    for (path, acls) in lists {
        let theirs = acls.iter().all(|acl| acl.scheme() == "sasl" && acl.id() == user);
        assert!(theirs && !acls.is_empty(), "{path}: {acls:?}");
    }
}

#[tokio::test]
async fn every_node_is_of_the_user_alone_and_no_other_one_gets_in() {
    let server = strict().await;
    let config = login(server.addr(), "app", RIGHT);
    let client = at(&config).await.unwrap();
    let held = made(&client).await;
    are_all_of(server, &config, "app").await;
    let mut other = login(server.addr(), "other", RIGHT);
    other.namespace.clone_from(&config.namespace);
    for config in [other, config.option("sasl", "false")] {
        let error = refused(&config).await;
        assert!(error.kind() == ErrorKind::Forbidden, "{error}");
    }
    for (user, password) in [("app", WRONG), ("nobody", WRONG)] {
        let error = refused(&login(server.addr(), user, password)).await;
        assert!(error.to_string().contains("forbidden: log in"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
        assert!(!error.is_retryable());
    }
    drop(held);
    client.close().await.unwrap();
}

/// The client's number and the server's challenge are new each time.
#[tokio::test]
async fn the_login_works_each_time() {
    let server = strict().await;
    let config = login(server.addr(), "app", RIGHT);
    for _ in 0..48 {
        at(&config).await.unwrap().close().await.unwrap();
    }
}

#[tokio::test]
async fn reopened_session_is_logged_in() {
    let server = strict().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let config = login(&proxy.addr().to_string(), "app", RIGHT);
    let client = at(&config).await.unwrap();
    let mutex = client.mutex("a").unwrap();
    let hold = mutex.acquire().await.unwrap();
    proxy.sever();
    soon(hold.release()).await.unwrap();
    loses_its_session(&client, &proxy).await;
    let held = soon(made(&client)).await;
    are_all_of(server, &config, "app").await;
    drop(held);
    client.close().await.unwrap();
}

async fn goes_on_behind(proxy: &Proxy, client: &Coordinator) {
    let (mutex, value) = (client.mutex("behind").unwrap(), client.shared_value("behind").unwrap());
    let mut watch = soon(value.watch()).await.unwrap();
    assert_eq!(soon(watch.changed()).await.unwrap(), None);
    let hold = soon(mutex.acquire()).await.unwrap();
    proxy.sever();
    soon(hold.release()).await.unwrap();
    soon(value.write("told")).await.unwrap();
    assert!(soon(watch.changed()).await.unwrap().is_some());
}

/// The client crate sets its watches again before its login is complete.
#[tokio::test]
async fn a_session_outlives_a_connection_where_a_login_is_demanded() {
    let demands = ["-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=sasl"];
    let server = started(users().args(demands)).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let client = at(&login(&proxy.addr().to_string(), "app", RIGHT)).await.unwrap();
    goes_on_behind(&proxy, &client).await;
    client.close().await.unwrap();
}

/// These servers accept a login, but give it no identity.
#[tokio::test]
async fn every_mistake_gives_the_error_in_the_guide() {
    let mut table = Mistakes::of(include_str!("../../src/guide/tls_errors.md"), "# When SASL fails");
    let without = server().await;
    let lenient = started(users().args(["-Dzookeeper.allowSaslFailedClients=true"])).await;
    let lets_in = "the server lets in clients whose login failed (`zookeeper.allowSaslFailedClients`)";
    for (server, password, mistake) in
        [(without, RIGHT, "the server has no users"), (&lenient, WRONG, lets_in)]
    {
        let error = refused(&login(server.addr(), "app", password)).await;
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
        assert!(error.to_string().contains("forbidden: log in by SASL"), "{error}");
        table.made(mistake, &error);
    }
    let strict = strict().await;
    table.made("the user or the password is wrong", &refused(&login(strict.addr(), "app", WRONG)).await);
    let nobody = config(strict.addr()).option("sasl", "true");
    table.made("the URL has no login", &refused(&nobody).await);
    table.all_made();
    at(&login(lenient.addr(), "app", RIGHT)).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn it_goes_over_tls_with_certificates_on_both_sides() {
    let certificates = Certificates::new().unwrap();
    let server = started(users().tls(certificates.server(true))).await;
    let over_tls = |password: &str| {
        let mut config = login(&server.tls_addr().expect("the server has a TLS address"), "app", password);
        config.tls = true;
        let path = |name: &str| Some(certificates.path(name));
        (config.ca, config.cert, config.key) = (path("ca.pem"), path("client.pem"), path("client.key"));
        config
    };
    let proxy = Proxy::start(&server.tls_addr().expect("the server has a TLS address")).await.unwrap();
    let mut config = over_tls(RIGHT);
    config.hosts = vec![proxy.addr().to_string()];
    let client = at(&config).await.unwrap();
    let held = made(&client).await;
    goes_on_behind(&proxy, &client).await;
    drop(held);
    client.close().await.unwrap();
    let error = refused(&over_tls(WRONG)).await;
    assert!(error.kind() == ErrorKind::Forbidden, "{error}");
}
