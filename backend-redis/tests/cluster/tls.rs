//! A Redis Cluster over TLS: every server of it, those too that the cluster names under way.

use std::time::Duration;

use super::keys::{key_of, lock_at};
use crate::common::coordinators::{at, refused, said};
use crate::common::{Operator, PATIENCE, own, soon};
use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::servers::{Certificates, ClusteredRedis, Validity};
use latchwork_core::{Coordinator, ErrorKind};

/// No master is replaced by itself, however busy the machine is.
const CALM: Duration = Duration::from_secs(10);
/// After so much silence a replica takes over.
const PROMPT: Duration = Duration::from_millis(1500);
const IP: &str = "127.0.0.1";
const NAME: &str = "localhost";

/// Servers that name each other by `host`, and have certificates for `names`.
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
    format!("{}?{options}", cluster.tls_url().expect("it speaks TLS"))
}

/// Takes a lock of each server and gives it back.
async fn uses_all_servers(cluster: &ClusteredRedis, client: &Coordinator) {
    for server in 0..3 {
        let lock = lock_at(cluster, server, &mut 0).await;
        let hold = soon(client.mutex(lock).unwrap().acquire()).await.unwrap_or_else(|e| panic!("{e}"));
        soon(hold.release()).await.unwrap();
    }
    let mut seen = 0;
    for plain in cluster.servers() {
        let list: String = Operator::at(&format!("redis://{plain}")).await.say("CLIENT LIST").await;
        let ours: Vec<_> = list.lines().filter(|line| line.contains("name=latchwork:")).collect();
        let laddr = format!("laddr={plain} ");
        assert!(ours.iter().all(|line| !line.contains(&laddr)), "in the clear: {ours:?}");
        seen += ours.len();
    }
    assert!(seen >= 3, "each master has a connection over TLS: {seen}");
}

/// The map changes under a hold: `MOVED` names a port for TLS, and a server that was not dialled before.
#[tokio::test]
async fn a_hold_follows_its_slot_to_another_server() {
    let (cluster, certificates) = secured(CALM, IP, &[IP], true).await;
    let client = at(&url(&cluster, &format!("{}&ttl=20s", certificates.mutual()))).await.unwrap();
    let lock = lock_at(&cluster, 0, &mut 0).await;
    let hold = soon(client.mutex(lock.as_str()).unwrap().acquire()).await.unwrap();
    let slot = cluster.slot(&key_of(&lock)).await.unwrap();
    // To a replica that becomes a master, with which the client has no connection yet.
    let mut replica = Operator::at(&format!("redis://{}", cluster.servers()[4])).await;
    replica.say::<()>("CLUSTER FAILOVER TAKEOVER").await;
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
    let client = at(&url(&cluster, &format!("{}&ttl=20s", certificates.trusting()))).await.unwrap();
    uses_all_servers(&cluster, &client).await;
    let lock = lock_at(&cluster, 1, &mut 0).await;
    let hold =
        soon(client.mutex(lock.as_str()).unwrap().acquire().min_replicas(1).within(PATIENCE)).await.unwrap();
    cluster.kill(1).await.unwrap();
    assert_eq!(cluster.wait_until_replaced(&key_of(&lock), 1).await.unwrap(), 4);
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
    hold.check().expect("renewed at the replica");
    let token = hold.token();
    soon(hold.release()).await.unwrap();
    let again = soon(client.mutex(lock).unwrap().acquire()).await.unwrap();
    assert!(again.token() > token);
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn one_server_name_is_that_of_all_servers() {
    let (cluster, certificates) = secured(CALM, IP, &["redis.internal", NAME], false).await;
    // The first ones have the name that they are asked by, and all are named by an address that none has.
    let error = refused(&url(&cluster, &certificates.trusting()).replace(IP, NAME)).await;
    assert!(error.kind() == ErrorKind::WrongServer, "{error}");
    said(&error, &["a server of the cluster", "the certificate is not for 127.0.0.1"]);
    let error = refused(&url(&cluster, &format!("{}&server_name=other", certificates.trusting()))).await;
    assert!(error.kind() == ErrorKind::WrongServer, "{error}");
    let url = url(&cluster, &format!("{}&server_name=redis.internal", certificates.trusting()));
    let client = at(&url).await.unwrap();
    uses_all_servers(&cluster, &client).await;
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_tls_is_named() {
    // The servers have the name that they may be asked by, and name each other by an address that none has.
    let (cluster, certificates) = secured(CALM, IP, &[NAME], true).await;
    let by_name = |options: &str| url(&cluster, options).replace(IP, NAME);
    let mutual = certificates.mutual();
    let mut mistakes = Mistakes::of(include_str!("../../../src/guide/connecting.md"), "## TLS in a cluster");

    let others = Certificates::new().unwrap();
    let error = refused(&by_name(&others.mutual())).await;
    said(&error, &["localhost:"]);
    mistakes.made("nobody who is trusted has signed a server's certificate", &error);
    let error = refused(&url(&cluster, &mutual)).await;
    said(&error, &["the certificate is not for 127.0.0.1"]);
    mistakes.made("a server's certificate has another name than the URL", &error);
    let error = refused(&by_name(&mutual)).await;
    said(&error, &["the certificate is not for 127.0.0.1"]);
    mistakes.made("a server's certificate has another name than the cluster gives it", &error);
    for (mistake, options) in [
        ("the servers demand a client certificate, and there is none", certificates.trusting()),
        (
            "the servers do not know who signed the client's certificate",
            certificates.of_a_stranger().unwrap(),
        ),
    ] {
        let error = refused(&by_name(&options)).await;
        said(&error, &["localhost:"]);
        mistakes.made(mistake, &error);
    }

    let error = refused(&url(&cluster, "").replace("rediss-", "redis-")).await;
    mistakes.made("a URL without TLS, and a cluster with it", &error);
    let plain = &cluster.servers()[0];
    let error = refused(&format!("rediss-cluster://{plain}?{mutual}")).await;
    said(&error, &[plain]);
    mistakes.made("a URL with TLS, and a cluster without it", &error);
    mistakes.all_made();

    // One server alone, and a server of a cluster for one that is alone.
    let single = own(&[]).await;
    let error = refused(&format!("rediss-cluster://{}?{mutual}", single.addr())).await;
    assert!(error.kind() == ErrorKind::WrongServer, "{error}");
    let one = by_name(&mutual).replace("rediss-cluster", "rediss");
    let (hosts, options) = one.split_once('?').unwrap();
    let error = refused(&format!("{}?{options}", hosts.split(',').next().unwrap())).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    said(&error, &["redis-cluster://"]);

    let client = at(&url(&cluster, &format!("{mutual}&server_name={NAME}"))).await.unwrap();
    uses_all_servers(&cluster, &client).await;
    soon(client.close()).await.unwrap();
}
