use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;

use crate::{ServerError, ServerTls};

/// An authority that gives each certificate a new key. Methods fail with [`ServerError::Certificate`].
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Valid from 1975 to 4096.
    Now,
    /// Valid until 2020.
    Over,
    /// Valid from 4000 on.
    ToCome,
}

impl Authority {
    /// Creates an authority.
    pub fn new(name: &str) -> Result<Self, ServerError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// Returns its own PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns certificate and key of a server with these names and addresses, as PEM.
    pub fn server(&self, names: &[&str], validity: Validity) -> Result<(String, String), ServerError> {
        self.sign(names, validity, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Returns certificate and key of a client, as PEM.
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

/// A folder with the certificates of one server and its clients, until the drop. Methods fail with
/// [`ServerError::Certificate`] or an error of the file system.
#[derive(Debug)]
pub struct Certificates {
    /// The authority.
    pub authority: Authority,
    folder: TempDir,
}

impl Certificates {
    /// Creates certificates for 127.0.0.1 and `localhost`, and for a client.
    pub fn new() -> Result<Self, ServerError> {
        Self::of(&["127.0.0.1", "localhost"], Validity::Now)
    }

    /// Creates certificates for these names, and a valid one for a client.
    pub fn of(names: &[&str], validity: Validity) -> Result<Self, ServerError> {
        let authority = Authority::new("the tests' authority")?;
        let folder = tempfile::Builder::new().prefix("latchwork-tls-").tempdir();
        let folder = folder.map_err(ServerError::io("making a folder for certificates"))?;
        let certificates = Self { authority, folder };
        certificates.write("ca.pem", certificates.authority.certificate())?;
        let (cert, key) = certificates.authority.server(names, validity)?;
        // ZooKeeper reads both from one file.
        certificates.write("server-both.pem", &(key.clone() + &cert))?;
        certificates.write_pair("server", (cert, key))?;
        certificates.renew_client("client")?;
        Ok(certificates)
    }

    /// Replaces the client's certificate and key.
    pub fn renew_client(&self, name: &str) -> Result<(), ServerError> {
        self.write_pair("client", self.authority.client(name, Validity::Now)?)
    }

    fn write_pair(&self, whose: &str, (cert, key): (String, String)) -> Result<(), ServerError> {
        self.write(&format!("{whose}.pem"), &cert)?;
        self.write(&format!("{whose}.key"), &key)
    }

    /// Writes another file.
    pub fn write(&self, name: &str, text: &str) -> Result<(), ServerError> {
        fs::write(self.path(name), text).map_err(ServerError::io("writing a certificate"))
    }

    /// Returns the path of `ca.pem`, `client.pem`, `client.key`, `server.pem` or `server.key`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the settings of a server, which may demand certificates of clients.
    pub fn server(&self, demands: bool) -> ServerTls {
        ServerTls::new(self.folder.path(), demands)
    }

    /// Returns the URL options that trust this authority.
    pub fn trusting(&self) -> String {
        format!("ca={}", self.path("ca.pem").display())
    }

    /// Returns the same with the client's certificate.
    pub fn mutual(&self) -> String {
        self.showing("client")
    }

    /// Returns the same with a certificate of another authority, in `stranger.pem` and `stranger.key`.
    pub fn of_a_stranger(&self) -> Result<String, ServerError> {
        self.write_pair("stranger", Authority::new("a stranger")?.client("client", Validity::Now)?)?;
        Ok(self.showing("stranger"))
    }

    /// Returns the same with an expired certificate, in `expired.pem` and `expired.key`.
    pub fn expired(&self) -> Result<String, ServerError> {
        self.write_pair("expired", self.authority.client("client", Validity::Over)?)?;
        Ok(self.showing("expired"))
    }

    fn showing(&self, whose: &str) -> String {
        let [cert, key] = ["pem", "key"].map(|kind| self.path(&format!("{whose}.{kind}")));
        format!("{}&cert={}&key={}", self.trusting(), cert.display(), key.display())
    }
}
