//! The connections between several Redis servers.

use crate::ServerTls;

/// The kind of connections between several Redis servers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wiring<'a> {
    Plain,
    /// With TLS. The servers name each other by this host.
    Secured(&'a ServerTls, &'a str),
    /// Through [crossings](crate::crossings), so that each server can be cut off from the others.
    Cuttable,
}

impl<'a> Wiring<'a> {
    /// Returns their TLS settings, and the host by which they name each other.
    pub(crate) fn tls_and_host(self) -> (Option<&'a ServerTls>, &'a str) {
        match self {
            Wiring::Secured(tls, host) => (Some(tls), host),
            Wiring::Plain | Wiring::Cuttable => (None, "127.0.0.1"),
        }
    }

    /// Returns whether that host is a name, and not an address.
    pub(crate) fn is_named(self) -> bool {
        !self.tls_and_host().1.ends_with(|end: char| end.is_ascii_digit())
    }
}
