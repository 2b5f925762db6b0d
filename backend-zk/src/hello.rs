//! A greeting of our own, which tells a ZooKeeper from another server: the client crate waits for either
//! until its timeout, and says no more than that.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use latchwork_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The one four-letter word that a server allows unless told otherwise.
const WORD: &[u8] = b"srvr";

/// How long a ZooKeeper may take to answer before a line end is sent behind the word: servers that read
/// lines (Redis, HTTP) answer only then, and a ZooKeeper's answer could be cut off by it.
const PATIENCE: Duration = Duration::from_millis(750);

/// The oldest server that keeps what is asked of it (container nodes, and their removal mended).
const OLDEST: (u32, u32, u32) = (3, 5, 3);

/// Greets all hosts at once; content when one of them is a ZooKeeper that serves.
///
/// # Errors
/// `WrongServer`, `Misconfigured` (too old), else `Unavailable`: the most telling of what the hosts gave.
pub(crate) async fn greet(hosts: &[String]) -> Result<()> {
    let mut greetings: FuturesUnordered<_> = hosts.iter().map(|host| greet_one(host)).collect();
    let mut worst: Option<Error> = None;
    while let Some(greeting) = greetings.next().await {
        match greeting {
            Ok(()) => return Ok(()),
            Err(error) if worst.as_ref().is_none_or(|worst| *worst.kind() == ErrorKind::Unavailable) => {
                worst = Some(error);
            }
            Err(_) => {}
        }
    }
    Err(worst.unwrap_or_else(|| Error::invalid("url", "no host")))
}

async fn greet_one(host: &str) -> Result<()> {
    let unavailable = |what: &str| Error::new(ErrorKind::Unavailable, format!("{host}: {what}"));
    let mut stream =
        TcpStream::connect(host).await.map_err(|error| unavailable("cannot connect").because(error))?;
    let mut answer = Vec::new();
    let exchange = async {
        stream.write_all(WORD).await?;
        if tokio::time::timeout(PATIENCE, stream.read_buf(&mut answer)).await.is_err() {
            stream.write_all(b"\r\n").await?;
        }
        // A ZooKeeper closes behind its answer; of others the first bytes are enough.
        while answer.len() < 4096 && !is_foreign(&answer) && stream.read_buf(&mut answer).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    let ended = exchange.await;
    let answer = String::from_utf8_lossy(&answer);
    if answer.is_empty() {
        let error = unavailable("closed the connection without an answer");
        return Err(match ended {
            Err(cause) => error.because(cause),
            Ok(()) => error,
        });
    }
    judge(host, &answer)
}

/// Whether the answer so far cannot be the beginning of a ZooKeeper's.
fn is_foreign(answer: &[u8]) -> bool {
    let starts = ["Zookeeper version:", "srvr is not executed", "This ZooKeeper instance"];
    !answer.is_empty()
        && !starts.iter().any(|start| {
            let common = start.len().min(answer.len());
            start.as_bytes()[..common] == answer[..common]
        })
}

fn judge(host: &str, answer: &str) -> Result<()> {
    let unavailable = |what: &str| Err(Error::new(ErrorKind::Unavailable, format!("{host}: {what}")));
    if answer.starts_with("srvr is not executed") {
        // Not allowed to tell more, but no other server would say so.
        return Ok(());
    }
    if answer.starts_with("This ZooKeeper instance") {
        return unavailable("this server is not serving: it has no quorum");
    }
    let Some(version) = answer.strip_prefix("Zookeeper version:") else {
        let saw = answer.lines().next().unwrap_or_default().chars().take(80).collect();
        return Err(Error::new(
            ErrorKind::WrongServer { expected: "zookeeper", saw },
            format!("{host} answers, but is no ZooKeeper"),
        ));
    };
    if answer.contains("Mode: read-only") {
        return unavailable("this server is read-only: it is cut off from its quorum");
    }
    match parse(version) {
        Some(version) if version < OLDEST => Err(Error::new(
            ErrorKind::Misconfigured,
            format!("{host} is ZooKeeper {version:?}, at least {OLDEST:?} is needed"),
        )),
        _ => Ok(()),
    }
}

/// `3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on …`
fn parse(version: &str) -> Option<(u32, u32, u32)> {
    let number = version.trim_start().split(['-', ',', ' ']).next()?;
    let mut parts = number.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(answer: &str) -> Option<ErrorKind> {
        judge("h:1", answer).err().map(|error| error.kind().clone())
    }

    #[test]
    fn answers_are_told_apart() {
        let modern = "Zookeeper version: 3.8.0-5a02a05, built on 2022-02-25 08:49 UTC\nMode: standalone\n";
        assert_eq!(kind(modern), None);
        assert_eq!(kind("srvr is not executed because it is not in the whitelist.\n"), None);
        assert_eq!(kind("Zookeeper version: 3.4.14-4c25d48, built on x\n"), Some(ErrorKind::Misconfigured));
        assert_eq!(
            kind("Zookeeper version: 3.9.1, built on\nMode: read-only\n"),
            Some(ErrorKind::Unavailable)
        );
        let redis = kind("-ERR unknown command 'srvr', with args beginning with: \r\n");
        assert!(matches!(redis, Some(ErrorKind::WrongServer { expected: "zookeeper", .. })), "{redis:?}");
    }

    #[test]
    fn a_foreign_answer_is_known_by_its_first_bytes() {
        assert!(is_foreign(b"-ERR") && is_foreign(b"HTTP/1.1 400"));
        assert!(!is_foreign(b"") && !is_foreign(b"Zoo") && !is_foreign(b"Zookeeper version: 3"));
    }
}
