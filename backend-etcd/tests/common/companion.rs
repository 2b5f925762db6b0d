use std::process::Stdio;

use latchwork_conformance::servers::{Server, free_ports};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::{etcdctl, until};

pub(crate) struct Companion {
    pub(crate) addr: String,
    _program: Child,
    _folder: TempDir,
}

impl Companion {
    pub(crate) async fn learner(server: &Server) -> Self {
        let [client, peer] = ports(2)[..] else { unreachable!("two ports") };
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let added = etcdctl(server, &["member", "add", "learner", "--learner", "--peer-urls", &peer]).await;
        let cluster = added.lines().find_map(|line| line.strip_prefix("ETCD_INITIAL_CLUSTER="));
        let cluster = cluster.expect("the members").trim_matches('"');
        let arguments = [
            &["--name", "learner", "--initial-cluster-state", "existing", "--initial-cluster", cluster][..],
            &["--listen-client-urls", &client, "--advertise-client-urls", &client],
            &["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer],
        ];
        let learner = Self::start(&client, &arguments.concat()).await;
        // Until then, the learner knows no leader.
        until(async || etcdctl(server, &["endpoint", "status", "--cluster"]).await.lines().count() == 2)
            .await;
        learner
    }

    pub(crate) async fn proxy(server: &Server) -> Self {
        let addr = format!("127.0.0.1:{}", ports(1)[0]);
        let arguments = ["grpc-proxy", "start", "--endpoints", server.addr(), "--listen-addr", &addr];
        Self::start(&format!("http://{addr}"), &arguments).await
    }

    async fn start(url: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("etcd");
        command.args(arguments).current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = command.kill_on_drop(true).spawn().unwrap();
        let addr = url.trim_start_matches("http://").to_owned();
        until(async || TcpStream::connect(&addr).await.is_ok()).await;
        Self { addr, _program: program, _folder: folder }
    }
}

fn ports(number: usize) -> Vec<u16> {
    free_ports(number).unwrap()
}
