//! Probes the hosts for an etcd. The client crate does not: it connects lazily, and accepts a closed port or a Redis.

use std::io;
use std::pin::pin;

use latchwork_core::support::{PATIENCE, Probed, ServerKind, Stranger, Transport, WantedServer, stranger};
use latchwork_core::{Clock, Error, ErrorKind, Result, support};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// HTTP/2's connection preface and an empty SETTINGS frame (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SETTINGS: u8 = 4;

/// Waits for the first of the hosts that speaks HTTP/2. The caller bounds the time.
pub(crate) async fn find_server(hosts: &[String], transport: &Transport) -> Result<()> {
    support::find_server(hosts, &Clock::system(), |host| probe(host, transport.apart())).await
}

async fn probe(host: &str, transport: Transport) -> Result<Probed> {
    let tls = transport.is_tls();
    let expected = WantedServer { kind: ServerKind::Etcd, plain: "etcd", secured: "etcd+tls", tls };
    let wrong = |saw: &str| Err(Error::wrong_server("etcd", saw, &format!("at {host}")));
    let unreachable = |error: io::Error| {
        Err(Error::new(ErrorKind::Unavailable, format!("cannot reach {host}")).because(error))
    };
    let mut answer = pin!(exchange(host, &transport));
    let start = match timeout(PATIENCE, &mut answer).await {
        Ok(start) => start,
        // A TLS server takes the preface for the length of a record, and waits for the rest.
        Err(_) => match stranger(host, &expected).await {
            Some(Stranger::Named(saw)) => return wrong(&saw),
            _ => answer.await,
        },
    };
    match (start, transport.failure()) {
        (_, Some(why)) => Err(why),
        // A frame: three bytes of length, then its type.
        (Ok(start), None) if matches!(start.as_slice(), [_, _, _, SETTINGS, ..]) => Ok(Probed::Serves),
        (Err(error), None) if !tls => unreachable(error),
        (start, None) => match (stranger(host, &expected).await, start) {
            (Some(Stranger::Named(saw)), _) => wrong(&saw),
            (_, Err(error)) => unreachable(error),
            (_, Ok(start)) if start.is_empty() => {
                let what = format!("{host} hangs up: it is no etcd, or is a proxy whose etcd is down");
                Err(Error::new(ErrorKind::Unavailable, what))
            }
            (_, Ok(_)) => wrong("a server that does not speak HTTP/2"),
        },
    }
}

/// Sends the preface and reads the first bytes of the answer; none when the server closes the connection.
async fn exchange(host: &str, transport: &Transport) -> io::Result<Vec<u8>> {
    let mut stream = transport.dial(host).await?;
    stream.write_all(PREFACE).await?;
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

    /// A server that answers the start of an HTTP/2 connection so, and closes other connections.
    async fn server(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut question = [0; 4];
                let asked = stream.read_exact(&mut question).await;
                if asked.is_ok() && question == PREFACE[..4] {
                    // The client may have gone.
                    let _ = stream.write_all(answer).await;
                }
            }
        });
        host
    }

    async fn refused(answer: &'static [u8]) -> ErrorKind {
        find_server(&[server(answer).await], &Transport::default()).await.unwrap_err().kind()
    }

    #[tokio::test]
    async fn only_a_server_of_http2_is_found() {
        assert_eq!(refused(b"").await, ErrorKind::Unavailable);
        assert_eq!(refused(b"HELLO").await, ErrorKind::WrongServer);
        find_server(&[server(b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0@\0").await], &Transport::default())
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn one_good_host_of_several_is_enough() {
        let port = ClosedPort::take().unwrap();
        let closed = port.addr().to_string();
        let error = find_server(std::slice::from_ref(&closed), &Transport::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        find_server(&[closed, server(b"\0\0\x06\x04\0\0\0\0\0").await], &Transport::default()).await.unwrap();
    }
}
