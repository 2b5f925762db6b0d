//! What answers at an address, for a client that looks for a server of its kind. The client crates do not show it.

use std::io;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::backoff::{Backoff, Pauses};
use super::bounds::note_failure;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};

/// The bound of one question to a server.
pub const PATIENCE: Duration = Duration::from_millis(750);

/// How long [`stranger`] asks a server that answers nothing.
pub const OF_SILENCE: Duration = PATIENCE.saturating_mul(2);

/// A ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2) without extensions. A server of TLS answers it with its
/// own hello or with an alert, whatever versions it takes.
const HELLO: &[u8; 64] =
    // A handshake record of 59 bytes, in it a ClientHello of 55 bytes, with its 32 random ones.
    b"\x16\x03\x01\x00\x3b\x01\x00\x00\x37\x03\x03latchwork asks: is this TLS?????\
    \x00\x00\x10\x13\x01\x13\x02\xc0\x2b\xc0\x2c\xc0\x2f\xc0\x30\x00\x9c\x00\x2f\x01\x00";

/// What one of a client's hosts is.
#[derive(Debug)]
pub enum Probed {
    /// A server of the right kind, which serves.
    Serves,
    /// A server that may serve later, and why it does not now.
    Waits(Error),
}

/// Probes all hosts at once until one of them serves, and again as long as one may serve later. It has no bound: the
/// caller bounds the whole of connecting.
///
/// # Errors
/// The most specific one of the hosts if none may serve later: any other kind before `Unavailable`.
///
/// # Cancel safety
/// Cancel-safe: the probes end.
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
            // The silent one may have been the leader: the others are asked again without it. A server of
            // another kind is known by then.
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
        (_, worst) => Err(worst.unwrap_or_else(|| Error::invalid("url", "no host"))),
    }
}

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// Redis, or Valkey.
    Redis,
    /// ZooKeeper.
    ZooKeeper,
    /// etcd.
    Etcd,
}

impl ServerKind {
    fn name(self) -> &'static str {
        match self {
            Self::Redis => "Redis",
            Self::ZooKeeper => "ZooKeeper",
            Self::Etcd => "etcd",
        }
    }
}

/// What a client looks for.
#[derive(Clone, Copy, Debug)]
pub struct WantedServer<'a> {
    /// The kind of its servers.
    pub kind: ServerKind,
    /// The scheme of a URL without TLS.
    pub plain: &'a str,
    /// The scheme of a URL with TLS.
    pub secured: &'a str,
    /// Whether the client speaks TLS.
    pub tls: bool,
}

/// A server that is surely not what the client looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// What the client saw, for `WrongServer`.
    Named(String),
    /// It takes the connection and closes it, as a proxy does whose server is down.
    HangsUp,
}

/// Asks the server at an address, in the clear, what it is. `None` for one that may be what the client looks for:
/// also where no answer comes, since a server may be frozen.
///
/// # Cancel safety
/// Cancel-safe.
pub async fn stranger(address: &str, expected: &WantedServer<'_>) -> Option<Stranger> {
    let WantedServer { kind: own, plain, secured, tls } = *expected;
    let named = |name: String| Some(Stranger::Named(name));
    let known = |kind: ServerKind| match kind == own {
        true => tls.then(|| {
            let article = if own == ServerKind::Etcd { "an" } else { "a" };
            Stranger::Named(format!(
                "{article} {} that does not speak TLS (it is {plain}:// without)",
                own.name()
            ))
        }),
        false => named(kind.name().to_owned()),
    };
    let answer = ask(address, b"PING\r\n", is_whole).await;
    // A Redis answers +PONG, or an error such as -NOAUTH.
    if let Ok([b'+' | b'-', ..]) = answer.as_deref() {
        return known(ServerKind::Redis);
    }
    // A record (RFC 5246, 6.2.1): an alert or a handshake, of a version 3.x.
    if let Ok([0x15 | 0x16, 3, ..]) = ask(address, HELLO, |answer| answer.len() >= 2).await.as_deref() {
        // Which server it is shows only within.
        return (!tls).then(|| Stranger::Named(format!("a TLS server ({secured}:// asks for TLS)")));
    }
    let answer = answer.ok()?;
    if ask(address, b"srvr", is_whole).await.is_ok_and(|answer| is_of_zookeeper(&answer)) {
        return known(ServerKind::ZooKeeper);
    }
    let version = ask(address, b"GET /version HTTP/1.0\r\n\r\n", is_whole).await.unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    if version.contains("etcdserver") {
        return known(ServerKind::Etcd);
    }
    if version.starts_with("HTTP/") {
        return named("an HTTP server".to_owned());
    }
    if answer.is_empty() {
        return Some(Stranger::HangsUp);
    }
    let shown: String = String::from_utf8_lossy(&answer).chars().take(40).collect();
    named(format!("a server that answers {shown:?} to PING"))
}

/// Whether a ZooKeeper answers `srvr` so, as far as the answer goes.
pub fn is_of_zookeeper(answer: &[u8]) -> bool {
    let starts = ["Zookeeper version:", "srvr is not executed", "This ZooKeeper instance"];
    let fits = |start: &str| {
        let common = start.len().min(answer.len());
        start.as_bytes()[..common] == answer[..common]
    };
    !answer.is_empty() && starts.into_iter().any(fits)
}

/// Whether an answer says all: an HTTP answer ends with its connection, others after a line.
fn is_whole(answer: &[u8]) -> bool {
    !answer.starts_with(b"HTTP/") && answer.contains(&b'\n')
}

/// The answer to a question, up to `enough`; empty when the server closes the connection instead.
async fn ask(address: &str, question: &[u8], enough: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let talk = async {
        let mut stream = TcpStream::connect(address).await?;
        // Some servers speak first and close: their words are still to be read when this fails.
        let _ = stream.write_all(question).await;
        let mut answer = Vec::new();
        loop {
            let read = match stream.read_buf(&mut answer).await {
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                read => read?,
            };
            if read == 0 || enough(&answer) || answer.len() > 4096 {
                return Ok(answer);
            }
        }
    };
    timeout(PATIENCE, talk).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers each question by its first bytes: the first row that fits, or nothing.
    async fn server(answers: &'static [(&'static [u8], &'static [u8])]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut question = [0; 4];
                let read = stream.read_exact(&mut question).await;
                let answer = answers.iter().find(|(asked, _)| read.is_ok() && question.starts_with(asked));
                // The client may have gone.
                let _ = stream.write_all(answer.map_or(b"", |(_, answer)| answer)).await;
            }
        });
        address
    }

    fn expected(kind: ServerKind, tls: bool) -> WantedServer<'static> {
        WantedServer { kind, plain: "plain", secured: "secured", tls }
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
            (TLS, "a TLS server (secured:// asks for TLS)"),
            (HTTP, "an HTTP server"),
            (MAIL, "a server that answers \"220 mail.example ESMTP\\r\\n\" to PING"),
        ] {
            let seen = stranger(&server(answers).await, &expected(ServerKind::Etcd, false)).await;
            assert_eq!(seen, Some(Stranger::Named(name.to_owned())));
        }
        let seen = stranger(&server(ETCD).await, &expected(ServerKind::Redis, false)).await;
        assert_eq!(seen, Some(Stranger::Named("etcd".to_owned())));
        let seen = stranger(&server(&[]).await, &expected(ServerKind::Redis, false)).await;
        assert_eq!(seen, Some(Stranger::HangsUp));
    }

    #[tokio::test]
    async fn own_kind_is_no_stranger_unless_only_the_client_speaks_tls() {
        use ServerKind::{Etcd, Redis, ZooKeeper};
        for (answers, kind, named) in [
            (REDIS, Redis, "a Redis that does not speak TLS (it is plain:// without)"),
            (ZOOKEEPER, ZooKeeper, "a ZooKeeper that does not speak TLS (it is plain:// without)"),
            (ETCD, Etcd, "an etcd that does not speak TLS (it is plain:// without)"),
        ] {
            let server = server(answers).await;
            assert_eq!(stranger(&server, &expected(kind, false)).await, None);
            let seen = stranger(&server, &expected(kind, true)).await;
            assert_eq!(seen, Some(Stranger::Named(named.to_owned())));
        }
        assert_eq!(stranger(&server(TLS).await, &expected(Redis, true)).await, None);
    }

    #[test]
    fn answer_of_a_zookeeper_is_known_by_its_first_bytes() {
        assert!(is_of_zookeeper(b"Zoo") && is_of_zookeeper(b"Zookeeper version: 3"));
        assert!(!is_of_zookeeper(b"") && !is_of_zookeeper(b"-ERR") && !is_of_zookeeper(b"HTTP/1.1 400"));
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
