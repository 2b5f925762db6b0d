//! Certificates of one's own, for servers that speak TLS and their clients.

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;

use crate::{ServerError, ServerTls};

/// Signs certificates. Each has a key of its own.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// From 1975 to 4096.
    Now,
    /// Until 2020.
    Over,
    /// From 4000 on.
    ToCome,
}

impl Authority {
    /// A new one, under this name.
    ///
    /// # Errors
    /// [`ServerError::Certificate`].
    pub fn new(name: &str) -> Result<Self, ServerError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// Its own certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for a server with these names and addresses, and its key, in PEM.
    ///
    /// # Errors
    /// [`ServerError::Certificate`].
    pub fn server(&self, names: &[&str], validity: Validity) -> Result<(String, String), ServerError> {
        self.sign(names, validity, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a client, and its key, in PEM.
    ///
    /// # Errors
    /// [`ServerError::Certificate`].
    pub fn client(&self, name: &str, validity: Validity) -> Result<(String, String), ServerError> {
        self.sign(&[name], validity, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        names: &[&str],
        validity: Validity,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<(String, String), ServerError> {
        let mut params =
            CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, *names.first().unwrap_or(&"nobody"));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![purpose];
        match validity {
            Validity::Now => {}
            Validity::Over => {
                (params.not_before, params.not_after) =
                    (date_time_ymd(2010, 1, 1), date_time_ymd(2020, 1, 1));
            }
            Validity::ToCome => params.not_before = date_time_ymd(4000, 1, 1),
        }
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }
}

/// A folder with all that one server and its clients need. It goes with this value.
#[derive(Debug)]
pub struct Certificates {
    /// Who signed them.
    pub authority: Authority,
    folder: TempDir,
}

impl Certificates {
    /// For a server at 127.0.0.1 and `localhost`, and a client.
    ///
    /// # Errors
    /// [`ServerError::Certificate`], or that of the file system.
    pub fn new() -> Result<Self, ServerError> {
        Self::of(&["127.0.0.1", "localhost"], Validity::Now)
    }

    /// For a server with these names, and a client. The client's is good in any case.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(names: &[&str], validity: Validity) -> Result<Self, ServerError> {
        let authority = Authority::new("the tests' authority")?;
        let folder = tempfile::Builder::new().prefix("latchwork-tls-").tempdir();
        let folder = folder.map_err(ServerError::io("making a folder for certificates"))?;
        let certificates = Self { authority, folder };
        certificates.write("ca.pem", certificates.authority.certificate())?;
        let (cert, key) = certificates.authority.server(names, validity)?;
        // ZooKeeper wants both in one file.
        certificates.write("server-both.pem", &(key.clone() + &cert))?;
        certificates.write_pair("server", (cert, key))?;
        certificates.renew_client("client")?;
        Ok(certificates)
    }

    /// Writes a new certificate for the client, with a new key, in the place of the last ones.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn renew_client(&self, name: &str) -> Result<(), ServerError> {
        self.write_pair("client", self.authority.client(name, Validity::Now)?)
    }

    fn write_pair(&self, whose: &str, (cert, key): (String, String)) -> Result<(), ServerError> {
        self.write(&format!("{whose}.pem"), &cert)?;
        self.write(&format!("{whose}.key"), &key)
    }

    /// Writes a file beside the others.
    ///
    /// # Errors
    /// That of the file system.
    pub fn write(&self, name: &str, text: &str) -> Result<(), ServerError> {
        fs::write(self.path(name), text).map_err(ServerError::io("writing a certificate"))
    }

    /// The path of a file: `ca.pem`, `client.pem`, `client.key`, `server.pem`, `server.key`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a server shows, and whom it asks for a certificate.
    pub fn server(&self, demands: bool) -> ServerTls {
        ServerTls::new(self.folder.path(), demands)
    }

    /// What a URL of a client says behind its `?`: whom it trusts.
    pub fn trusting(&self) -> String {
        format!("ca={}", self.path("ca.pem").display())
    }

    /// The same, with the client's own certificate.
    pub fn mutual(&self) -> String {
        self.showing("client")
    }

    /// The same, with a certificate that somebody else has signed: `stranger.pem`, with `stranger.key`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_a_stranger(&self) -> Result<String, ServerError> {
        self.write_pair("stranger", Authority::new("a stranger")?.client("client", Validity::Now)?)?;
        Ok(self.showing("stranger"))
    }

    /// The same, with a certificate that is over: `expired.pem`, with `expired.key`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn expired(&self) -> Result<String, ServerError> {
        self.write_pair("expired", self.authority.client("client", Validity::Over)?)?;
        Ok(self.showing("expired"))
    }

    fn showing(&self, whose: &str) -> String {
        let [cert, key] = ["pem", "key"].map(|kind| self.path(&format!("{whose}.{kind}")));
        format!("{}&cert={}&key={}", self.trusting(), cert.display(), key.display())
    }
}
