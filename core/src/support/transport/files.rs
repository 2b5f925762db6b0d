use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::ResolvesClientCert;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};

use crate::error::{Error, ErrorKind, Result};

#[derive(Debug)]
pub(super) struct Paths {
    pub(super) ca: Option<PathBuf>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

#[derive(PartialEq, Eq)]
pub(super) struct Contents {
    ca: Option<Vec<u8>>,
    cert: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl Paths {
    pub(super) fn read(&self) -> Result<Contents> {
        let read = |name, path: &Option<PathBuf>| path.as_deref().map(|path| read(name, path)).transpose();
        Ok(Contents {
            ca: read("ca", &self.ca)?,
            cert: read("cert", &self.cert)?,
            key: read("key", &self.key)?,
        })
    }
}

fn read(name: &'static str, path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| {
        Error::invalid(name, format!("the file {} cannot be read", path.display())).because(error)
    })
}

impl Contents {
    /// Blocks.
    pub(super) fn load(&self, protocol: Option<&[u8]>) -> Result<Loaded> {
        let provider = Arc::new(ring::default_provider());
        let roots = match &self.ca {
            Some(pem) => authorities(pem)?,
            None => system()?,
        };
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(Arc::new(identity(cert, key, &provider)?)),
            _ => None,
        };
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(
                |error| Error::new(ErrorKind::Misconfigured, "rustls has no version of TLS").because(error),
            )?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
        Ok(Loaded { config: Arc::new(config), identity, taken: Arc::default() })
    }
}

#[derive(Clone)]
pub(super) struct Loaded {
    config: Arc<ClientConfig>,
    identity: Option<Arc<CertifiedKey>>,
    /// A server that asked for the certificate has answered, and so accepts it.
    pub(super) taken: Arc<AtomicBool>,
}

impl Loaded {
    /// Sets `asked` when the server asks for a certificate. All connections share their TLS sessions.
    pub(super) fn config(&self, asked: &Arc<AtomicBool>) -> ClientConfig {
        let mut config = ClientConfig::clone(&self.config);
        let (identity, asked) = (self.identity.clone(), Arc::clone(asked));
        config.client_auth_cert_resolver = Arc::new(Identity { identity, asked });
        config
    }
}

fn authorities(pem: &[u8]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", pem)? {
        roots.add(certificate).map_err(|error| {
            Error::invalid("ca", "contains a certificate that cannot be used").because(error)
        })?;
    }
    Ok(roots)
}

fn system() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (_, bad) = roots.add_parsable_certificates(found.certs);
    if bad > 0 || !found.errors.is_empty() {
        tracing::debug!(bad, errors = ?found.errors, "some of the system's certificates cannot be read");
    }
    if roots.is_empty() {
        let why = "this system has no certificates of trusted authorities: install them (package ca-certificates), or give `ca`";
        return Err(Error::new(ErrorKind::Misconfigured, why).because_of(found.errors.into_iter().next()));
    }
    Ok(roots)
}

fn certificates(name: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(Error::invalid(name, "the file contains no PEM certificate")),
        Ok(found) => Ok(found),
        Err(error) => Err(Error::invalid(name, "the file is not valid PEM").because(error)),
    }
}

fn identity(cert: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey> {
    let chain = certificates("cert", cert)?;
    // The parser's error might quote the file.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| Error::invalid("key", "the file contains no PEM private key"))?;
    let key = provider.key_provider.load_private_key(key).map_err(|_| {
        Error::invalid(
            "key",
            "the private key cannot be used: it must be RSA, ECDSA or Ed25519, without a password",
        )
    })?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(identity),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(Error::invalid("key", "is not the private key of the certificate in `cert`"))
        }
        Err(error) => {
            Err(Error::invalid("cert", "contains a certificate that cannot be used").because(error))
        }
    }
}

#[derive(Debug)]
struct Identity {
    identity: Option<Arc<CertifiedKey>>,
    asked: Arc<AtomicBool>,
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Release);
        self.identity.clone()
    }

    fn has_certs(&self) -> bool {
        self.identity.is_some()
    }
}
