use std::time::{Duration, Instant};

use crate::common::coordinators::{confirmed, mistaken, queued, refused, said, user, uses};
use crate::common::{Operator, outlive, own, soon, until};
use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::WatchedRedis;
use latchwork_core::{Coordinator, Ended, ErrorKind, LeaseState, LostReason};

/// A change within [`PROMPT`] came by an event.
const PATIENT: &str = "ttl=60s&request_timeout=20s&connect_timeout=30s";
const PROMPT: Duration = Duration::from_secs(10);

async fn of(watched: &WatchedRedis, options: &str) -> Coordinator {
    user(&format!("{}?{options}", watched.url())).await
}

fn port(addr: &str) -> u16 {
    addr.rsplit_once(':').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn a_hold_goes_on_at_the_new_master_and_tokens_rise() {
    let watched = WatchedRedis::start().await.unwrap();
    let (holder, waiting) = tokio::join!(of(&watched, "ttl=20s"), of(&watched, "ttl=20s"));
    // Both replicas confirm, so the promoted one has it.
    let mutex = holder.mutex("a").unwrap();
    let hold = confirmed(&holder, "a", 2).await;
    let waiter = queued(&mutex, waiting.mutex("a").unwrap().acquire()).await;
    let lease = holder.lease();
    let master = watched.master().await.unwrap();
    watched.kill(master).await.unwrap();
    assert_eq!(soon(lease.changed(LeaseState::Live)).await, LeaseState::Suspended);
    assert!(hold.is_held(), "suspended, and held until its deadline");
    watched.wait_until_replaced(master).await.unwrap();
    assert_eq!(soon(lease.changed(LeaseState::Suspended)).await, LeaseState::Live);
    assert!(hold.is_held());
    let token = hold.token();
    soon(hold.release()).await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    // The other replica follows the new master.
    let hold = confirmed(&holder, "a", 1).await;
    hold.release().await.unwrap();
}

/// The write has not reached the promoted replica.
#[tokio::test]
async fn a_hold_that_the_new_master_does_not_know_is_forgotten() {
    let watched = WatchedRedis::start().await.unwrap();
    let client = of(&watched, "ttl=20s").await;
    let hold = confirmed(&client, "a", 2).await;
    let master = watched.master().await.unwrap();
    for (server, addr) in watched.servers().iter().enumerate() {
        if server != master {
            let mut operator = Operator::at(addr).await;
            operator.tell("CONFIG SET replica-read-only no").await;
            assert_eq!(operator.say::<u32>("DEL latchwork:mutex:{a}:one").await, 1);
        }
    }
    watched.kill(master).await.unwrap();
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Forgotten));
    let again = soon(client.mutex("a").unwrap().acquire()).await.unwrap();
    assert!(again.token() > hold.token());
}

#[tokio::test]
async fn only_holds_known_to_the_new_master_survive() {
    let watched = WatchedRedis::start_cuttable(Duration::from_secs(6)).await.unwrap();
    let client = of(&watched, "ttl=20s&request_timeout=4s").await;
    let hold = confirmed(&client, "a", 2).await;
    let master = watched.master().await.unwrap();
    watched.cut(master);
    let too_late = soon(client.mutex("late").unwrap().acquire()).await.unwrap();
    watched.wait_until_replaced(master).await.unwrap();
    assert!(watched.leads(master).await, "the client was notified");
    assert_eq!(soon(too_late.lost()).await, Ended::Lost(LostReason::Forgotten));
    let again = soon(client.mutex("late").unwrap().acquire()).await.unwrap();
    assert!(again.token() > too_late.token(), "the new master has no token that the old master gave last");
    assert!(watched.leads(master).await, "the client noticed the new master");
    watched.heal();
    watched.wait_until_whole().await.unwrap();
    outlive(&client.lease(), 1.0).await;
    assert!(again.is_held());
    for hold in [hold, again] {
        soon(hold.release()).await.unwrap();
    }
    soon(client.close()).await.unwrap();
}

async fn scripts(addr: &str) -> u64 {
    Operator::at(addr).await.calls("evalsha").await
}

#[tokio::test]
async fn a_master_that_is_demoted_gets_no_further_write() {
    let watched = WatchedRedis::start().await.unwrap();
    let client = of(&watched, "ttl=20s").await;
    let master = watched.master().await.unwrap();
    let (old, mutex) = (&watched.servers()[master], client.mutex("a").unwrap());
    let hold = soon(mutex.acquire()).await.unwrap();
    let before = scripts(old).await;
    let sentinel = format!("SENTINEL FAILOVER {}", WatchedRedis::SERVICE);
    Operator::at(&watched.sentinels()[0]).await.tell(&sentinel).await;
    watched.wait_until_replaced(master).await.unwrap();
    watched.wait_until_whole().await.unwrap();
    let demoted = scripts(old).await;
    soon(hold.release()).await.unwrap();
    uses(&client, "a").await;
    assert!(demoted <= before + 1, "the old master got more than one renewal: {before}, {demoted}");
    assert_eq!(scripts(old).await, demoted, "a request went to the old master");
}

/// Long before a request would have no answer. The process of one Sentinel is stopped, and its connection
/// does not end.
#[tokio::test]
async fn a_client_whose_master_falls_silent_hears_of_the_new_one_from_any_sentinel() {
    let watched = WatchedRedis::start().await.unwrap();
    let client = of(&watched, PATIENT).await;
    for sentinel in &watched.sentinels() {
        let mut operator = Operator::at(sentinel).await;
        until(async || operator.say::<String>("CLIENT LIST").await.contains(" sub=1 ")).await;
    }
    let master = watched.master().await.unwrap();
    let before = scripts(&watched.servers()[master]).await;
    watched.pause_sentinel(0).unwrap();
    watched.pause(master).unwrap();
    watched.wait_until_replaced(master).await.unwrap();
    let asked = Instant::now();
    let hold = soon(client.mutex("a").unwrap().acquire()).await.unwrap();
    assert!(asked.elapsed() < PROMPT, "not because of a Sentinel's message: {:?}", asked.elapsed());
    watched.resume(master).unwrap();
    until(async || !watched.leads(master).await).await;
    assert!(hold.is_held());
    let after = scripts(&watched.servers()[master]).await;
    assert!(after <= before + 1, "the old master got more than one renewal: {before}, {after}");
    watched.resume_sentinel(0).unwrap();
    soon(hold.release()).await.unwrap();
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn a_sentinel_that_names_another_master_than_most_is_outvoted() {
    let watched = WatchedRedis::start().await.unwrap();
    let (sentinels, lone) = (watched.sentinels(), own(&[]).await);
    let master = watched.master().await.unwrap();
    let mut left = Vec::new();
    for sentinel in &sentinels[..2] {
        let proxy = Proxy::start(sentinel.as_str()).await.unwrap();
        proxy.readdress(watched.servers().iter().map(|server| (port(server), port(lone.addr()))));
        left.push(proxy);
    }
    let service = WatchedRedis::SERVICE;
    let url = |of: [&str; 3]| format!("redis-sentinel://{}/{service}?ttl=10s", of.join(","));
    let [one, other] = [left[0].addr().to_string(), left[1].addr().to_string()];

    let client = user(&url([&one, &sentinels[1], &sentinels[2]])).await;
    let hold = soon(client.mutex("a").unwrap().acquire()).await.unwrap();
    // The client asks this Sentinel again during this time.
    outlive(&client.lease(), 1.0).await;
    assert!(hold.is_held(), "{:?}", hold.state());
    Operator::at(&sentinels[2]).await.tell(&format!("SENTINEL FAILOVER {service}")).await;
    watched.wait_until_replaced(master).await.unwrap();
    let after = soon(client.mutex("b").unwrap().acquire()).await.unwrap();
    assert!(after.is_held());
    assert_eq!(scripts(lone.addr()).await, 0, "something was written to the old master");
    drop((hold, after));
    soon(client.close()).await.unwrap();

    let client = user(&url([&sentinels[2], &one, &other])).await;
    uses(&client, "a").await;
    assert!(scripts(lone.addr()).await > 0, "most Sentinels name the master");
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn sentinel_mistakes_give_the_errors_in_the_guide() {
    let watched = WatchedRedis::start().await.unwrap();
    let (sentinels, service) = (watched.sentinels(), WatchedRedis::SERVICE);
    let [first, second, third] = [0, 1, 2].map(|place: usize| sentinels[place].clone());
    let mut guide =
        Mistakes::of(include_str!("../../../src/guide/connect_errors.md"), "## When Sentinels are wrong");

    let mistake = "no server listens at the hosts of the URL";
    let url = format!("redis-sentinel://127.0.0.1:1,127.0.0.1:2/{service}");
    let words = ["no Sentinel answers", "127.0.0.1:1", "127.0.0.1:2", "refused"];
    mistaken(&mut guide, mistake, &url, &words).await;
    let mistake = "the Sentinels do not watch the service";
    let url = format!("redis-sentinel://{first},{second}/other");
    mistaken(&mut guide, mistake, &url, &[&first, "watches no service \"other\""]).await;
    let server = own(&[]).await;
    let mistake = "the URL has `redis-sentinel://`, and the host is not a Sentinel";
    let url = format!("redis-sentinel://{}/{service}", server.addr());
    mistaken(&mut guide, mistake, &url, &["expected Redis Sentinel"]).await;
    let mistake = "the URL has `redis://`, and the host is a Sentinel";
    mistaken(&mut guide, mistake, &format!("redis://{first}"), &["Sentinel", "redis-sentinel://"]).await;

    // A Sentinel that lags names a replica.
    let master = watched.master().await.unwrap();
    let [old, replica] = [master, (master + 1) % 3].map(|server| watched.servers()[server].clone());
    let behind = Proxy::start(first.as_str()).await.unwrap();
    behind.readdress([(port(&old), port(&replica))]);
    let mistake = "a Sentinel has old information, and names a replica";
    let url = format!("redis-sentinel://{}/{service}?connect_timeout=2s", behind.addr());
    let words = [replica.as_str(), "the Sentinels name as the master", "is a replica of"];
    mistaken(&mut guide, mistake, &url, &words).await;

    for sentinel in [&second, &third] {
        let mut operator = Operator::at(sentinel).await;
        let rules = "on >word &+switch-master +sentinel|get-master-addr-by-name +subscribe +hello";
        operator.tell(&format!("ACL SETUSER app {rules}")).await;
        operator.tell("ACL SETUSER deaf on >word resetchannels +@all").await;
        operator.tell("ACL SETUSER default resetpass >secret").await;
    }
    watched.kill_sentinel(0).await.unwrap();
    let at_all = |login: &str| format!("redis-sentinel://{first},{second},{third}/{service}?{login}");
    for login in ["", "sentinel_password=wrong", "sentinel_user=app&sentinel_password=wrong"] {
        let error = refused(&at_all(login)).await;
        assert!(error.kind() == ErrorKind::Forbidden, "{login}: {error}");
        said(&error, &["log in at the Sentinel at", &second]);
        assert!(!error.to_string().contains("wrong"), "{error}");
        if login.is_empty() {
            guide.made("the Sentinels demand another login", &error);
        }
    }
    guide.all_made();
    for login in [
        "sentinel_password=secret",
        "sentinel_user=app&sentinel_password=word",
        "sentinel_user=deaf&sentinel_password=word",
    ] {
        let client = user(&at_all(login)).await;
        uses(&client, "a").await;
        client.close().await.unwrap();
    }
}
