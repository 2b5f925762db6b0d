use crate::common::coordinators::{confirmed, mistaken, refused_as, user, uses};
use crate::common::{Operator, soon};
use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::servers::{Certificates, Terminator, Validity, WatchedRedis};
use latchwork_core::{ErrorKind, LeaseState};

const IP: &str = "127.0.0.1";
const NAME: &str = "localhost";

async fn secured(host: &str, names: &[&str], demands: bool) -> (WatchedRedis, Certificates) {
    let certificates = Certificates::of(names, Validity::Now).unwrap();
    let watched = WatchedRedis::start_secured(&certificates.server(demands), host).await;
    (watched.unwrap_or_else(|error| panic!("{error}")), certificates)
}

fn url(watched: &WatchedRedis, options: &str) -> String {
    format!("{}?{options}", watched.tls_url().expect("the server has a TLS address"))
}

async fn survives_a_failover(watched: &WatchedRedis, options: &str) {
    let client = user(&url(watched, &format!("{options}&ttl=20s"))).await;
    let hold = confirmed(&client, "held", 2).await;
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

async fn only_over_tls(watched: &WatchedRedis, master: usize) {
    let addresses = |list: &str, mark: &str| -> Vec<String> {
        let ours = list.lines().filter(|line| line.contains(mark));
        ours.filter_map(|line| line.split(' ').find_map(|word| word.strip_prefix("laddr=")))
            .map(str::to_owned)
            .collect()
    };
    let plain = &watched.servers()[master];
    let list: String = Operator::at(plain).await.say("CLIENT LIST").await;
    let ours = addresses(&list, "name=latchwork:");
    assert!(!ours.is_empty() && !ours.contains(plain), "{ours:?}");
    let mut listeners = 0;
    for sentinel in watched.sentinels() {
        let list: String = Operator::at(&sentinel).await.say("CLIENT LIST").await;
        // Sentinels do not send this command to each other.
        let ours = addresses(&list, "cmd=sentinel|get-master-addr-by-name");
        assert!(!ours.contains(&sentinel), "{ours:?}");
        listeners += ours.len();
    }
    assert!(listeners > 0, "the client listens to no Sentinel");
}

#[tokio::test]
async fn a_hold_goes_on_at_the_new_master_with_certificates_on_both_sides() {
    let (watched, certificates) = secured(IP, &[IP], true).await;
    survives_a_failover(&watched, &certificates.mutual()).await;
}

#[tokio::test]
async fn servers_that_are_named_by_names_are_checked_by_those() {
    let (watched, certificates) = secured(NAME, &[NAME], false).await;
    // The control.
    let by_address = url(&watched, &certificates.trusting()).replace(NAME, IP);
    let words = ["the Sentinel at 127.0.0.1:", "connect by a name in the certificate"];
    refused_as(&by_address, ErrorKind::WrongServer, &words).await;
    survives_a_failover(&watched, &certificates.trusting()).await;
}

#[tokio::test]
async fn server_name_option_applies_to_all_servers() {
    let (watched, certificates) = secured(IP, &["redis.internal", NAME], false).await;
    let by_name = url(&watched, &certificates.trusting()).replace(IP, NAME);
    let words = ["which the Sentinels name as the master", "the certificate is not for 127.0.0.1"];
    refused_as(&by_name, ErrorKind::WrongServer, &words).await;
    let other = url(&watched, &format!("{}&server_name=other", certificates.trusting()));
    refused_as(&other, ErrorKind::WrongServer, &[]).await;
    survives_a_failover(&watched, &format!("{}&server_name=redis.internal", certificates.trusting())).await;
}

#[tokio::test]
async fn tls_mistakes_give_the_errors_in_the_guide() {
    // The name in the URL, but not the master's address.
    let (watched, certificates) = secured(IP, &[NAME], true).await;
    let by_name = |options: &str| url(&watched, options).replace(IP, NAME);
    let (service, mutual) = (WatchedRedis::SERVICE, certificates.mutual());
    let sentinel = watched.sentinels().swap_remove(0);
    let others = Certificates::new().unwrap();
    let mut guide = Mistakes::of(include_str!("../../../src/guide/tls_errors.md"), "## TLS at Sentinels");
    let no_name = "the certificate is not for 127.0.0.1";
    for (mistake, url, words) in [
        (
            "no trusted authority signed a Sentinel's certificate",
            by_name(&others.mutual()),
            &["the Sentinel at localhost:"][..],
        ),
        (
            "a Sentinel's certificate has another name than the URL",
            url(&watched, &mutual),
            &["the Sentinel at 127.0.0.1:", no_name],
        ),
        (
            "the master's certificate has another name than the Sentinels give it",
            by_name(&mutual),
            &[no_name],
        ),
        (
            "the servers demand a client certificate, and the URL has none",
            by_name(&certificates.trusting()),
            &["the Sentinel at localhost:"],
        ),
        (
            "the servers do not trust the authority of the client's certificate",
            by_name(&certificates.of_a_stranger().unwrap()),
            &["the Sentinel at localhost:"],
        ),
        ("the Sentinels use TLS, and the URL does not", url(&watched, "").replace("rediss-", "redis-"), &[]),
        (
            "the URL uses TLS, and the Sentinels do not",
            format!("rediss-sentinel://{sentinel}/{service}?{mutual}"),
            &[sentinel.as_str()],
        ),
        (
            "the master uses TLS, and the URL and the Sentinels do not",
            format!("redis-sentinel://{sentinel}/{service}"),
            &["which the Sentinels name as the master"],
        ),
    ] {
        mistaken(&mut guide, mistake, &url, words).await;
    }
    let options = format!("{mutual}&server_name={NAME}");
    let plain = WatchedRedis::start().await.unwrap();
    let before = plain.sentinels()[0].parse().unwrap();
    let terminator = Terminator::before(before, &certificates).await.unwrap();
    let mistake = "the URL and the Sentinels use TLS, and the master does not";
    let url_of_plain = format!("rediss-sentinel://{}/{service}?{options}", terminator.addr());
    mistaken(&mut guide, mistake, &url_of_plain, &["which the Sentinels name as the master"]).await;
    guide.all_made();

    uses(&user(&url(&watched, &options)).await, "a").await;
}
