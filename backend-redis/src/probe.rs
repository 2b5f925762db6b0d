//! Who answers on a port that does not speak our protocol: the client crate tells nothing apart.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long each question may take.
const PATIENCE: Duration = Duration::from_millis(700);

/// Who answers in Redis' place.
pub(crate) enum Stranger {
    /// A server that is surely none.
    Named(String),
    /// It takes the connection and closes it: so does a proxy whose Redis is down.
    HangsUp,
}

/// `None` when it is a Redis, or nobody answers.
pub(crate) async fn stranger(host: &str, port: u16) -> Option<Stranger> {
    // Silent, or not there: a Redis may be frozen.
    let answer = ask(host, port, b"PING\r\n").await.ok()?;
    // A Redis answers +PONG, or an error such as -NOAUTH.
    if answer.starts_with('+') || answer.starts_with('-') {
        return None;
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

/// What it answers; nothing, where it hangs up.
async fn ask(host: &str, port: u16, question: &[u8]) -> io::Result<String> {
    let talk = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        // Who answers before it is asked, and closes, is heard all the same.
        let _ = stream.write_all(question).await;
        let mut answer = Vec::new();
        let mut buffer = [0; 512];
        // What Redis says is one line; an HTTP answer ends with the connection.
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
