use crate::ServerTls;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Wiring<'a> {
    Plain,
    /// The servers name each other by this host.
    Secured(&'a ServerTls, &'a str),
    /// Through [crossings](crate::crossings).
    Cuttable,
}

impl<'a> Wiring<'a> {
    pub(crate) fn tls_and_host(self) -> (Option<&'a ServerTls>, &'a str) {
        match self {
            Wiring::Secured(tls, host) => (Some(tls), host),
            Wiring::Plain | Wiring::Cuttable => (None, "127.0.0.1"),
        }
    }

    pub(crate) fn is_named(self) -> bool {
        !self.tls_and_host().1.ends_with(|end: char| end.is_ascii_digit())
    }
}
