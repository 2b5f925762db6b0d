use latchwork_servers::{ClosedPort, Kind, Options, Server, free_ports};

use super::{finds, names, patient};

#[tokio::test]
async fn an_etcd_without_a_quorum() {
    let folder = tempfile::tempdir().expect("a folder");
    let ports = free_ports(2).expect("two ports");
    let absent = ClosedPort::take().expect("a port");
    let (clients, peers) =
        (format!("http://127.0.0.1:{}", ports[0]), format!("http://127.0.0.1:{}", ports[1]));
    let cluster = format!("one={peers},two=http://{}", absent.addr());
    let etcd = tokio::process::Command::new("etcd")
        .args(["--name", "one", "--initial-cluster", &cluster, "--data-dir"])
        .arg(folder.path())
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("an etcd");
    names(&format!("{}?connect_timeout=3s", clients.replace("http", "etcd")), "unavailable").await;
    drop(etcd);
}

#[tokio::test]
async fn doctor_reports_etcd_facts_and_the_missing_clock() {
    let server = Server::start(Kind::Etcd, Options::new().own()).await.expect("an etcd");
    let facts = ["\"etcd 3.", "a single server", "leader", "no request for the time"];
    finds(&patient(&server), &facts).await;
}
