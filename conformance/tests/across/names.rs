//! Host names are resolved at each dial: a client whose server has moved to another address reconnects there,
//! and keeps its holds.
//!
//! Each test runs in a separate process and mount namespace, with its own `/etc/hosts`. Without a namespace
//! (`unshare -rm`), it only reports that.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use latchwork_core::{Config, Coordinator, connect};
use latchwork_servers::{Certificates, Clocks, Kind, Options, Server, Validity};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::connectors;

const HOSTS: &str = "LATCHWORK_TEST_HOSTS";

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const THEN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

const PATIENCE: Duration = Duration::from_secs(40);

/// Returns `true` in the namespace.
fn is_in_namespace(test: &str, host: &str) -> bool {
    if std::env::var_os(HOSTS).is_some() {
        return true;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = folder.path().join("hosts");
    let known = fs::read_to_string("/etc/hosts").unwrap_or_default();
    fs::write(&hosts, format!("{known}\n{FIRST} {host}\n")).expect("written");
    if !in_namespace(&hosts).arg("true").output().is_ok_and(|output| output.status.success()) {
        // The test harness shows the output of failed tests only.
        let mut out = std::io::stderr();
        let _ = writeln!(out, "NOT CHECKED: {test} (no mount namespace: unshare -rm)");
        return false;
    }
    let own = std::env::current_exe().expect("this program");
    let output = in_namespace(&hosts).arg(own).args(["--exact", test, "--nocapture"]).output();
    let output = output.expect("the command worked before");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let passed = output.status.success() && said[0].contains("test result: ok. 1 passed");
    assert!(passed, "{test} in its own namespace: {said:#?}");
    false
}

fn in_namespace(hosts: &Path) -> Command {
    let mut command = Command::new("unshare");
    let script = r#"mount --bind "$0" /etc/hosts && exec "$@""#;
    command.args(["-rm", "sh", "-c", script]).arg(hosts).env(HOSTS, hosts);
    command
}

/// Writes one byte at once, so that every reader sees one of the two addresses.
fn move_away(name: &str) {
    let hosts = std::env::var_os(HOSTS).expect("within the namespace");
    let text = fs::read_to_string(&hosts).expect("it is there");
    let line = text.find(&format!("{FIRST} {name}\n")).expect("the name is there");
    let digit = line + FIRST.to_string().len() - 1;
    let file = File::options().write(true).open(hosts).expect("the file is writable");
    file.write_all_at(&[b'0' + THEN.octets()[3]], digit as u64).expect("written");
}

struct Door {
    came: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Door {
    fn open(listener: TcpListener, to: &str) -> Self {
        let (came, to): (Arc<AtomicUsize>, _) = (Arc::default(), to.to_owned());
        let count = Arc::clone(&came);
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.expect("a listener");
                count.fetch_add(1, Ordering::SeqCst);
                let to = to.clone();
                open.spawn(async move {
                    let mut server = TcpStream::connect(to).await?;
                    copy_bidirectional(&mut client, &mut server).await.map(drop)
                });
            }
        });
        Self { came, task }
    }

    async fn shut(mut self) {
        self.task.abort();
        let ended = (&mut self.task).await;
        assert!(ended.is_err_and(|ended| ended.is_cancelled()), "only a cancellation ends a door");
    }

    fn came(&self) -> usize {
        self.came.load(Ordering::SeqCst)
    }
}

async fn listeners() -> ([TcpListener; 2], u16) {
    loop {
        let first = TcpListener::bind((FIRST, 0)).await.expect("loopback has all these addresses");
        let port = first.local_addr().expect("bound").port();
        if let Ok(then) = TcpListener::bind(SocketAddr::from((THEN, port))).await {
            return ([first, then], port);
        }
    }
}

async fn client(kind: Kind, certificates: Option<&Certificates>, host: String) -> Coordinator {
    let mut config = Config::new(kind.name());
    config.hosts = vec![host];
    (config.ttl, config.connect_timeout) = (Duration::from_secs(60), PATIENCE);
    if kind == Kind::Zookeeper {
        config.options.set_duration("tick", Clocks::Fast.zookeeper_tick());
    }
    if let Some(certificates) = certificates {
        config.tls = true;
        config.ca = Some(certificates.path("ca.pem"));
    }
    connect(&connectors(), &config).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn a_server_that_moves_is_found(kind: Kind, tls: bool) {
    let name = format!("{kind}{}.moves.test", if tls { "-tls" } else { "" });
    let test = format!("names::{kind}::a_server_that_moves_is_found{}", if tls { "_over_tls" } else { "" });
    if !is_in_namespace(&test, &name) {
        return;
    }
    // The certificate is checked by name, at any address.
    let certificates = tls.then(|| Certificates::of(&[name.as_str()], Validity::Now).expect("made"));
    let options = match &certificates {
        Some(certificates) => Options::new().tls(certificates.server(false)),
        None => Options::new().own(),
    };
    let server = Server::start(kind, options).await.unwrap_or_else(|error| panic!("{error}"));
    let addr = server.tls_addr().unwrap_or_else(|| server.addr().to_owned());
    let ([first, then], port) = listeners().await;
    let (first, then) = (Door::open(first, &addr), Door::open(then, &addr));

    let client = client(kind, certificates.as_ref(), format!("{name}:{port}")).await;
    let hold = client.mutex("held").expect("a key").acquire().await.expect("free");
    assert!(first.came() > 0 && then.came() == 0);
    first.shut().await;
    let other = client.mutex("other").expect("a key");
    let nobody = other.acquire().within(Duration::from_millis(700)).await;
    assert!(nobody.is_err() && then.came() == 0, "no server listens at the first address: {nobody:?}");
    move_away(&name);
    let again = other.acquire().within(PATIENCE).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(then.came() > 0);
    again.release().await.expect("released");
    assert!(hold.is_held());
    hold.release().await.expect("released");
    client.close().await.expect("closed");
}

macro_rules! on {
    ($($name:ident $kind:ident;)*) => { $(
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_server_that_moves_is_found() {
                super::a_server_that_moves_is_found(Kind::$kind, false).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_server_that_moves_is_found_over_tls() {
                super::a_server_that_moves_is_found(Kind::$kind, true).await;
            }
        }
    )* };
}

on! {
    redis Redis;
    zookeeper Zookeeper;
    etcd Etcd;
}
