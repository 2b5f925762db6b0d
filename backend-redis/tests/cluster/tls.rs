use std::time::Duration;

use super::keys::{CALM, PROMPT, key_of, lock_at, operator};
use crate::common::coordinators::{confirmed, mistaken, refused_as, user, uses};
use crate::common::{Operator, outlive, own, soon};
use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::servers::{Certificates, ClusteredRedis, Validity};
use latchwork_core::{Coordinator, ErrorKind};

const IP: &str = "127.0.0.1";
const NAME: &str = "localhost";

async fn secured(
    timeout: Duration,
    host: &str,
    names: &[&str],
    demands: bool,
) -> (ClusteredRedis, Certificates) {
    let certificates = Certificates::of(names, Validity::Now).unwrap();
    let cluster = ClusteredRedis::start_secured(timeout, &certificates.server(demands), host).await;
    (cluster.unwrap_or_else(|error| panic!("{error}")), certificates)
}

fn url(cluster: &ClusteredRedis, options: &str) -> String {
    format!("{}?{options}", cluster.tls_url().expect("the server has a TLS address"))
}

async fn uses_all_servers(cluster: &ClusteredRedis, client: &Coordinator) {
    for server in 0..3 {
        let lock = lock_at(cluster, server, &mut 0).await;
        uses(client, &lock).await;
    }
    let mut seen = 0;
    for plain in cluster.servers() {
        let list: String = Operator::at(&plain).await.say("CLIENT LIST").await;
        let ours: Vec<_> = list.lines().filter(|line| line.contains("name=latchwork:")).collect();
        let laddr = format!("laddr={plain} ");
        assert!(ours.iter().all(|line| !line.contains(&laddr)), "connections without TLS: {ours:?}");
        seen += ours.len();
    }
    assert!(seen >= 3, "each master has a connection over TLS: {seen}");
}

#[tokio::test]
async fn a_hold_follows_its_slot_to_another_server() {
    let (cluster, certificates) = secured(CALM, IP, &[IP], true).await;
    let client = user(&url(&cluster, &format!("{}&ttl=20s", certificates.mutual()))).await;
    let lock = lock_at(&cluster, 0, &mut 0).await;
    let hold = soon(client.mutex(lock.as_str()).unwrap().acquire()).await.unwrap();
    let slot = cluster.slot(&key_of(&lock)).await.unwrap();
    operator(&cluster, 4).await.tell("CLUSTER FAILOVER TAKEOVER").await;
    let other = lock_at(&cluster, 4, &mut 0).await;
    cluster.move_slot(slot, 0, 4).await.unwrap();
    soon(hold.release()).await.unwrap();
    let held = soon(client.mutex(other).unwrap().acquire()).await.unwrap();
    assert!(held.is_held());
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn a_hold_goes_on_at_the_replica_that_takes_over() {
    let (cluster, certificates) = secured(PROMPT, NAME, &[NAME], false).await;
    let client = user(&url(&cluster, &format!("{}&ttl=20s", certificates.trusting()))).await;
    uses_all_servers(&cluster, &client).await;
    let lock = lock_at(&cluster, 1, &mut 0).await;
    let hold = confirmed(&client, &lock, 1).await;
    cluster.kill(1).await.unwrap();
    assert_eq!(cluster.wait_until_replaced(&key_of(&lock), 1).await.unwrap(), 4);
    outlive(&client.lease(), 1.0).await;
    hold.check().expect("renewed at the replica");
    let token = hold.token();
    soon(hold.release()).await.unwrap();
    let again = soon(client.mutex(lock).unwrap().acquire()).await.unwrap();
    assert!(again.token() > token);
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn server_name_option_applies_to_all_servers() {
    let (cluster, certificates) = secured(CALM, IP, &["redis.internal", NAME], false).await;
    // The cluster names servers by an address that is in no certificate.
    let by_name = url(&cluster, &certificates.trusting()).replace(IP, NAME);
    let words = ["a server of the cluster", "the certificate is not for 127.0.0.1"];
    refused_as(&by_name, ErrorKind::WrongServer, &words).await;
    let other = url(&cluster, &format!("{}&server_name=other", certificates.trusting()));
    refused_as(&other, ErrorKind::WrongServer, &[]).await;
    let url = url(&cluster, &format!("{}&server_name=redis.internal", certificates.trusting()));
    let client = user(&url).await;
    uses_all_servers(&cluster, &client).await;
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn tls_mistakes_give_the_errors_in_the_guide() {
    let (cluster, certificates) = secured(CALM, IP, &[NAME], true).await;
    let by_name = |options: &str| url(&cluster, options).replace(IP, NAME);
    let mutual = certificates.mutual();
    let others = Certificates::new().unwrap();
    let mut guide = Mistakes::of(include_str!("../../../src/guide/tls_errors.md"), "## TLS in a cluster");
    let plain = &cluster.servers()[0];
    let no_name = "the certificate is not for 127.0.0.1";
    for (mistake, url, word) in [
        ("no trusted authority signed a server's certificate", by_name(&others.mutual()), "localhost:"),
        ("a server's certificate has another name than the URL", url(&cluster, &mutual), no_name),
        ("a server's certificate has another name than the cluster gives it", by_name(&mutual), no_name),
        (
            "the servers demand a client certificate, and the URL has none",
            by_name(&certificates.trusting()),
            "localhost:",
        ),
        (
            "the servers do not trust the authority of the client's certificate",
            by_name(&certificates.of_a_stranger().unwrap()),
            "localhost:",
        ),
        ("the cluster uses TLS, and the URL does not", url(&cluster, "").replace("rediss-", "redis-"), ""),
        ("the URL uses TLS, and the cluster does not", format!("rediss-cluster://{plain}?{mutual}"), plain),
    ] {
        mistaken(&mut guide, mistake, &url, &[word]).await;
    }
    guide.all_made();

    let single = own(&[]).await;
    refused_as(&format!("rediss-cluster://{}?{mutual}", single.addr()), ErrorKind::WrongServer, &[]).await;
    let one = by_name(&mutual).replace("rediss-cluster", "rediss");
    let (hosts, options) = one.split_once('?').unwrap();
    let one = format!("{}?{options}", hosts.split(',').next().unwrap());
    refused_as(&one, ErrorKind::Misconfigured, &["redis-cluster://"]).await;

    let client = user(&url(&cluster, &format!("{mutual}&server_name={NAME}"))).await;
    uses_all_servers(&cluster, &client).await;
    soon(client.close()).await.unwrap();
}
