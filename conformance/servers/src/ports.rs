//! Ports for servers that stay theirs, and for nobody.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::net::UnixDatagram;

use tokio::net::TcpSocket;

use crate::ServerError;

/// Below it are the well-known services, whose default ports are left to others.
const FIRST: u16 = 10_000;

/// Where dynamic ports begin on systems that do not say (RFC 6335).
const DYNAMIC: u16 = 49_152;

/// How many ports are tried for each that is wanted: they are taken only where dozens of servers
/// run.
const TRIES: usize = 100;

/// Ports of the loopback interface that are free now, all different. On Linux no other caller gets one of
/// them while this process runs.
///
/// The system gives none of them to an outgoing connection. A server does not hold its ports all
/// the time: not while it is stopped, and a follower binds its quorum port only when it leads. A
/// connection that had the port meanwhile would keep the server from it for a minute beyond its own
/// end (`TIME_WAIT`).
///
/// # Errors
/// [`ServerError`] when the system gives too few.
pub fn free_ports(count: usize) -> Result<Vec<u16>, ServerError> {
    let claimed = ClaimedPorts::take(count)?;
    // Nobody says when these are of no use any more.
    std::mem::forget(claimed.claims);
    Ok(claimed.numbers)
}

/// Ports as [`free_ports`] gives them, which no other caller gets before this is dropped, on Linux.
#[derive(Debug)]
pub(super) struct ClaimedPorts {
    pub(super) numbers: Vec<u16>,
    claims: Vec<Option<UnixDatagram>>,
}

impl ClaimedPorts {
    /// Takes so many.
    ///
    /// # Errors
    /// [`ServerError`] when the system gives too few.
    pub(super) fn take(count: usize) -> Result<Self, ServerError> {
        let range = range();
        let (mut numbers, mut claims, mut bound) = (Vec::new(), Vec::new(), Vec::new());
        let mut refused = None;
        for _ in 0..count * TRIES {
            if numbers.len() == count {
                break;
            }
            let port = rand::random_range(range.clone());
            // Claimed first: somebody whose server is stopped just now has no more than the claim.
            let claimed =
                claim(port).and_then(|claim| Ok((claim, TcpListener::bind((Ipv4Addr::LOCALHOST, port))?)));
            match claimed {
                Ok((claim, listener)) => {
                    numbers.push(port);
                    claims.push(claim);
                    // All are bound before any is given back: where there are no claims, they differ by that.
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

/// A socket whose name is the port's: of all processes one has it, and the system takes it back when
/// that process ends, however it ends.
#[cfg(target_os = "linux")]
fn claim(port: u16) -> io::Result<Option<UnixDatagram>> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;
    let name = SocketAddr::from_abstract_name(format!("latchwork-port-{port}"))?;
    match UnixDatagram::bind_addr(&name) {
        Ok(claim) => Ok(Some(claim)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        // They are forbidden here. It is as on other systems.
        Err(_) => Ok(None),
    }
}

/// Other systems have no such names. There a port that is free now is all that there is.
#[cfg(not(target_os = "linux"))]
fn claim(_: u16) -> io::Result<Option<UnixDatagram>> {
    Ok(None)
}

/// A port of the loopback interface that refuses connections. No other program gets it before this is
/// dropped, as it may get one that was bound and given back.
#[derive(Debug)]
pub struct ClosedPort {
    addr: SocketAddr,
    // Bound, and never listened at.
    _bound: TcpSocket,
}

impl ClosedPort {
    /// Takes one.
    ///
    /// # Errors
    /// [`ServerError`] when the system gives none.
    pub fn take() -> Result<Self, ServerError> {
        let taken = TcpSocket::new_v4().and_then(|socket| {
            socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
            Ok(Self { addr: socket.local_addr()?, _bound: socket })
        });
        taken.map_err(ServerError::io("binding a port"))
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// The ports below those that the system gives to outgoing connections.
fn range() -> Range<u16> {
    // Another system than Linux has no such file.
    let dynamic = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    below(dynamic.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(DYNAMIC))
}

/// A system that gives all ports away leaves no choice.
fn below(dynamic: u16) -> Range<u16> {
    FIRST..if dynamic > FIRST { dynamic } else { u16::MAX }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::{ClosedPort, below, free_ports};

    #[test]
    fn a_closed_port_refuses_and_is_nobody_elses() {
        let closed = ClosedPort::take().unwrap();
        assert_eq!(TcpStream::connect(closed.addr()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(TcpListener::bind(closed.addr()).unwrap_err().kind(), ErrorKind::AddrInUse);
    }

    /// A server of it may be stopped just then.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_claimed_port_is_nobody_elses_though_nobody_has_bound_it() {
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
        // The system gives a listener that names no port one of those that connections get.
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
