//! TLS for the client crate: it dials ports of this process, from where its bytes go on secured.
//!
//! *Why.* The crate's own TLS takes rustls' process-wide provider, and panics where a program has two
//! and has chosen none; it takes no other server name than the host's, reads its files once, and says
//! nothing of why a handshake failed.
//!
//! *Who may use it.* Any process of the machine reaches a loopback port, so a connection must show a
//! secret before a server is dialled: an `auth` packet behind the connect request, where the crate sends
//! its logins, at each dial. The relay takes it out, and answers it. Other connections are closed.
//!
//! *With SASL* the crate logs in before it sends that packet, and the server must answer. So a server is
//! dialled for whoever connects, and nothing but the requests of a login reaches it before the secret.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::contracts::NodeId;
use latchwork_core::seen;
use latchwork_core::support::Transport;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::{NAME, Settings};

/// The scheme of the packet with the secret. No server sees it.
pub(super) const SCHEME: &str = "latchwork-relay";

/// How long a connection may take to show the secret: the crate sends it with its first write.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest packet of a greeting: both are below 100 bytes.
const LONGEST: usize = 4096;

/// The code of an `auth` request.
const AUTH: i32 = 100;
/// That of a step of a login by SASL.
const SASL: i32 = 102;

/// A port for each host. They and their connections are closed with it.
#[derive(Debug)]
pub(super) struct Relay {
    addresses: Vec<String>,
    secret: Arc<str>,
    _ended: DropGuard,
}

impl Relay {
    /// Listens, and relays on `runtime`.
    pub(super) async fn open(settings: &Settings, runtime: &Handle) -> io::Result<Self> {
        let Settings { hosts, transport, sasl, .. } = settings;
        Self::before(hosts, transport, *sasl, runtime).await
    }

    async fn before(
        hosts: &[String],
        transport: &Transport,
        sasl: bool,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let (ended, secret) = (CancellationToken::new(), Arc::from(NodeId::random().to_string()));
        let mut addresses = Vec::with_capacity(hosts.len());
        for host in hosts {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            addresses.push(listener.local_addr()?.to_string());
            // Its failures are those of the client, which names the last one when no session is opened.
            let (host, transport, secret) = (host.clone(), transport.clone(), Arc::clone(&secret));
            let way = Way { host, transport, secret, sasl };
            runtime.spawn(ended.clone().run_until_cancelled_owned(serve(listener, way, ended.clone())));
        }
        Ok(Self { addresses, secret, _ended: ended.drop_guard() })
    }

    /// Its ports, as the client crate takes them.
    pub(super) fn addresses(&self) -> String {
        self.addresses.join(",")
    }

    /// What a connection must show.
    pub(super) fn secret(&self) -> &[u8] {
        self.secret.as_bytes()
    }
}

/// From a port to a server.
#[derive(Clone)]
struct Way {
    host: String,
    transport: Transport,
    secret: Arc<str>,
    sasl: bool,
}

async fn serve(listener: TcpListener, way: Way, ended: CancellationToken) {
    loop {
        match listener.accept().await {
            Ok((local, _)) => {
                let way = way.clone();
                let work = async move {
                    if let Err(error) = way.relay(local).await {
                        let error = way.transport.failure().map_or(error, io::Error::other);
                        tracing::debug!(host = way.host, %error, "a secured connection ended");
                    }
                };
                tokio::spawn(ended.clone().run_until_cancelled_owned(work));
            }
            Err(error) => {
                // The process has no file left. Nothing tells when it has.
                seen::relay_failed(NAME, &error);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

impl Way {
    async fn relay(&self, mut local: TcpStream) -> io::Result<()> {
        local.set_nodelay(true)?;
        let connect = in_time(&mut local).await?;
        let mut shown = in_time(&mut local).await?;
        if !self.sasl {
            self.xid_of(&shown)?;
        }
        let mut server = self.transport.dial(&self.host).await?;
        server.write_all(&connect).await?;
        server.flush().await?;
        let answer = packet(&mut server).await?;
        local.write_all(&answer).await?;
        while self.sasl && code_of(&shown) == Some(SASL) {
            server.write_all(&shown).await?;
            server.flush().await?;
            let answer = packet(&mut server).await?;
            local.write_all(&answer).await?;
            shown = in_time(&mut local).await?;
        }
        local.write_all(&answered(self.xid_of(&shown)?)).await?;
        copy_bidirectional(&mut local, &mut server).await.map(drop)
    }

    /// The number of the packet that shows the secret.
    fn xid_of(&self, shown: &[u8]) -> io::Result<i32> {
        match secret_of(shown) {
            Some((xid, secret)) if secret == self.secret.as_bytes() => Ok(xid),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

/// A packet of a client that has to show the secret yet.
async fn in_time(local: &mut TcpStream) -> io::Result<Vec<u8>> {
    let packet = tokio::time::timeout(PATIENCE, packet(local)).await;
    packet.unwrap_or_else(|_| Err(io::Error::other("a local connection did not show the client's secret")))
}

/// A packet with its length before it.
async fn packet(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_i32().await?;
    let size = usize::try_from(length).ok().filter(|size| *size <= LONGEST);
    let size = size.ok_or_else(|| io::Error::other("a packet of an impossible length"))?;
    let mut packet = length.to_be_bytes().to_vec();
    packet.resize(4 + size, 0);
    stream.read_exact(&mut packet[4..]).await?;
    Ok(packet)
}

/// The number and the secret of an `auth` packet of our scheme.
fn secret_of(packet: &[u8]) -> Option<(i32, &[u8])> {
    let (_, rest) = packet.split_first_chunk::<4>()?;
    let (xid, rest) = number(rest)?;
    let (code, rest) = number(rest)?;
    let (_kind, rest) = number(rest)?;
    let (scheme, rest) = text(rest)?;
    let (secret, _) = text(rest)?;
    (code == AUTH && scheme == SCHEME.as_bytes()).then_some((xid, secret))
}

/// The code of a request.
fn code_of(packet: &[u8]) -> Option<i32> {
    let (_, rest) = packet.split_first_chunk::<4>()?;
    let (_xid, rest) = number(rest)?;
    number(rest).map(|(code, _)| code)
}

fn number(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((i32::from_be_bytes(*number), rest))
}

fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// The reply to a request without a result: number, no transaction, no error.
fn answered(xid: i32) -> [u8; 20] {
    let mut reply = [0; 20];
    reply[..4].copy_from_slice(&16_i32.to_be_bytes());
    reply[4..8].copy_from_slice(&xid.to_be_bytes());
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(xid: i32, code: i32, scheme: &str, secret: &[u8]) -> Vec<u8> {
        let mut body = [xid, code, 0].map(i32::to_be_bytes).concat();
        for part in [scheme.as_bytes(), secret] {
            body.extend(i32::try_from(part.len()).unwrap().to_be_bytes());
            body.extend(part);
        }
        [&i32::try_from(body.len()).unwrap().to_be_bytes(), body.as_slice()].concat()
    }

    #[test]
    fn the_secret_is_read_out_of_its_packet_alone() {
        let packet = auth(7, AUTH, SCHEME, b"s3cret");
        assert_eq!(secret_of(&packet), Some((7, b"s3cret".as_slice())));
        assert_eq!(secret_of(&auth(7, AUTH, "digest", b"s3cret")), None);
        assert_eq!(secret_of(&auth(7, 1, SCHEME, b"s3cret")), None);
        for end in 0..packet.len() {
            assert_eq!(secret_of(&packet[..end]), None, "{end}");
        }
    }

    /// A server that answers every connect request with the same packet, and then echoes.
    async fn server() -> (String, Arc<tokio::sync::Semaphore>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, dialled) =
            (listener.local_addr().unwrap().to_string(), Arc::new(tokio::sync::Semaphore::new(0)));
        let count = Arc::clone(&dialled);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                count.add_permits(1);
                let greeting = packet(&mut stream).await.unwrap();
                stream.write_all(&greeting).await.unwrap();
                let (mut from, mut to) = stream.into_split();
                tokio::io::copy(&mut from, &mut to).await.unwrap();
            }
        });
        (address, dialled)
    }

    #[tokio::test]
    async fn only_who_shows_the_secret_reaches_the_server() {
        let (host, dialled) = server().await;
        let relay = Relay::before(&[host], &Transport::default(), false, &Handle::current()).await.unwrap();
        let connect = [&3_i32.to_be_bytes()[..], b"abc"].concat();
        for stranger in
            [auth(1, AUTH, SCHEME, b"wrong"), auth(1, AUTH, "digest", relay.secret()), connect.clone()]
        {
            let mut stream = TcpStream::connect(relay.addresses()).await.unwrap();
            stream.write_all(&[connect.clone(), stranger].concat()).await.unwrap();
            let end = stream.read_u8().await.expect_err("closed");
            assert!(
                matches!(end.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset),
                "{end}"
            );
        }
        assert_eq!(dialled.available_permits(), 0, "no stranger made it dial");
        let mut stream = TcpStream::connect(relay.addresses()).await.unwrap();
        let ours = [connect.clone(), auth(5, AUTH, SCHEME, relay.secret()), b"more".to_vec()].concat();
        stream.write_all(&ours).await.unwrap();
        let mut answer = vec![0; connect.len() + 20 + 4];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [&connect[..], &answered(5), b"more"].concat());
        drop(relay);
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0, "it ends with the relay");
    }

    /// With SASL a server is dialled first, and hears nothing but a login.
    #[tokio::test]
    async fn nothing_but_a_login_passes_before_the_secret() {
        let (host, dialled) = server().await;
        let relay = Relay::before(&[host], &Transport::default(), true, &Handle::current()).await.unwrap();
        let connect = [&3_i32.to_be_bytes()[..], b"abc"].concat();
        let login = auth(1, SASL, "", b"token");
        for stranger in [auth(2, AUTH, SCHEME, b"wrong"), auth(2, 1, SCHEME, b"create"), connect.clone()] {
            let mut stream = TcpStream::connect(relay.addresses()).await.unwrap();
            stream.write_all(&[&connect[..], &login, &stranger].concat()).await.unwrap();
            let mut heard = Vec::new();
            // It may be closed by a reset, since it had more to say.
            let _ = stream.read_to_end(&mut heard).await;
            assert_eq!(heard, [&connect[..], &login].concat(), "the answers to the login, and no more");
        }
        assert_eq!(dialled.available_permits(), 3);
        let mut stream = TcpStream::connect(relay.addresses()).await.unwrap();
        let secret = auth(5, AUTH, SCHEME, relay.secret());
        stream.write_all(&[&connect[..], &login, &login, &secret, b"more"].concat()).await.unwrap();
        let expected = [&connect[..], &login, &login, &answered(5), b"more"].concat();
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, expected);
    }
}
