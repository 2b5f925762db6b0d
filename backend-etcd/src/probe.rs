//! Probes what is behind an address. The client crate does not: it connects lazily, and accepts a
//! closed port or a Redis.

use std::io;
use std::pin::pin;
use std::time::Duration;

use latchwork_core::support::{Transport, speaks_tls};
use latchwork_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// HTTP/2's connection preface and an empty SETTINGS frame (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SETTINGS: u8 = 4;

/// How long a server may be silent before it is asked whether it speaks TLS.
const PATIENCE: Duration = Duration::from_millis(750);

enum Probed {
    Http2,
    /// It accepts the connection and closes it, as a proxy does whose etcd is down.
    HangsUp,
    Other(String),
    /// By what TLS says.
    Refused(Error),
}

/// Waits for the first of the hosts that speaks HTTP/2. The caller bounds the time.
pub(crate) async fn find_server(hosts: &[String], transport: &Transport) -> Result<()> {
    let mut probes = JoinSet::new();
    for host in hosts.iter().cloned() {
        let transport = transport.apart();
        probes.spawn(async move {
            let probed = probe(&host, &transport).await;
            (host, probed)
        });
    }
    let mut failure = None;
    while let Some(probe) = probes.join_next().await {
        let (host, probed) = probe.map_err(|error| Error::new(ErrorKind::Unavailable, "").because(error))?;
        failure = Some(match probed {
            Ok(Probed::Http2) => return Ok(()),
            Ok(Probed::Refused(why)) => why,
            Ok(Probed::Other(saw)) => Error::wrong_server("etcd", &saw, &format!("at {host}")),
            Ok(Probed::HangsUp) => {
                let what = format!("{host} hangs up: it is no etcd, or is a proxy whose etcd is down");
                Error::new(ErrorKind::Unavailable, what)
            }
            Err(error) => Error::new(ErrorKind::Unavailable, format!("cannot reach {host}")).because(error),
        });
    }
    Err(failure.unwrap_or_else(|| Error::invalid("url", "etcd:// needs a host")))
}

async fn probe(host: &str, transport: &Transport) -> io::Result<Probed> {
    let mut answer = pin!(exchange(host, PREFACE, transport));
    if transport.is_tls() {
        return match (answer.await, transport.failure()) {
            (_, Some(why)) => Ok(Probed::Refused(why)),
            (Err(error), None) => {
                let plain = exchange(host, PREFACE, &Transport::default()).await;
                let is_plain = matches!(plain.as_deref(), Ok([_, _, _, SETTINGS, ..]));
                let saw =
                    || Probed::Other("an etcd that does not speak TLS (it is etcd:// without)".to_owned());
                if is_plain { Ok(saw()) } else { Err(error) }
            }
            (Ok(start), None) => Ok(judge(host, &start).await),
        };
    }
    let tls_server = || Probed::Other("a TLS server (etcd+tls:// asks for TLS)".to_owned());
    let start = match timeout(PATIENCE, &mut answer).await {
        Ok(start) => start?,
        // It takes the preface for the length of a record, and waits for the rest.
        Err(_) if speaks_tls(host).await => return Ok(tls_server()),
        Err(_) => answer.await?,
    };
    // Before other questions: a TLS server may wait for more than they send.
    let is_http2 = matches!(start.as_slice(), [_, _, _, SETTINGS, ..]);
    if !is_http2 && speaks_tls(host).await {
        return Ok(tls_server());
    }
    Ok(judge(host, &start).await)
}

async fn judge(host: &str, start: &[u8]) -> Probed {
    match start {
        // A frame: three bytes of length, then its type.
        [_, _, _, SETTINGS, ..] => Probed::Http2,
        [b'-' | b'+' | b':' | b'$' | b'*', ..] => Probed::Other("Redis".to_owned()),
        answer if answer.starts_with(b"HTTP/") => Probed::Other("an HTTP/1 server".to_owned()),
        // ZooKeeper closes the connection on a length that makes no sense. It answers a command of
        // four letters.
        [] if exchange(host, b"srvr", &Transport::default())
            .await
            .is_ok_and(|answer| is_zookeeper(&answer)) =>
        {
            Probed::Other("ZooKeeper".to_owned())
        }
        [] => Probed::HangsUp,
        _ => Probed::Other("a server that does not speak HTTP/2".to_owned()),
    }
}

fn is_zookeeper(answer: &[u8]) -> bool {
    answer.starts_with(b"Zookeeper") || answer.starts_with(b"srvr is")
}

/// Sends `probe` and reads the first bytes of the answer; none when the server closes the
/// connection.
async fn exchange(host: &str, probe: &[u8], transport: &Transport) -> io::Result<Vec<u8>> {
    let mut stream = transport.dial(host).await?;
    stream.write_all(probe).await?;
    stream.flush().await?;
    let mut start = Vec::new();
    // Nine bytes are the header of a frame, and enough of any other answer.
    while start.len() < 9 {
        match stream.read_buf(&mut start).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok(start)
}

#[cfg(test)]
mod tests {
    use latchwork_conformance::servers::ClosedPort;
    use tokio::net::TcpListener;

    use super::*;

    /// A server that reads one probe on each connection, and sends the next of `answers`.
    async fn server(answers: Vec<&'static [u8]>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut probe = [0; 4];
                stream.read_exact(&mut probe).await.unwrap();
                stream.write_all(answer).await.unwrap();
            }
        });
        host
    }

    #[tokio::test]
    async fn each_kind_of_server_is_reported_by_name() {
        for (answers, expected) in [
            (vec![&b"-ERR unknown command 'PRI'\r\n"[..]], "Redis"),
            (vec![&b""[..], &b""[..], &b"Zookeeper version: 3.8.0"[..]], "ZooKeeper"),
            (vec![&b"HTTP/1.1 400 Bad Request\r\n"[..]], "HTTP/1"),
            (vec![&b""[..], &b"\x15\x03\x03\x00\x02\x02\x32\x00\x00"[..]], "TLS"),
        ] {
            let error = find_server(&[server(answers).await], &Transport::default()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
            let words = error.to_string();
            assert!(words.contains("expected etcd, saw") && words.contains(expected), "{words}");
        }
        let error =
            find_server(&[server(vec![b"", b"", b""]).await], &Transport::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        find_server(&[server(vec![b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0@\0"]).await], &Transport::default())
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn one_good_host_of_several_is_enough() {
        let port = ClosedPort::take().unwrap();
        let closed = port.addr().to_string();
        let error = find_server(std::slice::from_ref(&closed), &Transport::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        find_server(&[closed, server(vec![b"\0\0\x06\x04\0\0\0\0\0"]).await], &Transport::default())
            .await
            .unwrap();
    }
}
