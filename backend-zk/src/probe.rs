//! The probe of an address before a session is opened: it distinguishes a ZooKeeper from another
//! server. The client crate waits for either until its timeout, and reports only the timeout.

use std::io;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use latchwork_core::support::{Backoff, Pauses, Transport, note_failure, speaks_tls};
use latchwork_core::{Error, ErrorKind, Result, seen};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::config::{NAME, Settings};

/// The one four-letter word that a server allows by default.
const WORD: &[u8] = b"srvr";

/// How long a ZooKeeper may take to answer before a line end is sent behind the word. Servers that
/// read lines (Redis, HTTP) answer only to that, and it could cut off a ZooKeeper's answer.
const PATIENCE: Duration = Duration::from_millis(750);

/// How long the other hosts may take to answer once one may serve yet: what a host that is no ZooKeeper
/// needs to be known.
const OTHERS: Duration = PATIENCE.saturating_mul(2);

/// The oldest server with all that is needed: container nodes, and their removal without its bug.
const OLDEST: (u32, u32, u32) = (3, 5, 3);

/// What a host is.
#[derive(Debug)]
pub(crate) enum Probed {
    /// A ZooKeeper that serves.
    Serves,
    /// A ZooKeeper that says it has no quorum, or a server that hangs up without a word, as a ZooKeeper
    /// without a quorum does where it has Netty (with TLS, that is). It may serve yet.
    Waits(Error),
}

/// Probes the hosts until one of them is a ZooKeeper that serves, as long as one may serve yet. It has no
/// bound: the caller bounds the whole of connecting.
///
/// # Errors
/// The most specific one of the hosts: `WrongServer`, `Misconfigured` (too old), else
/// `Unavailable`, where none may serve yet.
pub(crate) async fn probe(settings: &Settings) -> Result<()> {
    let mut pauses = Backoff::new(Pauses::OUTAGE);
    while let Probed::Waits(error) = probe_all(settings).await? {
        note_failure(&error);
        pauses.wait(&settings.clock).await;
    }
    Ok(())
}

/// Probes all hosts at once.
async fn probe_all(settings: &Settings) -> Result<Probed> {
    let Settings { hosts, transport, .. } = settings;
    let mut probes: FuturesUnordered<_> = hosts.iter().map(|host| probe_one(host, transport)).collect();
    let (mut waits, mut worst): (_, Option<Error>) = (None, None);
    loop {
        let next = match &waits {
            None => probes.next().await,
            // The one that is silent may have been the leader: the others are asked again without it.
            Some(_) => tokio::time::timeout(OTHERS, probes.next()).await.unwrap_or(None),
        };
        let Some(probed) = next else { break };
        match probed {
            Ok(Probed::Serves) => return Ok(Probed::Serves),
            Ok(Probed::Waits(error)) => waits = Some(error),
            Err(error) if worst.as_ref().is_none_or(|worst| worst.kind() == ErrorKind::Unavailable) => {
                worst = Some(error);
            }
            Err(_) => {}
        }
    }
    let is_unavailable = |error: &Error| error.kind() == ErrorKind::Unavailable;
    match (waits, worst) {
        (Some(error), worst) if worst.as_ref().is_none_or(is_unavailable) => Ok(Probed::Waits(error)),
        (_, worst) => Err(worst.unwrap_or_else(|| Error::invalid("url", "no host"))),
    }
}

async fn probe_one(host: &str, transport: &Transport) -> Result<Probed> {
    let transport = &transport.apart();
    let unavailable = |what: &str| Error::new(ErrorKind::Unavailable, format!("{host}: {what}"));
    let mut stream = match transport.dial(host).await {
        Ok(stream) => stream,
        Err(error) if is_end(&error) => {
            return hung_up(host, transport, unavailable(HUNG_UP).because(error)).await;
        }
        Err(error) => {
            return Err(refused(host, transport, unavailable("cannot connect").because(error)).await);
        }
    };
    let mut answer = Vec::new();
    let exchange = async {
        stream.write_all(WORD).await?;
        stream.flush().await?;
        if tokio::time::timeout(PATIENCE, stream.read_buf(&mut answer)).await.is_err() {
            stream.write_all(b"\r\n").await?;
            stream.flush().await?;
        }
        // A ZooKeeper closes behind its answer. Of other servers the first bytes are enough.
        while answer.len() < 4096 && !is_foreign(&answer) && stream.read_buf(&mut answer).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    let ended = exchange.await;
    let answer = String::from_utf8_lossy(&answer);
    let judged = match answer.is_empty() {
        false => judge(host, &answer),
        true => hung_up(host, transport, unavailable(HUNG_UP).because_of(ended.err())).await,
    };
    match judged {
        // An etcd does not understand the word, and names itself when it is asked over HTTP.
        Err(_) | Ok(Probed::Waits(_))
            if (answer.is_empty() || answer.starts_with("HTTP/")) && is_etcd(host).await =>
        {
            Err(wrong(host, "etcd".to_owned()))
        }
        judged => judged,
    }
}

const HUNG_UP: &str = "hangs up: it has no quorum, or takes no more connections (maxClientCnxns), or is a proxy \
                       whose ZooKeeper is down, or is no ZooKeeper";

/// Whether the other side has ended a connection that stood.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// What a host is that ends a connection without a word.
async fn hung_up(host: &str, transport: &Transport, error: Error) -> Result<Probed> {
    match refused(host, transport, error).await {
        error if error.kind() == ErrorKind::Unavailable => Ok(Probed::Waits(error)),
        error => Err(error),
    }
}

/// Why a host takes no connection as it was asked for: what TLS says, or that one of the two speaks it
/// and the other does not; else `error`.
async fn refused(host: &str, transport: &Transport, error: Error) -> Error {
    if let Some(failure) = transport.failure() {
        return failure;
    }
    let saw = if !transport.is_tls() {
        speaks_tls(host).await.then_some("a TLS server (zookeeper+tls:// asks for TLS)")
    } else {
        let answer = exchange(host, WORD, &Transport::default()).await.unwrap_or_default();
        let is_zookeeper = !answer.is_empty() && !is_foreign(answer.as_bytes());
        is_zookeeper.then_some("a ZooKeeper that does not speak TLS (it is zookeeper:// without)")
    };
    saw.map_or(error, |saw| wrong(host, saw.to_owned()))
}

/// The role of a server in its ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerRole {
    Alone,
    Leader,
    Follower,
}

/// What a server answers to [`WORD`]. `None` where it does not answer.
pub(crate) async fn said(host: &str, transport: &Transport) -> Option<String> {
    exchange(host, WORD, &transport.apart()).await
}

/// The role of a server, and the number of its last transaction. `None` where it does not answer.
pub(crate) async fn ask(host: &str, transport: &Transport) -> Option<(ServerRole, i64)> {
    read_state(&said(host, transport).await?)
}

pub(crate) fn read_state(answer: &str) -> Option<(ServerRole, i64)> {
    let value = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let role = match value("Mode:")? {
        "standalone" => ServerRole::Alone,
        "leader" => ServerRole::Leader,
        "follower" | "observer" => ServerRole::Follower,
        _ => return None,
    };
    let last = i64::from_str_radix(value("Zxid:")?.strip_prefix("0x")?, 16).ok()?;
    Some((role, last))
}

async fn is_etcd(host: &str) -> bool {
    let answer = exchange(host, b"GET /version HTTP/1.0\r\n\r\n", &Transport::default()).await;
    answer.is_some_and(|answer| answer.contains("etcdserver"))
}

/// The start of what a host answers within [`PATIENCE`].
async fn exchange(host: &str, word: &[u8], transport: &Transport) -> Option<String> {
    let exchange = async {
        let mut stream = transport.dial(host).await?;
        stream.write_all(word).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        match stream.take(4096).read_to_end(&mut answer).await {
            // Some servers end TLS without its last word.
            Err(error) if answer.is_empty() => Err(error),
            _ => Ok(answer),
        }
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await.ok()?.ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

fn wrong(host: &str, saw: String) -> Error {
    let why = format!("{host} answers, but not as this URL says");
    Error::wrong_server("zookeeper", &saw, &why)
}

/// Whether no answer of a ZooKeeper begins like this.
pub(crate) fn is_foreign(answer: &[u8]) -> bool {
    let starts = ["Zookeeper version:", "srvr is not executed", "This ZooKeeper instance"];
    !answer.is_empty()
        && !starts.iter().any(|start| {
            let common = start.len().min(answer.len());
            start.as_bytes()[..common] == answer[..common]
        })
}

pub(crate) fn judge(host: &str, answer: &str) -> Result<Probed> {
    let waits = |what: &str| Ok(Probed::Waits(Error::new(ErrorKind::Unavailable, format!("{host}: {what}"))));
    if answer.starts_with("srvr is not executed") {
        // Its version is unknown, but no other server answers so.
        let what = "the version of this server is not checked: 4lw.commands.whitelist does not allow srvr";
        seen::advice(NAME, host, &what);
        return Ok(Probed::Serves);
    }
    if answer.starts_with("This ZooKeeper instance") {
        return waits("this server is not serving: it has no quorum");
    }
    let Some(version) = answer.strip_prefix("Zookeeper version:") else {
        let line = answer.lines().next().unwrap_or_default();
        return Err(wrong(
            host,
            match line.as_bytes() {
                // A Redis answers so to an unknown word, or before a login.
                [b'-', ..] if line.contains("unknown command") || line.starts_with("-NOAUTH") => {
                    "Redis".to_owned()
                }
                _ if line.starts_with("HTTP/") => "an HTTP server".to_owned(),
                _ => {
                    format!("a server that answers {:?} to srvr", line.chars().take(40).collect::<String>())
                }
            },
        ));
    };
    if answer.contains("Mode: read-only") {
        return waits("this server is read-only: it is cut off from its quorum");
    }
    match parse(version) {
        Some(version) if version < OLDEST => {
            let dotted = |(major, minor, patch)| format!("{major}.{minor}.{patch}");
            let why =
                format!("{host} is ZooKeeper {}, at least {} is needed", dotted(version), dotted(OLDEST));
            Err(Error::new(ErrorKind::Misconfigured, why))
        }
        _ => Ok(Probed::Serves),
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
        judge("h:1", answer).err().map(|error| error.kind())
    }

    #[test]
    fn a_zookeeper_without_a_quorum_is_waited_for() {
        for answer in [
            "This ZooKeeper instance is not currently serving requests\n",
            "Zookeeper version: 3.9.1, built on\nMode: read-only\n",
        ] {
            let Ok(Probed::Waits(error)) = judge("h:1", answer) else { panic!("{answer}") };
            assert!(error.to_string().contains("quorum"), "{error}");
        }
    }

    #[test]
    fn answers_of_servers_are_distinguished() {
        let modern = "Zookeeper version: 3.8.0-5a02a05, built on 2022-02-25 08:49 UTC\nMode: standalone\n";
        assert_eq!(kind(modern), None);
        assert_eq!(kind("srvr is not executed because it is not in the whitelist.\n"), None);
        assert_eq!(kind("Zookeeper version: 3.4.14-4c25d48, built on x\n"), Some(ErrorKind::Misconfigured));
        for (answer, name) in [
            ("-ERR unknown command 'srvr', with args beginning with: \r\n", "Redis"),
            ("-NOAUTH Authentication required.\r\n", "Redis"),
            ("HTTP/1.1 400 Bad Request\r\n", "an HTTP server"),
            ("220 mail.example ESMTP\r\n", "a server that answers \"220 mail.example ESMTP\" to srvr"),
        ] {
            let error = judge("h:1", answer).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
            assert!(error.to_string().contains(&format!("expected zookeeper, saw {name}")), "{error}");
        }
    }

    #[test]
    fn the_role_and_the_last_transaction_of_a_server_are_read() {
        let answer = |mode: &str, zxid: &str| {
            read_state(&format!(
                "Zookeeper version: 3.8.0\nConnections: 1\nZxid: {zxid}\nMode: {mode}\nNode count: 5\n"
            ))
        };
        assert_eq!(answer("standalone", "0x1f"), Some((ServerRole::Alone, 31)));
        assert_eq!(answer("leader", "0x100000000"), Some((ServerRole::Leader, 1 << 32)));
        assert_eq!(answer("observer", "0x0"), Some((ServerRole::Follower, 0)));
        for (mode, zxid) in
            [("read-only", "0x1"), ("leader", "1"), ("leader", "0xfffffffffffffffff"), ("", "")]
        {
            assert_eq!(answer(mode, zxid), None);
        }
        assert_eq!(read_state("This ZooKeeper instance is not currently serving requests\n"), None);
    }

    #[test]
    fn a_foreign_answer_is_known_by_its_first_bytes() {
        assert!(is_foreign(b"-ERR") && is_foreign(b"HTTP/1.1 400"));
        assert!(!is_foreign(b"") && !is_foreign(b"Zoo") && !is_foreign(b"Zookeeper version: 3"));
    }
}
