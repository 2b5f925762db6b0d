//! Who answers on a port that does not speak our protocol: the client crate tells nothing apart.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long each question may take.
const PATIENCE: Duration = Duration::from_millis(700);

/// The name of the server, when it is surely no Redis; `None` when it is one, or says nothing.
pub(crate) async fn foreigner(host: &str, port: u16) -> Option<String> {
    let answer = ask(host, port, b"PING\r\n").await;
    match &answer {
        // A Redis answers +PONG, or an error such as -NOAUTH.
        Ok(text) if text.starts_with('+') || text.starts_with('-') => return None,
        // Silent, or not there: a Redis may be frozen.
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => return None,
        _ => {}
    }
    let zookeeper = ask(host, port, b"ruok").await;
    if zookeeper.is_ok_and(|text| text.starts_with("imok") || text.contains("whitelist")) {
        return Some("ZooKeeper".to_owned());
    }
    let version = ask(host, port, b"GET /version HTTP/1.0\r\n\r\n").await.unwrap_or_default();
    if version.contains("etcdserver") {
        return Some("etcd".to_owned());
    }
    if version.starts_with("HTTP/") {
        return Some("an HTTP server".to_owned());
    }
    match answer {
        Ok(text) if !text.is_empty() => {
            let shown: String = text.chars().take(40).collect();
            Some(format!("a server that answers {shown:?} to PING"))
        }
        // It hangs up on PING: no Redis does, unless it has no room for us, which it would say.
        _ => Some("a server that hangs up on PING".to_owned()),
    }
}

async fn ask(host: &str, port: u16, question: &[u8]) -> io::Result<String> {
    let talk = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.write_all(question).await?;
        let mut answer = Vec::new();
        let mut buffer = [0; 512];
        // What Redis says is one line; an HTTP answer ends with the connection.
        loop {
            let read = stream.read(&mut buffer).await?;
            answer.extend_from_slice(&buffer[..read]);
            let line = !answer.starts_with(b"HTTP/") && answer.contains(&b'\n');
            if read == 0 || line || answer.len() > 4096 {
                return Ok(String::from_utf8_lossy(&answer).into_owned());
            }
        }
    };
    tokio::time::timeout(PATIENCE, talk).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
