//! TLS for the client crate: it dials ports of this process, which relay its bytes over secured connections.
//!
//! *Why.* The crate's TLS takes rustls' process-wide provider, and panics if a program has two and has chosen
//! none. It accepts no other server name than the host's, reads its files once, and gives no reason for a
//! failed handshake.
//!
//! *Authorization.* Any process of the machine can reach a loopback port. So the relay dials a server only
//! for a connection that shows a secret, in an `auth` packet after the connect request. The relay removes and
//! answers this packet.
//!
//! *A session that gets a shorter timeout at a later connection* ends on the servers before its lease ends
//! here. The crate does not report this, so the relay reads the timeout, and answers that the session has
//! ended.
//!
//! *With SASL* the server must answer the login before the crate sends that packet. So the relay dials a
//! server for every connection, but before the secret only requests of a login reach it. The relay delays
//! watches that the crate sets again during the login, because the server would refuse them.

mod packets;

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use latchwork_core::backend::{NodeId, Transport};
use latchwork_core::seen;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) use self::packets::SCHEME;
use self::packets::{SASL, SET_WATCHES, answered, code_of, granted_in, packet, secret_of, session_of};
use crate::config::NAME;

const MOST_WATCHES: usize = 4 * 1024 * 1024;

/// The crate sends the secret with its first write.
const PATIENCE: Duration = Duration::from_secs(2);

/// One port for each host. Dropping this closes them and their connections.
#[derive(Debug)]
pub(super) struct Relay {
    addresses: Vec<String>,
    secret: Arc<str>,
    _ended: DropGuard,
}

impl Relay {
    pub(super) async fn open(
        hosts: &[String],
        transport: &Transport,
        sasl: bool,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let (ended, secret) = (CancellationToken::new(), Arc::from(NodeId::random().to_string()));
        let granted = Arc::<AtomicI32>::default();
        let mut addresses = Vec::with_capacity(hosts.len());
        for host in hosts {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            addresses.push(listener.local_addr()?.to_string());
            // It reports the last failure if no session opens.
            let (host, transport, secret) = (host.clone(), transport.clone(), Arc::clone(&secret));
            let way = Way { host, transport, secret, sasl, granted: Arc::clone(&granted) };
            runtime.spawn(ended.clone().run_until_cancelled_owned(serve(listener, way, ended.clone())));
        }
        Ok(Self { addresses, secret, _ended: ended.drop_guard() })
    }

    pub(super) fn addresses(&self) -> String {
        self.addresses.join(",")
    }

    pub(super) fn secret(&self) -> &[u8] {
        self.secret.as_bytes()
    }
}

#[derive(Clone)]
struct Way {
    host: String,
    transport: Transport,
    secret: Arc<str>,
    sasl: bool,
    /// The timeout at the opening of the session, in milliseconds.
    granted: Arc<AtomicI32>,
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
                // No event reports a free file descriptor.
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
        let mut answer = packet(&mut server).await?;
        let (is_new, grants) = (session_of(&connect) == Some(0), granted_in(&answer));
        if !is_new && grants.is_some_and(|grants| grants < self.granted.load(Ordering::Acquire)) {
            // No timeout and session zero: the session has ended.
            answer[8..20].fill(0);
            local.write_all(&answer).await?;
            return Err(io::Error::other(
                "the server now grants this session a shorter timeout than when it was opened",
            ));
        }
        local.write_all(&answer).await?;
        let mut watches = Vec::new();
        loop {
            match code_of(&shown) {
                Some(SASL) if self.sasl => {
                    server.write_all(&shown).await?;
                    server.flush().await?;
                    let answer = packet(&mut server).await?;
                    local.write_all(&answer).await?;
                }
                Some(code) if self.sasl && SET_WATCHES.contains(&code) && watches.len() < MOST_WATCHES => {
                    watches.append(&mut shown);
                }
                _ => break,
            }
            shown = in_time(&mut local).await?;
        }
        let xid = self.xid_of(&shown)?;
        if let Some(grants) = grants.filter(|_| is_new) {
            // With SASL, a connection without the secret may have opened another session.
            self.granted.store(grants, Ordering::Release);
        }
        local.write_all(&answered(xid)).await?;
        server.write_all(&watches).await?;
        server.flush().await?;
        copy_bidirectional(&mut local, &mut server).await.map(drop)
    }

    fn xid_of(&self, shown: &[u8]) -> io::Result<i32> {
        match secret_of(shown) {
            Some((xid, secret)) if secret == self.secret.as_bytes() => Ok(xid),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

async fn in_time(local: &mut TcpStream) -> io::Result<Vec<u8>> {
    let packet = tokio::time::timeout(PATIENCE, packet(local)).await;
    packet.unwrap_or_else(|_| Err(io::Error::other("a local connection did not show the client's secret")))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::packets::AUTH;
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
        let relay = Relay::open(&[host], &Transport::default(), false, &Handle::current()).await.unwrap();
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

    /// The server echoes, and so grants the upper half of the last transaction in milliseconds.
    #[tokio::test]
    async fn a_session_that_is_granted_less_than_at_its_opening_is_over() {
        let (host, _) = server().await;
        let relay = Relay::open(&[host], &Transport::default(), false, &Handle::current()).await.unwrap();
        let (new, open) = (0_i64, 7);
        for (session, grants, over) in [
            (new, 9000, false),
            (new, 5000, false),
            (open, 5000, false),
            (open, 6000, false),
            (open, 4999, true),
            (open, 5000, false),
        ] {
            let connect = [&[0; 4], &i32::to_be_bytes(grants)[..], &[1; 8], &session.to_be_bytes()].concat();
            let connect = [&24_i32.to_be_bytes()[..], &connect].concat();
            let mut stream = TcpStream::connect(relay.addresses()).await.unwrap();
            stream.write_all(&[&connect[..], &auth(5, AUTH, SCHEME, relay.secret())].concat()).await.unwrap();
            let answer = packet(&mut stream).await.unwrap();
            assert_eq!(granted_in(&answer), (!over).then_some(grants), "{session} {grants}");
            let is_open = stream.read_u8().await.is_ok();
            assert_eq!(is_open, !over, "{session} {grants}");
        }
    }

    #[tokio::test]
    async fn nothing_but_a_login_passes_before_the_secret() {
        let (host, dialled) = server().await;
        let relay = Relay::open(&[host], &Transport::default(), true, &Handle::current()).await.unwrap();
        let connect = [&3_i32.to_be_bytes()[..], b"abc"].concat();
        let login = auth(1, SASL, "", b"token");
        for stranger in [auth(2, AUTH, SCHEME, b"wrong"), auth(2, 1, SCHEME, b"create"), connect.clone()] {
            let mut stream = TcpStream::connect(relay.addresses()).await.unwrap();
            stream.write_all(&[&connect[..], &login, &stranger].concat()).await.unwrap();
            let mut heard = Vec::new();
            // A reset may close it.
            let _ = stream.read_to_end(&mut heard).await;
            assert_eq!(heard, [&connect[..], &login].concat(), "the answers to the login, and no more");
        }
        assert_eq!(dialled.available_permits(), 3);
        let mut stream = TcpStream::connect(relay.addresses()).await.unwrap();
        let secret = auth(5, AUTH, SCHEME, relay.secret());
        let watches = [auth(-8, 101, "", b"some"), auth(-8, 105, "", b"others")].concat();
        let said = [&connect[..], &login, &watches, &login, &secret, b"more"].concat();
        stream.write_all(&said).await.unwrap();
        let expected = [&connect[..], &login, &login, &answered(5), &watches, b"more"].concat();
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, expected);
    }
}
