//! The kind of a server, which the client crates do not report.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::backoff::{Backoff, Pauses};
use super::bounds::note_failure;
use super::transport::Transport;
use crate::clock::Clock;
use crate::config::Scheme;
use crate::error::{Error, ErrorKind, Result};

/// The time limit of a question to a server.
pub const PATIENCE: Duration = Duration::from_millis(750);

/// The time that [`stranger`] spends on a silent server.
pub const OF_SILENCE: Duration = PATIENCE.saturating_mul(2);

/// A ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2) without extensions. A TLS server of any version answers it
/// with its hello or an alert.
const HELLO: &[u8; 64] =
    // A handshake record of 59 bytes with a ClientHello of 55 bytes, 32 of them random.
    b"\x16\x03\x01\x00\x3b\x01\x00\x00\x37\x03\x03latchwork asks: is this TLS?????\
    \x00\x00\x10\x13\x01\x13\x02\xc0\x2b\xc0\x2c\xc0\x2f\xc0\x30\x00\x9c\x00\x2f\x01\x00";

/// The state of one host of a client.
#[derive(Debug)]
pub enum Probed {
    /// It is of the right kind, and serves.
    Serves,
    /// It may serve later. The error says why it does not serve now.
    Waits(Error),
}

/// Probes all hosts at the same time until one of them serves, and again while a host may serve later. The
/// caller limits the time.
///
/// # Errors
/// The most specific error of the hosts, if none may serve later. `Unavailable` is the least specific.
pub async fn find_server<'a, F>(
    hosts: &'a [String],
    clock: &Clock,
    probe: impl Fn(&'a str) -> F,
) -> Result<()>
where
    F: Future<Output = Result<Probed>>,
{
    let mut pauses = Backoff::new(Pauses::OUTAGE);
    while let Probed::Waits(error) = probe_all(hosts.iter().map(|host| probe(host)).collect()).await? {
        note_failure(&error);
        pauses.wait(clock).await;
    }
    Ok(())
}

async fn probe_all(mut probes: FuturesUnordered<impl Future<Output = Result<Probed>>>) -> Result<Probed> {
    let (mut waits, mut worst): (_, Option<Error>) = (None, None);
    let is_unavailable = |error: &Error| error.kind() == ErrorKind::Unavailable;
    loop {
        let next = match &waits {
            None => probes.next().await,
            // The silent server may have been the leader, so the others are asked again without it.
            Some(_) => timeout(OF_SILENCE, probes.next()).await.unwrap_or(None),
        };
        let Some(probed) = next else { break };
        match probed {
            Ok(Probed::Serves) => return Ok(Probed::Serves),
            Ok(Probed::Waits(error)) => waits = Some(error),
            Err(error) if worst.as_ref().is_none_or(is_unavailable) => worst = Some(error),
            Err(_) => {}
        }
    }
    match (waits, worst) {
        (Some(error), worst) if worst.as_ref().is_none_or(is_unavailable) => Ok(Probed::Waits(error)),
        (_, worst) => Err(worst.unwrap_or_else(|| Error::invalid("url", "has no host"))),
    }
}

/// Sends a greeting to a server, and returns its answer up to `enough`. `None` if the server closes the
/// connection, as a proxy does if its server is down. `is_own` judges whether an answer is of the kind of
/// `scheme`.
///
/// # Errors
/// * `WrongServer` if another kind of server answers.
/// * `Unavailable` if there is no connection.
/// * The error of a failed TLS handshake.
pub async fn greet(
    (host, transport, scheme): (&str, &Transport, Scheme<'static>),
    greeting: &[u8],
    enough: impl Fn(&[u8]) -> bool,
    is_own: impl Fn(&[u8]) -> bool,
) -> Result<Option<Vec<u8>>> {
    let wrong = |saw: &str| Error::wrong_server(scheme.backend, saw, &format!("at {host}"));
    let mut answer = pin!(exchange(host, transport, greeting, enough));
    let mut patience = PATIENCE;
    let answer = loop {
        if let Ok(answer) = timeout(patience, &mut answer).await {
            break answer;
        }
        // A server of another kind may wait for more input, and a busy one may answer late.
        if let Some(Stranger::Named(saw)) = stranger(host, scheme).await {
            return Err(wrong(&saw));
        }
        patience *= 2;
    };
    if let Some(why) = transport.failure() {
        return Err(why);
    }
    if let Ok(answer) = &answer
        && is_own(answer)
    {
        return Ok(Some(answer.clone()));
    }
    let is_connected = answer.as_ref().map_or_else(is_end, |_| true);
    match (stranger(host, scheme).await, answer) {
        (Some(Stranger::Named(saw)), _) => Err(wrong(&saw)),
        (_, Ok(answer)) if !answer.is_empty() => {
            Err(wrong(&format!("a server that answers {}", start(&answer))))
        }
        (_, Err(error)) if !is_connected => {
            Err(Error::new(ErrorKind::Unavailable, format!("cannot reach {host}")).because(error))
        }
        _ => Ok(None),
    }
}

/// A server of another kind than the client needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// The name of its kind.
    Named(String),
    /// It closes the connection, as a proxy does if its server is down.
    HangsUp,
}

/// Asks a server for its kind, without TLS. `None`: it may be of the kind of `scheme`, or it does not answer.
pub async fn stranger(address: &str, scheme: Scheme<'_>) -> Option<Stranger> {
    let named = |name: String| Some(Stranger::Named(name));
    let known = |name: &str| match (name.eq_ignore_ascii_case(scheme.backend), scheme.tls) {
        (true, false) => None,
        (true, true) => {
            let plain = Scheme { tls: false, ..scheme };
            named(format!("{name} that does not speak TLS ({plain}:// is the scheme without TLS)"))
        }
        (false, _) => named(name.to_owned()),
    };
    let answer = ask(address, b"PING\r\n", is_whole).await;
    // Redis answers +PONG, or an error such as -NOAUTH.
    if let Ok([b'+' | b'-', ..]) = answer.as_deref() {
        return known("Redis");
    }
    // A record (RFC 5246, 6.2.1): an alert or a handshake, of a version 3.x.
    if let Ok([0x15 | 0x16, 3, ..]) = ask(address, HELLO, |answer| answer.len() >= 2).await.as_deref() {
        // Only a client with TLS sees the kind.
        return match scheme.tls {
            true => None,
            false => named(format!("a TLS server ({}:// asks for TLS)", scheme.with_tls())),
        };
    }
    let answer = answer.ok()?;
    if ask(address, b"srvr", is_whole).await.is_ok_and(|answer| is_of_zookeeper(&answer)) {
        return known("ZooKeeper");
    }
    let version = ask(address, b"GET /version HTTP/1.0\r\n\r\n", is_whole).await.unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    if version.contains("etcdserver") {
        return known("etcd");
    }
    if version.starts_with("HTTP/") {
        return named("an HTTP server".to_owned());
    }
    match answer.is_empty() {
        true => Some(Stranger::HangsUp),
        false => named(format!("a server that answers {} to PING", start(&answer))),
    }
}

/// Returns whether this is an answer of ZooKeeper to `srvr`.
pub fn is_of_zookeeper(answer: &[u8]) -> bool {
    let starts = ["Zookeeper version:", "srvr is not executed", "This ZooKeeper instance"];
    starts.iter().any(|start| answer.starts_with(start.as_bytes()))
}

fn start(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    format!("{:?}", text.lines().next().unwrap_or_default().chars().take(40).collect::<String>())
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// An HTTP answer ends with its connection, other answers after a line.
fn is_whole(answer: &[u8]) -> bool {
    !answer.starts_with(b"HTTP/") && answer.contains(&b'\n')
}

async fn ask(address: &str, question: &[u8], enough: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let transport = Transport::default();
    let answer = timeout(PATIENCE, exchange(address, &transport, question, enough)).await;
    answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Connects, sends a question, and reads the answer up to `enough` or its end. It is empty if the server
/// closes the connection.
///
/// # Errors
/// The errors of the connection.
pub async fn exchange(
    address: &str,
    transport: &Transport,
    question: &[u8],
    enough: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let mut stream = transport.dial(address).await?;
    // Some servers write first and close, and their text is readable even if this write fails.
    let _ = stream.write_all(question).await.and(stream.flush().await);
    let mut answer = Vec::new();
    loop {
        let read = match stream.read_buf(&mut answer).await {
            // Some servers end TLS without the closing alert.
            Err(error) if !answer.is_empty() || error.kind() == io::ErrorKind::ConnectionReset => 0,
            read => read?,
        };
        if read == 0 || enough(&answer) || answer.len() > 4096 {
            return Ok(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::Hosts;

    async fn server(answers: &'static [(&'static [u8], &'static [u8])]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut question = [0; 4];
                let read = stream.read_exact(&mut question).await;
                let answer = answers.iter().find(|(asked, _)| read.is_ok() && question.starts_with(asked));
                let _ = stream.write_all(answer.map_or(b"", |(_, answer)| answer)).await;
            }
        });
        address
    }

    fn scheme(backend: &'static str, tls: bool) -> Scheme<'static> {
        Scheme { backend, hosts: Hosts::Servers, tls }
    }

    const REDIS: &[(&[u8], &[u8])] = &[(b"", b"-ERR unknown command\r\n")];
    const WITH_LOGINS: &[(&[u8], &[u8])] = &[(b"", b"-NOAUTH Authentication required.\r\n")];
    const ZOOKEEPER: &[(&[u8], &[u8])] = &[(b"srvr", b"Zookeeper version: 3.8.0\n")];
    const WITHOUT_QUORUM: &[(&[u8], &[u8])] = &[(b"srvr", b"This ZooKeeper instance is not serving\n")];
    const ETCD: &[(&[u8], &[u8])] = &[(b"GET ", b"HTTP/1.0 200 OK\r\n\r\n{\"etcdserver\":\"3.5.0\"}")];
    const TLS: &[(&[u8], &[u8])] = &[(b"\x16\x03", b"\x15\x03\x03\x00\x02\x02\x32")];
    const HTTP: &[(&[u8], &[u8])] = &[(b"", b"HTTP/1.1 400 Bad Request\r\n\r\n")];
    const MAIL: &[(&[u8], &[u8])] = &[(b"", b"220 mail.example ESMTP\r\n")];

    #[tokio::test]
    async fn each_kind_of_server_is_reported_by_name() {
        for (answers, name) in [
            (REDIS, "Redis"),
            (WITH_LOGINS, "Redis"),
            (ZOOKEEPER, "ZooKeeper"),
            (WITHOUT_QUORUM, "ZooKeeper"),
            (TLS, "a TLS server (etcd+tls:// asks for TLS)"),
            (HTTP, "an HTTP server"),
            (MAIL, "a server that answers \"220 mail.example ESMTP\" to PING"),
        ] {
            let seen = stranger(&server(answers).await, scheme("etcd", false)).await;
            assert_eq!(seen, Some(Stranger::Named(name.to_owned())));
        }
        let seen = stranger(&server(ETCD).await, scheme("redis", false)).await;
        assert_eq!(seen, Some(Stranger::Named("etcd".to_owned())));
        let seen = stranger(&server(&[]).await, scheme("redis", false)).await;
        assert_eq!(seen, Some(Stranger::HangsUp));
    }

    #[tokio::test]
    async fn own_kind_is_named_only_if_it_lacks_the_tls_of_the_client() {
        for (answers, backend, named) in [
            (REDIS, "redis", "Redis that does not speak TLS (redis:// is the scheme without TLS)"),
            (
                ZOOKEEPER,
                "zookeeper",
                "ZooKeeper that does not speak TLS (zookeeper:// is the scheme without TLS)",
            ),
            (ETCD, "etcd", "etcd that does not speak TLS (etcd:// is the scheme without TLS)"),
        ] {
            let server = server(answers).await;
            assert_eq!(stranger(&server, scheme(backend, false)).await, None);
            let seen = stranger(&server, scheme(backend, true)).await;
            assert_eq!(seen, Some(Stranger::Named(named.to_owned())));
        }
        assert_eq!(stranger(&server(TLS).await, scheme("redis", true)).await, None);
    }

    #[tokio::test]
    async fn greeting_names_a_foreign_server_and_answers_for_its_own_kind() {
        let greets = async |answers| {
            let (host, transport) = (server(answers).await, Transport::default());
            greet((&host, &transport, scheme("zookeeper", false)), b"srvr", |_| false, is_of_zookeeper).await
        };
        let own = greets(ZOOKEEPER).await.expect("its own kind");
        assert_eq!(own.as_deref(), Some(&b"Zookeeper version: 3.8.0\n"[..]));
        assert_eq!(greets(&[]).await.expect("it may be one"), None);
        for (answers, saw) in [(REDIS, "saw Redis"), (HTTP, "saw an HTTP server"), (ETCD, "saw etcd")] {
            let error = greets(answers).await.expect_err("another kind");
            assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
            assert!(error.to_string().contains(saw), "{error}");
        }
    }

    fn unavailable(why: &str) -> Error {
        Error::new(ErrorKind::Unavailable, why.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn most_specific_failure_is_the_answer_and_a_waiting_host_outlives_an_absent_one() {
        let hosts = ["absent", "foreign", "waits", "serves"].map(str::to_owned);
        let find = async |hosts: &[String]| {
            let clock = Clock::tokio();
            let finding = find_server(hosts, &clock, |host| async move {
                match host {
                    "absent" => Err(unavailable("absent")),
                    "foreign" => Err(Error::new(ErrorKind::Misconfigured, "foreign")),
                    "waits" => Ok(Probed::Waits(unavailable("waits"))),
                    _ => Ok(Probed::Serves),
                }
            });
            timeout(Duration::from_secs(60), finding).await
        };
        assert!(matches!(find(&hosts).await, Ok(Ok(()))));
        let failed = find(&hosts[..3]).await.expect("in time").expect_err("none serves");
        assert_eq!(failed.kind(), ErrorKind::Misconfigured);
        let waiting = [hosts[0].clone(), hosts[2].clone()];
        assert!(find(&waiting).await.is_err(), "it is asked again");
    }
}
