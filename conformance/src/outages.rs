//! Checks the log and the errors of a service during outages of a real server.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::{Config, Connector, Coordinator, Error, ErrorKind};

use crate::bounds::CONNECT;
use crate::log::Log;
use latchwork_servers::proxy::{Direction, Proxy};
use latchwork_servers::{Kind, Options, Server};

/// On a busy machine a server may stall for a second. Connects use this timeout too.
const REQUEST: Duration = Duration::from_secs(3);
/// Longer than all outages: a lost lease would add other lines to the log.
const TTL: Duration = Duration::from_secs(20);

/// Words; the text of an error must contain one of them.
pub type Words = &'static [&'static str];

/// The words of a backend for the three kinds of outage.
#[derive(Clone, Copy, Debug)]
pub struct OutageWords {
    /// Connections were closed.
    pub closed: Words,
    /// The server does not answer.
    pub silent: Words,
    /// No process listens on the port.
    pub refused: Words,
}

/// Asserts that outages are reported. A client connects through a proxy, which closes its connections, then becomes silent, and
/// then disappears. The log must have each outage with host, port and cause, and its end. The error of each request must have
/// host and port, the time that it tried, and the cause. All events at info and above must be in the guide's tables. Call it
/// on a current-thread runtime.
///
/// # Panics
/// If an outage is not reported so, or if no server starts.
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
    // A close cannot reach the server: the lease frees everything.
    latchwork_core::crash(&client).await;
    let undocumented = log.undocumented();
    assert!(undocumented.is_empty(), "not in the guide's tables: {undocumented:#?}");
}

/// Returns the error of one request. It is a listing, because that has no deadline except the request timeout. A try also has a
/// later one, which may come first on a busy machine.
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
