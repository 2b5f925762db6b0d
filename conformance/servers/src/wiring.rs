//! How several Redis servers are connected to each other.

use crate::ServerTls;

/// How several Redis servers are connected to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wiring<'a> {
    Plain,
    /// With TLS; they name each other by this host.
    Secured(&'a ServerTls, &'a str),
    /// By [crossings](crate::crossings), so that each can be cut off from the others.
    Cuttable,
}

impl<'a> Wiring<'a> {
    /// Their TLS, and the host by which they name each other.
    pub(crate) fn tls_and_host(self) -> (Option<&'a ServerTls>, &'a str) {
        match self {
            Wiring::Secured(tls, host) => (Some(tls), host),
            Wiring::Plain | Wiring::Cuttable => (None, "127.0.0.1"),
        }
    }

    /// Whether that host is a name, and no address.
    pub(crate) fn is_named(self) -> bool {
        !self.tls_and_host().1.ends_with(|end: char| end.is_ascii_digit())
    }
}
