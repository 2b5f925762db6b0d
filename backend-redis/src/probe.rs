//! Which kind of server answers at an address. The client crate's errors do not show it.

use std::io;
use std::time::Duration;

use latchwork_core::support::speaks_tls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::config::{Host, Servers};

/// The bound of each question.
const PATIENCE: Duration = Duration::from_millis(700);

/// How long a server that answers nothing is asked.
pub(crate) const OF_SILENCE: Duration = Duration::from_millis(1400);

/// What answers in Redis' place.
pub(crate) enum Stranger {
    /// A server of this kind, which surely is no Redis.
    Named(String),
    /// It takes the connection and closes it, as a proxy does whose Redis is down.
    HangsUp,
}

/// `None` for a Redis, and where nothing answers. `tls`: the client speaks it. All questions are asked in the clear.
pub(crate) async fn stranger(at: &Host, meant: &Servers, tls: bool) -> Option<Stranger> {
    let (host, port) = (at.name.as_str(), at.port);
    if speaks_tls(&at.to_string()).await {
        // Which server it is shows only within.
        let saw = format!("a TLS server ({}:// asks for TLS)", meant.scheme(true));
        return (!tls).then_some(Stranger::Named(saw));
    }
    // Silence is no proof: a Redis may be frozen.
    let answer = ask(host, port, b"PING\r\n").await.ok()?;
    // A Redis answers +PONG, or an error such as -NOAUTH.
    if answer.starts_with('+') || answer.starts_with('-') {
        let saw = format!("a Redis that does not speak TLS (it is {}:// without)", meant.scheme(false));
        return tls.then_some(Stranger::Named(saw));
    }
    let named = |name: &str| Some(Stranger::Named(name.to_owned()));
    let zookeeper = ask(host, port, b"ruok").await;
    if zookeeper.is_ok_and(|text| text.starts_with("imok") || text.contains("whitelist")) {
        return named("ZooKeeper");
    }
    let version = ask(host, port, b"GET /version HTTP/1.0\r\n\r\n").await.unwrap_or_default();
    if version.contains("etcdserver") {
        return named("etcd");
    }
    if version.starts_with("HTTP/") {
        return named("an HTTP server");
    }
    if answer.is_empty() {
        return Some(Stranger::HangsUp);
    }
    let shown: String = answer.chars().take(40).collect();
    named(&format!("a server that answers {shown:?} to PING"))
}

/// The answer to a question; empty when the server closes the connection instead.
async fn ask(host: &str, port: u16, question: &[u8]) -> io::Result<String> {
    let talk = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        // Some servers speak first and close: their words are still to be read when this fails.
        let _ = stream.write_all(question).await;
        let mut answer = Vec::new();
        let mut buffer = [0; 512];
        // Redis answers one line. An HTTP answer ends with the connection.
        loop {
            let read = match stream.read(&mut buffer).await {
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                read => read?,
            };
            answer.extend_from_slice(&buffer[..read]);
            let line = !answer.starts_with(b"HTTP/") && answer.contains(&b'\n');
            if read == 0 || line || answer.len() > 4096 {
                return Ok(String::from_utf8_lossy(&answer).into_owned());
            }
        }
    };
    tokio::time::timeout(PATIENCE, talk).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
