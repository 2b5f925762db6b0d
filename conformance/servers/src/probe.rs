use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Kind;

const PATIENCE: Duration = Duration::from_secs(2);

/// Sends a request on a new connection, and reads until the server closes it.
pub async fn ask(addr: &str, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(addr).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

pub(super) async fn ask_in_time(addr: &str, request: &str) -> io::Result<String> {
    timeout(PATIENCE, ask(addr, request)).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Another server may have taken the port first.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) pid: u32,
    /// The folder of its data.
    pub(super) folder: String,
}

/// `None`: no other server can have the port.
pub(super) async fn serves(kind: Kind, addr: &str, identity: Option<&Identity>) -> bool {
    match kind {
        Kind::Redis => redis(addr, identity).await,
        Kind::Zookeeper => zookeeper(addr, identity).await,
        Kind::Etcd => etcd(addr, identity).await,
    }
    // A server without an answer does not serve.
    .unwrap_or(false)
}

pub(super) async fn ask_redis(addr: &str, lines: &str) -> io::Result<String> {
    // A Sentinel has no QUIT. Both servers close the connection after an invalid request.
    ask_in_time(addr, &format!("{lines}*x\r\n")).await
}

async fn redis(addr: &str, identity: Option<&Identity>) -> io::Result<bool> {
    // A server that loads its data answers INFO, but not PING. A server that requires a password answers
    // neither.
    let answer = ask_redis(addr, "PING\r\nINFO server\r\n").await?;
    let ours = identity.is_none_or(|identity| answer.contains(&format!("process_id:{}\r\n", identity.pid)));
    Ok(answer.starts_with("-NOAUTH") || (answer.starts_with("+PONG") && ours))
}

async fn zookeeper(addr: &str, identity: Option<&Identity>) -> io::Result<bool> {
    if let Some(Identity { folder, .. }) = identity
        && !ask_in_time(addr, "conf").await?.contains(folder)
    {
        return Ok(false);
    }
    Ok(ask_in_time(addr, "srvr").await?.contains("Mode: "))
}

async fn etcd(addr: &str, identity: Option<&Identity>) -> io::Result<bool> {
    if let Some(Identity { folder, .. }) = identity {
        let variables = http_get(addr, "/debug/vars").await?;
        // A release without this page reports no identity. If its port is taken, it ends, which is noticed
        // too.
        if variables.contains("cmdline") && !variables.contains(folder) {
            return Ok(false);
        }
    }
    Ok(http_get(addr, "/health").await?.contains("\"true\""))
}

async fn http_get(addr: &str, path: &str) -> io::Result<String> {
    ask_in_time(addr, &format!("GET {path} HTTP/1.0\r\nHost: {addr}\r\n\r\n")).await
}
