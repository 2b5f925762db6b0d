use latchwork_servers::{Clocks, Kind, Options, Server};
use zookeeper_client::{Acl, AuthId, Client, Permission};

use super::{finds, names, patient};
use crate::common::Fixture;

#[tokio::test]
async fn another_server_than_the_url_says() {
    let fixture = Fixture::new().await;
    names(&format!("zookeeper://{}?connect_timeout=3s", fixture.server.addr()), "wrong server").await;
}

#[tokio::test]
async fn a_zookeeper_that_grants_shorter_sessions() {
    let options = Options::new().own().clocks(Clocks::Default);
    let server = Server::start(Kind::Zookeeper, options).await.expect("a ZooKeeper");
    let findings = finds(&patient(&server), &[]).await;
    let refuses = |said: &str| said.contains("1h is refused") && said.contains("40s");
    assert!(findings.iter().any(|(_, said)| refuses(said)), "{findings:#?}");
    names(&format!("{}?ttl=10m&connect_timeout=20s", server.url()), "maxSessionTimeout").await;
}

#[tokio::test]
async fn a_zookeeper_without_the_chroot_where_none_may_be_made() {
    let server = Server::start(Kind::Zookeeper, Options::new().own()).await.expect("a ZooKeeper");
    let operator = Client::connect(server.addr()).await.expect("a session");
    let reads = [Acl::new(Permission::READ, AuthId::anyone())];
    operator.set_acl("/", &reads, None).await.expect("a list");
    names(&format!("{}/absent?connect_timeout=20s", server.url()), "the chroot /absent").await;
}

#[tokio::test]
async fn version_topology_role_and_clock_are_facts() {
    let server = Server::start(Kind::Zookeeper, Options::new().own()).await.expect("a ZooKeeper");
    let facts = ["\"server\": \"ZooKeeper 3.", "a single server", "the only server", "clock (±", "on disk"];
    finds(&patient(&server), &facts).await;
}
