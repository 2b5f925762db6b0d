//! Probes the hosts for an etcd: the client crate connects lazily, and accepts a closed port or a Redis.

use latchwork_core::backend::{self, Hosts, Probed, Scheme, Transport, greet};
use latchwork_core::{Clock, Error, ErrorKind, Result};

use crate::config::NAME;

/// HTTP/2's connection preface and an empty SETTINGS frame (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SETTINGS: u8 = 4;

pub(crate) async fn find_server(hosts: &[String], transport: &Transport) -> Result<()> {
    let scheme = Scheme { backend: NAME, hosts: Hosts::Servers, tls: transport.is_tls() };
    let probe = async |host: &str| {
        // Three bytes of length, then the type of the frame.
        let is_http2 = |start: &[u8]| matches!(start, [_, _, _, SETTINGS, ..]);
        let host_apart = (host, &transport.apart(), scheme);
        match greet(host_apart, PREFACE, |start| start.len() >= 9, is_http2).await? {
            Some(_) => Ok(Probed::Serves),
            None => {
                let what = format!(
                    "{host} closes the connection: it is not etcd, or it is a proxy whose etcd is down"
                );
                Err(Error::new(ErrorKind::Unavailable, what))
            }
        }
    };
    backend::find_server(hosts, &Clock::system(), probe).await
}

#[cfg(test)]
mod tests {
    use latchwork_conformance::servers::ClosedPort;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn server(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut question = [0; 4];
                let asked = stream.read_exact(&mut question).await;
                if asked.is_ok() && question == PREFACE[..4] {
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
