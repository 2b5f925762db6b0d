//! Sentinels and the servers that they watch, over TLS: a failover, whose names are checked, and what each
//! mistake is called.

use crate::common::coordinators::{at, refused, said};
use crate::common::{Operator, PATIENCE, soon};
use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::servers::{Certificates, Terminator, Validity, WatchedRedis};
use latchwork_core::{Coordinator, ErrorKind, LeaseState};

const IP: &str = "127.0.0.1";
const NAME: &str = "localhost";

/// Servers that name each other by `host`, and have certificates for `names`.
async fn secured(host: &str, names: &[&str], demands: bool) -> (WatchedRedis, Certificates) {
    let certificates = Certificates::of(names, Validity::Now).unwrap();
    let watched = WatchedRedis::start_secured(&certificates.server(demands), host).await;
    (watched.unwrap_or_else(|error| panic!("{error}")), certificates)
}

fn url(watched: &WatchedRedis, options: &str) -> String {
    format!("{}?{options}", watched.tls_url().expect("it speaks TLS"))
}

async fn takes_a_lock(client: &Coordinator) {
    let hold = soon(client.mutex("a").unwrap().acquire()).await.unwrap_or_else(|error| panic!("{error}"));
    soon(hold.release()).await.unwrap();
}

/// A master is killed: its client finds the next one, checks its certificate, and keeps what it held.
async fn survives_a_failover(watched: &WatchedRedis, options: &str) {
    let client = at(&url(watched, &format!("{options}&ttl=20s"))).await.unwrap_or_else(|e| panic!("{e}"));
    let hold = soon(client.mutex("held").unwrap().acquire().min_replicas(2).within(PATIENCE)).await.unwrap();
    let (lease, master) = (client.lease(), watched.master().await.unwrap());
    watched.kill(master).await.unwrap();
    assert_eq!(soon(lease.changed(LeaseState::Live)).await, LeaseState::Suspended);
    let next = watched.wait_until_replaced(master).await.unwrap();
    assert_eq!(soon(lease.changed(LeaseState::Suspended)).await, LeaseState::Live);
    assert!(hold.is_held());
    only_over_tls(watched, next).await;
    let token = hold.token();
    soon(hold.release()).await.unwrap();
    let again = soon(client.mutex("held").unwrap().acquire()).await.unwrap();
    assert!(again.token() > token);
    soon(client.close()).await.unwrap();
}

/// No connection of a client of ours came to a port without TLS: servers and Sentinels show that.
async fn only_over_tls(watched: &WatchedRedis, master: usize) {
    let addresses = |list: &str, mark: &str| -> Vec<String> {
        let ours = list.lines().filter(|line| line.contains(mark));
        ours.filter_map(|line| line.split(' ').find_map(|word| word.strip_prefix("laddr=")))
            .map(str::to_owned)
            .collect()
    };
    let plain = &watched.servers()[master];
    let list: String = Operator::at(&format!("redis://{plain}")).await.say("CLIENT LIST").await;
    let ours = addresses(&list, "name=latchwork:");
    assert!(!ours.is_empty() && !ours.contains(plain), "{ours:?}");
    let mut listeners = 0;
    for sentinel in watched.sentinels() {
        let list: String = Operator::at(&format!("redis://{sentinel}")).await.say("CLIENT LIST").await;
        // Sentinels have names for each other, and ask for nothing on this channel.
        let ours = addresses(&list, "cmd=sentinel|get-master-addr-by-name");
        assert!(!ours.contains(&sentinel), "{ours:?}");
        listeners += ours.len();
    }
    assert!(listeners > 0, "no Sentinel is listened to");
}

#[tokio::test]
async fn a_hold_goes_on_at_the_new_master_with_certificates_on_both_sides() {
    let (watched, certificates) = secured(IP, &[IP], true).await;
    survives_a_failover(&watched, &certificates.mutual()).await;
}

#[tokio::test]
async fn servers_that_are_named_by_names_are_checked_by_those() {
    let (watched, certificates) = secured(NAME, &[NAME], false).await;
    // The control: its address is no name of it.
    let by_address = url(&watched, &certificates.trusting()).replace(NAME, IP);
    let error = refused(&by_address).await;
    assert!(error.kind() == ErrorKind::WrongServer, "{error}");
    said(&error, &["the Sentinel at 127.0.0.1:", "connect by a name that it has"]);
    survives_a_failover(&watched, &certificates.trusting()).await;
}

#[tokio::test]
async fn one_server_name_is_that_of_all_servers() {
    let (watched, certificates) = secured(IP, &["redis.internal", NAME], false).await;
    // The Sentinels have the name that they are asked by, and name the master by an address that it has not.
    let error = refused(&url(&watched, &certificates.trusting()).replace(IP, NAME)).await;
    assert!(error.kind() == ErrorKind::WrongServer, "{error}");
    said(&error, &["which the Sentinels name as the master", "the certificate is not for 127.0.0.1"]);
    let error = refused(&url(&watched, &format!("{}&server_name=other", certificates.trusting()))).await;
    assert!(error.kind() == ErrorKind::WrongServer, "{error}");
    survives_a_failover(&watched, &format!("{}&server_name=redis.internal", certificates.trusting())).await;
}

#[tokio::test]
async fn what_is_wrong_with_tls_is_named() {
    // The Sentinels have the name that they may be asked by, and name the master by an address that it has not.
    let (watched, certificates) = secured(IP, &[NAME], true).await;
    let by_name = |options: &str| url(&watched, options).replace(IP, NAME);
    let (service, mutual) = (WatchedRedis::SERVICE, certificates.mutual());
    let sentinel = watched.sentinels().swap_remove(0);
    let mut mistakes = Mistakes::of(include_str!("../../../src/guide/connecting.md"), "## TLS at Sentinels");

    let others = Certificates::new().unwrap();
    let error = refused(&by_name(&others.mutual())).await;
    said(&error, &["the Sentinel at localhost:"]);
    mistakes.made("nobody who is trusted has signed a Sentinel's certificate", &error);
    let error = refused(&url(&watched, &mutual)).await;
    said(&error, &["the Sentinel at 127.0.0.1:", "the certificate is not for 127.0.0.1"]);
    mistakes.made("a Sentinel's certificate has another name than the URL", &error);
    let error = refused(&by_name(&mutual)).await;
    said(&error, &["the certificate is not for 127.0.0.1"]);
    mistakes.made("the master's certificate has another name than the Sentinels give it", &error);
    for (mistake, options) in [
        ("the servers demand a client certificate, and there is none", certificates.trusting()),
        (
            "the servers do not know who signed the client's certificate",
            certificates.of_a_stranger().unwrap(),
        ),
    ] {
        let error = refused(&by_name(&options)).await;
        said(&error, &["the Sentinel at localhost:"]);
        mistakes.made(mistake, &error);
    }

    let error = refused(&url(&watched, "").replace("rediss-", "redis-")).await;
    mistakes.made("a URL without TLS, and Sentinels with it", &error);
    let error = refused(&format!("rediss-sentinel://{sentinel}/{service}?{mutual}")).await;
    said(&error, &[&sentinel]);
    mistakes.made("a URL with TLS, and Sentinels without it", &error);
    let error = refused(&format!("redis-sentinel://{sentinel}/{service}")).await;
    said(&error, &["which the Sentinels name as the master"]);
    mistakes.made("a URL and Sentinels without TLS, and a master with it", &error);
    let options = format!("{mutual}&server_name={NAME}");
    let plain = WatchedRedis::start().await.unwrap();
    let before = plain.sentinels()[0].parse().unwrap();
    let terminator = Terminator::before(before, &certificates).await.unwrap();
    let error = refused(&format!("rediss-sentinel://{}/{service}?{options}", terminator.addr())).await;
    said(&error, &["which the Sentinels name as the master"]);
    mistakes.made("a URL and Sentinels with TLS, and a master without it", &error);
    mistakes.all_made();

    takes_a_lock(&at(&url(&watched, &options)).await.unwrap()).await;
}
