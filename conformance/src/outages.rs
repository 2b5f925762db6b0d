//! Outages of a real server, as the log and the errors of a service show them.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::{Config, Connector, Coordinator, Error, ErrorKind};

use crate::bounds::CONNECT;
use crate::log::Log;
use latchwork_servers::proxy::{Direction, Proxy};
use latchwork_servers::{Kind, Options, Server};

/// A busy machine may stall a server for a second, and connecting has the time of a request too.
const REQUEST: Duration = Duration::from_secs(3);
/// Longer than all outages: after the loss of the lease, the log says more than the outage.
const TTL: Duration = Duration::from_secs(20);

/// Words of which an error must have one.
pub type Words = &'static [&'static str];

/// What a backend says of the three outages.
#[derive(Clone, Copy, Debug)]
pub struct OutageWords {
    /// Connections are closed.
    pub closed: Words,
    /// Nothing comes back.
    pub silent: Words,
    /// Nobody listens on the port.
    pub refused: Words,
}

/// A client of a server behind a proxy that closes its connections, falls silent, and goes: each
/// outage stands in the log with host, port and cause, and so does its end; each request that fails
/// names host and port, how long it tried, and why. What is logged at info and above, with its
/// fields, stands in the guide's table. To be called on a current-thread runtime.
///
/// # Panics
/// Where it is otherwise, or no server can be had.
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
    // The server cannot be reached: the lease takes what there is.
    latchwork_core::crash(&client).await;
    let undocumented = log.undocumented();
    assert!(undocumented.is_empty(), "not in the guide's table: {undocumented:#?}");
}

/// The error of one request. A listing has only the deadline of its request. A try has a later deadline of its own,
/// which a busy machine may see first.
async fn outage(client: &Coordinator) -> Error {
    let mutex = client.mutex("a").expect("a good key");
    let error = mutex.queue().first(1).await.expect_err("no server answers");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    error
}

async fn serves(client: &Coordinator) {
    let mutex = client.mutex("a").expect("a good key");
    let hold = tokio::time::timeout(Duration::from_secs(60), mutex.acquire()).await.expect("it never came");
    hold.expect("it serves again").release().await.expect("held until then");
}

fn named(error: &Error, host: &str, words: Words) {
    let text = error.to_string();
    println!("{text}");
    assert!(text.contains(&format!("at {host} after ")), "no host, port and length: {text}");
    assert!(words.iter().any(|word| text.contains(word)), "none of {words:?} in: {text}");
}
