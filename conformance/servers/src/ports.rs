use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::net::UnixDatagram;

use tokio::net::TcpSocket;

use crate::ServerError;

/// Above the default ports of well-known services.
const FIRST: u16 = 10_000;

/// The default of RFC 6335.
const DYNAMIC: u16 = 49_152;

/// Ports are rarely taken, even with dozens of servers.
const TRIES: usize = 100;

/// Returns free, different ports of the loopback interface. On Linux no other caller gets one of them while
/// this process runs.
///
/// The system gives none of them to an outgoing connection, which would block the server for a minute after
/// its own end (`TIME_WAIT`): a server does not always hold its ports.
///
/// # Errors
/// [`ServerError`] if the system has too few free ports.
pub fn free_ports(count: usize) -> Result<Vec<u16>, ServerError> {
    let claimed = ClaimedPorts::take(count)?;
    // The end of their use is unknown.
    std::mem::forget(claimed.claims);
    Ok(claimed.numbers)
}

#[derive(Debug)]
pub(super) struct ClaimedPorts {
    pub(super) numbers: Vec<u16>,
    claims: Vec<Option<UnixDatagram>>,
}

impl ClaimedPorts {
    pub(super) fn take(count: usize) -> Result<Self, ServerError> {
        let range = range();
        let (mut numbers, mut claims, mut bound) = (Vec::new(), Vec::new(), Vec::new());
        let mut refused = None;
        for _ in 0..count * TRIES {
            if numbers.len() == count {
                break;
            }
            let port = rand::random_range(range.clone());
            // The claim comes first: a stopped server has only its claim.
            let claimed =
                claim(port).and_then(|claim| Ok((claim, TcpListener::bind((Ipv4Addr::LOCALHOST, port))?)));
            match claimed {
                Ok((claim, listener)) => {
                    numbers.push(port);
                    claims.push(claim);
                    // All are bound before any is closed: without claims, only that makes them different.
                    bound.push(listener);
                }
                Err(error) => refused = Some(error),
            }
        }
        if numbers.len() < count {
            let refused = refused.unwrap_or_else(|| io::ErrorKind::AddrInUse.into());
            return Err(ServerError::io("binding a port")(refused));
        }
        Ok(Self { numbers, claims })
    }
}

/// Only one process has a socket of this name, until it ends or crashes.
#[cfg(target_os = "linux")]
fn claim(port: u16) -> io::Result<Option<UnixDatagram>> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;
    let name = SocketAddr::from_abstract_name(format!("latchwork-port-{port}"))?;
    match UnixDatagram::bind_addr(&name) {
        Ok(claim) => Ok(Some(claim)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        // Such sockets are forbidden here.
        Err(_) => Ok(None),
    }
}

#[cfg(not(target_os = "linux"))]
fn claim(_: u16) -> io::Result<Option<UnixDatagram>> {
    Ok(None)
}

/// A port that refuses connections. Until a drop no other program gets it, unlike a port that was bound and
/// closed.
#[derive(Debug)]
pub struct ClosedPort {
    addr: SocketAddr,
    _bound: TcpSocket,
}

impl ClosedPort {
    /// Claims a port.
    ///
    /// # Errors
    /// [`ServerError`] if no port is free.
    pub fn take() -> Result<Self, ServerError> {
        let taken = TcpSocket::new_v4().and_then(|socket| {
            socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
            Ok(Self { addr: socket.local_addr()?, _bound: socket })
        });
        taken.map_err(ServerError::io("binding a port"))
    }

    /// Returns the address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// Ports below the dynamic ports, which the system gives to outgoing connections. Only Linux has a file with
/// them.
fn range() -> Range<u16> {
    let dynamic = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    below(dynamic.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(DYNAMIC))
}

fn below(dynamic: u16) -> Range<u16> {
    FIRST..if dynamic > FIRST { dynamic } else { u16::MAX }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::{ClosedPort, below, free_ports};

    #[test]
    fn closed_port_refuses_connections_and_stays_reserved() {
        let closed = ClosedPort::take().unwrap();
        assert_eq!(TcpStream::connect(closed.addr()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(TcpListener::bind(closed.addr()).unwrap_err().kind(), ErrorKind::AddrInUse);
    }

    /// A stopped server has only its claim.
    #[cfg(target_os = "linux")]
    #[test]
    fn claimed_port_refuses_other_claims_although_it_is_unbound() {
        let claimed = super::ClaimedPorts::take(2).unwrap();
        for port in &claimed.numbers {
            assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok(), "bound by nobody");
            assert_eq!(super::claim(*port).unwrap_err().kind(), ErrorKind::AddrInUse);
        }
        let numbers = claimed.numbers.clone();
        drop(claimed);
        assert!(super::claim(numbers[0]).is_ok());
    }

    #[test]
    fn no_outgoing_connection_gets_the_port_of_a_server() {
        let ports = free_ports(9).unwrap();
        let mut different = ports.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 9);
        // A listener without a port gets a port of the range for outgoing connections.
        let dynamic =
            (0..200).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect::<Vec<_>>();
        let lowest = dynamic.iter().map(|socket| socket.local_addr().unwrap().port()).min().unwrap();
        assert!(ports.iter().all(|port| *port < lowest), "{ports:?} are not below {lowest}");
    }

    #[test]
    fn a_system_that_gives_all_ports_away_leaves_no_choice() {
        assert_eq!(below(32_768), 10_000..32_768);
        assert_eq!(below(1_024), 10_000..u16::MAX);
    }
}
