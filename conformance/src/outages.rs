//! The log and the errors of a service during outages of a server.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::{Config, Connector, Coordinator, Error, ErrorKind};

use crate::bounds::CONNECT;
use crate::log::Log;
use latchwork_servers::proxy::{Direction, Proxy};
use latchwork_servers::{Kind, Options, Server};

/// A server of a busy machine may stall for a second, also at a connect.
const REQUEST: Duration = Duration::from_secs(3);
/// A lost lease would add lines to the log.
const TTL: Duration = Duration::from_secs(20);

/// An error must contain one of these words.
pub type Words = &'static [&'static str];

/// The words of a backend for each outage.
#[derive(Clone, Copy, Debug)]
pub struct OutageWords {
    /// Connections were closed.
    pub closed: Words,
    /// The server does not answer.
    pub silent: Words,
    /// No process listens on the port.
    pub refused: Words,
}

/// A proxy closes the connections, becomes silent, and disappears. Asserts that the log has each outage with
/// host, port, cause and end, and each error host, port, time and cause. Needs a current-thread runtime.
pub async fn are_reported(kind: Kind, connector: Arc<dyn Connector>, says: OutageWords) {
    let server = Server::start(kind, Options::new().own()).await.unwrap_or_else(|error| panic!("{error}"));
    let proxy = Proxy::start(server.addr()).await.expect("a port");
    let host = proxy.addr().to_string();
    let log = Log::listen();
    let mut config = Config::from_url(server.url()).expect("the server's URL");
    config.hosts = vec![host.clone()];
    (config.ttl, config.request_timeout, config.connect_timeout) = (TTL, REQUEST, CONNECT);
    let client = latchwork_core::connect(&[connector], &config).await.expect("connected");
    let connected = log.nth("latchwork.connected", 1).await;
    assert_eq!((connected.field("backend"), connected.field("hosts")), (kind.name(), host.as_str()));

    proxy.cut();
    let line = log.nth("latchwork.disconnected", 1).await;
    assert!(line.field("host") == host && !line.field("cause").is_empty(), "{line:?}");
    named(&outage(&client).await, &host, says.closed);
    proxy.resume();
    let line = log.nth("latchwork.reconnected", 1).await;
    assert!(line.field("host") == host && line.field("after").ends_with('s'), "{line:?}");
    serves(&client).await;

    proxy.hold(Direction::ToServer);
    proxy.hold(Direction::ToClient);
    named(&outage(&client).await, &host, says.silent);
    log.nth("latchwork.disconnected", 2).await;
    proxy.resume();
    log.nth("latchwork.reconnected", 2).await;
    serves(&client).await;

    drop(proxy);
    log.nth("latchwork.disconnected", 3).await;
    named(&outage(&client).await, &host, says.refused);
    latchwork_core::crash(&client).await;
    let undocumented = log.undocumented();
    assert!(undocumented.is_empty(), "not in the guide's tables: {undocumented:#?}");
}

/// A try has a second deadline, which may come first on a busy machine.
async fn outage(client: &Coordinator) -> Error {
    let mutex = client.mutex("a").expect("a good key");
    let error = mutex.queue().first(1).await.expect_err("no server answers");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    error
}

async fn serves(client: &Coordinator) {
    let mutex = client.mutex("a").expect("a good key");
    let hold = tokio::time::timeout(Duration::from_secs(60), mutex.acquire())
        .await
        .expect("the client acquires within 60 s after the outage");
    hold.expect("the server answers again").release().await.expect("held until then");
}

fn named(error: &Error, host: &str, words: Words) {
    let text = error.to_string();
    println!("{text}");
    assert!(text.contains(&format!("at {host} after ")), "no host, port and duration in: {text}");
    assert!(words.iter().any(|word| text.contains(word)), "none of {words:?} in: {text}");
}
