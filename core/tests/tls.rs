//! The test programs of the backends use real servers instead.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use latchwork_core::backend::Transport;
use latchwork_core::{Config, ErrorKind};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Pem = (String, String);

struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self(Issuer::new(params, key), pem)
    }

    fn sign(&self, name: &str) -> Pem {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    async fn serve(&self, served: Arc<AtomicUsize>) -> String {
        self.listen(b"hello", served).await
    }

    /// Like a TLS proxy whose server is down.
    async fn hang_up(&self) -> String {
        self.listen(b"", Arc::default()).await
    }

    async fn listen(&self, greeting: &'static [u8], served: Arc<AtomicUsize>) -> String {
        let provider = Arc::new(ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.1.as_bytes()).unwrap()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider)).build().unwrap();
        let (cert, key) = self.sign("127.0.0.1");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        let (acceptor, listener) =
            (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    served.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(greeting).await;
                    let _ = stream.shutdown().await;
                }
            }
        });
        address
    }
}

struct Files(PathBuf);

impl Files {
    fn new(authority: &Authority) -> Self {
        let folder = std::env::temp_dir().join(format!("latchwork-tls-{}", uuid::Uuid::new_v4()));
        fs::create_dir(&folder).unwrap();
        let files = Self(folder);
        files.write("ca", &authority.1);
        files.identity(&authority.sign("client"));
        files
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn identity(&self, (cert, key): &Pem) {
        self.write("cert", cert);
        self.write("key", key);
    }

    fn config(&self) -> Config {
        let mut config = Config::new("redis");
        config.tls = true;
        let path = |name: &str| Some(self.0.join(name));
        (config.ca, config.cert, config.key) = (path("ca"), path("cert"), path("key"));
        config
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

async fn greeting(transport: &Transport, address: &str) -> std::io::Result<String> {
    let mut text = String::new();
    transport.dial(address).await?.read_to_string(&mut text).await?;
    Ok(text)
}

async fn refused(config: &Config) -> (Option<&'static str>, String) {
    let error = Transport::of(config, None).unwrap().prepare().await.unwrap_err();
    (error.argument(), error.to_string())
}

#[tokio::test]
async fn a_mistake_in_a_file_is_an_invalid_argument_that_names_the_field() {
    let (authority, other) = (Authority::new(), Authority::new().sign("other"));
    let files = Files::new(&authority);
    Transport::of(&files.config(), None).unwrap().prepare().await.expect("these are good");
    for (name, text, says) in [
        ("ca", "", "no PEM certificate"),
        (
            "ca",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "a certificate that cannot be used",
        ),
        ("ca", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "not valid PEM"),
        ("cert", "nothing", "no PEM certificate"),
        (
            "cert",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "a certificate that cannot be used",
        ),
        ("key", "nothing", "no PEM private key"),
        ("key", "-----BEGIN PRIVATE KEY-----\nhunter2h\n-----END PRIVATE KEY-----\n", "cannot be used"),
        ("key", other.1.as_str(), "not the private key of the certificate"),
    ] {
        let files = Files::new(&authority);
        files.write(name, text);
        let (argument, error) = refused(&files.config()).await;
        assert!(argument == Some(name) && error.contains(says), "{name} {text:?}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    for name in ["ca", "cert", "key"] {
        let mut config = files.config();
        for (path, says) in [(files.0.join("missing"), "missing"), (files.0.clone(), "cannot be read")] {
            *match name {
                "ca" => &mut config.ca,
                "cert" => &mut config.cert,
                _ => &mut config.key,
            } = Some(path);
            let (argument, error) = refused(&config).await;
            assert!(argument == Some(name) && error.contains(says), "{name}: {error}");
        }
    }
    let mut config = files.config();
    config.server_name = Some("no name".to_owned());
    assert_eq!(Transport::of(&config, None).unwrap_err().argument(), Some("server_name"));
}

#[tokio::test]
async fn next_connection_uses_renewed_files() {
    let (authority, served) = (Authority::new(), Arc::default());
    let address = authority.serve(Arc::clone(&served)).await;
    let files = Files::new(&authority);
    let transport = Transport::of(&files.config(), None).unwrap();
    assert_eq!(greeting(&transport, &address).await.unwrap(), "hello");

    files.identity(&Authority::new().sign("client"));
    greeting(&transport, &address).await.expect_err("the new files are used");
    let failure = transport.failure().expect("it is TLS that failed");
    assert!(failure.kind() == ErrorKind::Forbidden, "{failure}");

    files.identity(&authority.sign("renewed"));
    assert_eq!(greeting(&transport, &address).await.unwrap(), "hello");
    assert!(transport.failure().is_none(), "it is over");

    // A certificate without its key, as during a renewal: the last good files are used.
    files.write("cert", &authority.sign("half").0);
    assert_eq!(greeting(&transport, &address).await.unwrap(), "hello");
    files.write("ca", "gone");
    assert_eq!(greeting(&transport, &address).await.unwrap(), "hello");
    assert_eq!(served.load(Ordering::SeqCst), 4);
}

/// A server that closes the connection may refuse the certificate. After a server has accepted it, this is an
/// outage.
#[tokio::test]
async fn a_hang_up_refuses_no_certificate_that_a_server_has_taken() {
    let authority = Authority::new();
    let (taking, hanging) = (authority.serve(Arc::default()).await, authority.hang_up().await);
    let files = Files::new(&authority);
    let is_forbidden = |transport: &Transport| {
        transport.failure().is_some_and(|failure| failure.kind() == ErrorKind::Forbidden)
    };
    let transport = Transport::of(&files.config(), None).unwrap();
    assert_eq!(greeting(&transport, &hanging).await.unwrap_or_default(), "");
    assert!(is_forbidden(&transport), "no client has taken it");

    let transport = Transport::of(&files.config(), None).unwrap();
    for with in [&transport, &transport.apart()] {
        assert_eq!(greeting(&transport, &taking).await.unwrap(), "hello");
        assert_eq!(greeting(with, &hanging).await.unwrap_or_default(), "");
        assert!(with.failure().is_none(), "{:?}", with.failure());
    }

    files.identity(&authority.sign("renewed"));
    assert_eq!(greeting(&transport, &hanging).await.unwrap_or_default(), "");
    assert!(is_forbidden(&transport), "no client has taken the new one");
}

#[tokio::test]
async fn another_name_is_expected_where_one_is_given() {
    let authority = Authority::new();
    let address = authority.serve(Arc::default()).await;
    let files = Files::new(&authority);
    let mut config = files.config();
    config.server_name = Some("elsewhere".to_owned());
    let transport = Transport::of(&config, None).unwrap();
    greeting(&transport, &address).await.expect_err("another name");
    let failure = transport.failure().expect("it is TLS that failed");
    assert_eq!(failure.kind(), ErrorKind::WrongServer, "{failure}");
    config.server_name = Some("127.0.0.1".to_owned());
    let transport = Transport::of(&config, None).unwrap();
    let dialled = address.replace("127.0.0.1", "localhost");
    assert_eq!(greeting(&transport, &dialled).await.unwrap(), "hello");
}

/// One test, because the default of rustls is process-wide: without a default, then with one without cipher
/// suites.
#[tokio::test]
async fn no_process_wide_provider_is_needed_used_or_set() {
    let authority = Authority::new();
    let address = authority.serve(Arc::default()).await;
    let files = Files::new(&authority);
    let talk = async || {
        let transport = Transport::of(&files.config(), None).unwrap();
        greeting(&transport, &address).await
    };
    assert!(CryptoProvider::get_default().is_none());
    assert_eq!(talk().await.unwrap(), "hello");
    assert!(CryptoProvider::get_default().is_none(), "it is the program's to set");

    let useless =
        CryptoProvider { cipher_suites: Vec::new(), kx_groups: Vec::new(), ..ring::default_provider() };
    useless.install_default().expect("no default is set yet");
    assert_eq!(talk().await.unwrap(), "hello");
}
