//! Host names are resolved at each dial: a client whose server has moved to another address comes back to
//! it there, and keeps what it holds.
//!
//! The tests run in a mount namespace of their own, with a file of their own in the place of `/etc/hosts`.
//! Where the system gives none (`unshare -rm`), they are listed as ignored.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use latchwork_core::{Config, Connector, Coordinator, Release, connect};
use latchwork_servers::{Certificates, Clocks, Kind, Options, Server, Validity};
use libtest_mimic::{Arguments, Trial};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, JoinSet};

/// Names the file of hosts to the process within the namespace.
const HOSTS: &str = "LATCHWORK_TEST_HOSTS";

/// Where a server is first, and then.
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const THEN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// A client comes back in far less, but on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

fn main() -> ExitCode {
    let within = std::env::var_os(HOSTS).is_some();
    if !within {
        let folder = tempfile::tempdir().expect("a folder");
        let hosts = folder.path().join("hosts");
        write_hosts(&hosts);
        if in_namespace(&hosts).arg("true").output().is_ok_and(|output| output.status.success()) {
            let own = std::env::current_exe().expect("this program");
            let status = in_namespace(&hosts).arg(own).args(std::env::args_os().skip(1)).status();
            let code = status.expect("it has just worked").code();
            return ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
        eprintln!("NOT CHECKED: names are resolved at each dial (no mount namespace: unshare -rm)");
    }
    let trials = cases().map(|(kind, tls)| {
        Trial::test(name(kind, tls), move || {
            Runtime::new()?.block_on(a_server_that_moves_is_found(kind, tls));
            Ok(())
        })
        .with_ignored_flag(!within)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn cases() -> impl Iterator<Item = (Kind, bool)> {
    [Kind::Redis, Kind::Zookeeper, Kind::Etcd].into_iter().flat_map(|kind| [(kind, false), (kind, true)])
}

/// The name of a case is that of its server, too.
fn name(kind: Kind, tls: bool) -> String {
    format!("{kind}{}.moves.test", if tls { "-tls" } else { "" })
}

/// A command whose `/etc/hosts` is this file. What runs there begins with its first argument.
fn in_namespace(hosts: &Path) -> Command {
    let mut command = Command::new("unshare");
    let script = r#"mount --bind "$0" /etc/hosts && exec "$@""#;
    command.args(["-rm", "sh", "-c", script]).arg(hosts).env(HOSTS, hosts);
    command
}

fn write_hosts(hosts: &Path) {
    let mut text = fs::read_to_string("/etc/hosts").unwrap_or_default();
    for (kind, tls) in cases() {
        text.push_str(&format!("\n{FIRST} {}\n", name(kind, tls)));
    }
    fs::write(hosts, text).expect("written");
}

/// Gives a name its second address, in one write of one byte: whoever reads sees the one or the other.
fn move_away(name: &str) {
    let hosts = std::env::var_os(HOSTS).expect("within the namespace");
    let text = fs::read_to_string(&hosts).expect("it is there");
    let line = text.find(&format!("{FIRST} {name}\n")).expect("the name is there");
    let digit = line + FIRST.to_string().len() - 1;
    let file = File::options().write(true).open(hosts).expect("it may be written");
    file.write_all_at(&[b'0' + THEN.octets()[3]], digit as u64).expect("written");
}

/// Where a server is reached, while this lives.
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
            // They end with this task.
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

    /// Ends it: behind this, nothing goes through.
    async fn shut(mut self) {
        self.task.abort();
        let ended = (&mut self.task).await;
        assert!(ended.is_err_and(|ended| ended.is_cancelled()), "nothing else ends a door");
    }

    fn came(&self) -> usize {
        self.came.load(Ordering::SeqCst)
    }
}

/// Two listeners with one port.
async fn listeners() -> ([TcpListener; 2], u16) {
    loop {
        let first = TcpListener::bind((FIRST, 0)).await.expect("loopback has all these addresses");
        let port = first.local_addr().expect("bound").port();
        // Another program may have that one.
        if let Ok(then) = TcpListener::bind(SocketAddr::from((THEN, port))).await {
            return ([first, then], port);
        }
    }
}

fn connectors() -> Vec<Arc<dyn Connector>> {
    vec![latchwork_redis::connector(), latchwork_zookeeper::connector(), latchwork_etcd::connector()]
}

async fn client(kind: Kind, certificates: Option<&Certificates>, host: String) -> Coordinator {
    let mut config = Config::new(kind.name());
    config.hosts = vec![host];
    (config.ttl, config.connect_timeout) = (Duration::from_secs(60), PATIENCE);
    if kind == Kind::Zookeeper {
        config.tick = Clocks::Fast.zookeeper_tick();
    }
    if let Some(certificates) = certificates {
        config.tls = true;
        config.ca = Some(certificates.path("ca.pem"));
    }
    connect(&connectors(), &config).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn a_server_that_moves_is_found(kind: Kind, tls: bool) {
    let name = name(kind, tls);
    // It is checked by its name, wherever it is.
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
    // The control: the name is all that leads to the other address.
    let nobody = other.acquire_within(Duration::from_millis(700)).await;
    assert!(nobody.is_err() && then.came() == 0, "nobody is at the first address: {nobody:?}");
    move_away(&name);
    let again = other.acquire_within(PATIENCE).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(then.came() > 0);
    assert_eq!(again.release().await.expect("released"), Release::Released);
    assert!(hold.is_held());
    assert_eq!(hold.release().await.expect("released"), Release::Released);
    client.close().await.expect("closed");
}
