use std::io;

use rustls::{AlertDescription, CertificateError, Error as TlsError};

use crate::error::{Error, ErrorKind};

#[derive(Debug)]
pub(super) struct Peer<'a> {
    pub(super) expected: &'static str,
    pub(super) host: &'a str,
    pub(super) asked: bool,
    pub(super) shows_certificate: bool,
    /// A server of this client has accepted the certificate.
    pub(super) taken: bool,
}

impl Peer<'_> {
    /// Judges a connection that ended without data after its handshake. `None` if TLS does not seem to be the
    /// cause.
    pub(super) fn refusal(&self, error: Option<&io::Error>) -> Option<Error> {
        let said = error.and_then(|error| error.get_ref()?.downcast_ref::<TlsError>());
        let refusal = match said {
            Some(TlsError::InvalidCertificate(why)) => self.certificate(why),
            Some(TlsError::AlertReceived(alert)) => self.alert(*alert),
            Some(TlsError::PeerIncompatible(_) | TlsError::PeerMisbehaved(_)) => Error::new(
                ErrorKind::Misconfigured,
                "the server and this client have no TLS version or cipher in common",
            ),
            Some(TlsError::NoApplicationProtocol) => self.wrong("a TLS server that speaks another protocol"),
            Some(TlsError::InvalidMessage(_)) => self.wrong("a server that does not speak TLS"),
            // A server that misses the required certificate often closes the connection before its alert is
            // read. If a server has accepted the certificate before, this is an outage: the server is down
            // behind a running TLS proxy, or it is just stopping.
            _ if self.asked && !self.taken => {
                self.unwanted("the server closed the connection after it asked for a client certificate")
            }
            _ => return None,
        };
        Some(refusal.because_of(said.cloned()))
    }

    fn wrong(&self, saw: &str) -> Error {
        Error::wrong_server(self.expected, saw, &format!("at {}", self.host))
    }

    fn certificate(&self, why: &CertificateError) -> Error {
        let misconfigured = |what: &'static str| Error::new(ErrorKind::Misconfigured, what);
        match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                misconfigured("the server's certificate has expired: renew it (or set this machine's clock)")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                misconfigured("the server's certificate is not valid yet: check the clocks of both machines")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                let host = self.host;
                let what = format!(
                    "the certificate is not for {host}: connect by a name in the certificate, or set `server_name` to one"
                );
                Error::wrong_server(self.expected, "a server whose certificate has another name", &what)
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => misconfigured(
                "no trusted authority has signed the server's certificate: give the authority's certificate as `ca`",
            ),
            CertificateError::Revoked => misconfigured("the server's certificate was revoked: replace it"),
            _ => misconfigured("the server's certificate cannot be accepted"),
        }
    }

    fn alert(&self, alert: AlertDescription) -> Error {
        use AlertDescription as Alert;
        match alert {
            Alert::CertificateExpired => {
                self.unwanted("the client's certificate has expired: renew it (or set the server's clock)")
            }
            Alert::CertificateRequired => self.unwanted("the server demands a client certificate"),
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError => self.unwanted("the server refused the client's certificate"),
            Alert::HandshakeFailure if self.asked => {
                self.unwanted("the server ended the handshake after it asked for a client certificate")
            }
            Alert::NoApplicationProtocol => self.wrong("a TLS server that speaks another protocol"),
            _ => Error::new(ErrorKind::Misconfigured, "the server refused the TLS handshake"),
        }
    }

    fn unwanted(&self, why: &'static str) -> Error {
        let what = match self.shows_certificate {
            true => "connect with this client certificate (see `cert` and `key`)",
            false => "connect without a client certificate (give `cert` and `key`)",
        };
        Error::forbidden(what, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_certificate_that_has_expired_is_to_be_renewed() {
        let peer = Peer { expected: "redis", host: "h", asked: true, shows_certificate: true, taken: false };
        let alert = |alert| {
            let said = io::Error::other(TlsError::AlertReceived(alert));
            peer.refusal(Some(&said)).expect("it is of TLS")
        };
        let expired = alert(AlertDescription::CertificateExpired);
        assert!(expired.kind() == ErrorKind::Forbidden, "{expired}");
        assert!(expired.to_string().contains("has expired: renew it"), "{expired}");
        assert!(!alert(AlertDescription::UnknownCA).to_string().contains("renew"));
    }
}
