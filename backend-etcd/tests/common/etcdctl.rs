use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use latchwork_conformance::servers::Server;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::soon;

pub(crate) async fn lease_of(server: &Server, key: &str) -> String {
    let node = until_keys(server, &format!("latchwork/mutex/{key}/"), 1).await.remove(0);
    node.rsplit('/').next().unwrap().split('-').next().unwrap().to_owned()
}

/// `root:secret` may do everything, `app:hunter2` may use the namespace, `stranger:hunter2` may only log in.
pub(crate) async fn require_log_in(server: &Server) {
    for arguments in [
        &["user", "add", "root:secret"][..],
        &["user", "add", "app:hunter2"],
        &["user", "add", "stranger:hunter2"],
        &["role", "add", "locks"],
        &["role", "grant-permission", "locks", "--prefix=true", "readwrite", "latchwork/"],
        &["user", "grant-role", "app", "locks"],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        etcdctl(server, arguments).await;
    }
}

pub(crate) async fn as_root(server: &Server, arguments: &[&str]) -> String {
    etcdctl(server, &[&["--user", "root:secret"], arguments].concat()).await
}

pub(crate) fn command<A: AsRef<OsStr>>(server: &Server, arguments: &[A]) -> Command {
    let mut command = Command::new("etcdctl");
    // The default timeouts are too short.
    let patient = ["--dial-timeout=60s", "--command-timeout=60s", "--endpoints", server.addr()];
    command.env("ETCDCTL_API", "3").args(patient).args(arguments).kill_on_drop(true);
    command
}

pub(crate) async fn etcdctl<A: AsRef<OsStr>>(server: &Server, arguments: &[A]) -> String {
    let output = soon(command(server, arguments).output()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) struct Running(Child, Lines<BufReader<ChildStdout>>);

impl Running {
    pub(crate) fn start(server: &Server, arguments: &[&str]) -> Self {
        let mut child = command(server, arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self(child, lines)
    }

    pub(crate) async fn line(&mut self) -> String {
        soon(self.1.next_line()).await.unwrap().expect("it prints")
    }

    pub(crate) async fn is_silent(&mut self) {
        let printed = tokio::time::timeout(Duration::from_millis(300), self.1.next_line()).await;
        assert!(printed.is_err(), "{printed:?}");
    }

    pub(crate) async fn interrupt(mut self) {
        let pid = Pid::from_raw(self.0.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        soon(self.0.wait()).await.unwrap();
    }
}

/// Without the keys of connected clients and of the layout.
pub(crate) async fn keys(server: &Server, prefix: &str) -> Vec<String> {
    let listed = etcdctl(server, &["get", "--prefix", "--keys-only", prefix]).await;
    let of_clients = |line: &str| line.contains("/clients/all/") || line.ends_with("/layout/stamp");
    listed.lines().filter(|line| !line.is_empty() && !of_clients(line)).map(str::to_owned).collect()
}

/// Polls, because no client reports this.
pub(crate) async fn until_keys(server: &Server, prefix: &str, count: usize) -> Vec<String> {
    soon(async {
        loop {
            let keys = keys(server, prefix).await;
            if keys.len() == count {
                return keys;
            }
        }
    })
    .await
}

pub(crate) async fn value(server: &Server, key: &str) -> String {
    etcdctl(server, &["get", "--print-value-only", key]).await.trim_end_matches('\n').to_owned()
}

pub(crate) async fn field(server: &Server, key: &str, name: &str) -> Option<u64> {
    let fields = etcdctl(server, &["get", "-w", "fields", key]).await;
    let value = fields.lines().find_map(|line| line.strip_prefix(&format!("\"{name}\" : ")));
    value.map(|value| value.parse().unwrap())
}

pub(crate) async fn revision(server: &Server) -> u64 {
    field(server, "nothing", "Revision").await.expect("a revision")
}
