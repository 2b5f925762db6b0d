//! A master that Sentinels watch: how it is found, what becomes of holds in a failover, and what the
//! errors say.

use std::time::{Duration, Instant};

use crate::common::coordinators::{at, refused, said};
use crate::common::{Operator, PATIENCE, own, soon};
use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::WatchedRedis;
use latchwork_core::{Coordinator, Ended, ErrorKind, LeaseState, LostReason};

/// A request and a renewal may take long: what comes within [`PROMPT`] came by an event.
const PATIENT: &str = "ttl=60s&request_timeout=20s&connect_timeout=30s";
const PROMPT: Duration = Duration::from_secs(10);

async fn user(watched: &WatchedRedis, options: &str) -> Coordinator {
    at(&format!("{}?{options}", watched.url())).await.unwrap_or_else(|error| panic!("{error}"))
}

/// An operator of a server or a Sentinel.
async fn operator(addr: &str) -> Operator {
    Operator::at(&format!("redis://{addr}")).await
}

#[tokio::test]
async fn a_hold_goes_on_at_the_new_master_and_tokens_rise() {
    let watched = WatchedRedis::start().await.unwrap();
    let (holder, waiting) = tokio::join!(user(&watched, "ttl=20s"), user(&watched, "ttl=20s"));
    // Confirmed by both, so that whichever is promoted has it.
    let mutex = holder.mutex("a").unwrap();
    let hold = soon(mutex.acquire().min_replicas(2).within(PATIENCE)).await.unwrap();
    let waiter = waiting.mutex("a").unwrap();
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    while mutex.queue().first(10).await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
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
    // The other replica follows the new master, and may be asked to confirm.
    let hold = soon(mutex.acquire().min_replicas(1).within(PATIENCE)).await.unwrap();
    hold.release().await.unwrap();
}

/// A write that has not reached the replica that is promoted.
#[tokio::test]
async fn a_hold_that_the_new_master_does_not_know_is_forgotten() {
    let watched = WatchedRedis::start().await.unwrap();
    let client = user(&watched, "ttl=20s").await;
    let hold = soon(client.mutex("a").unwrap().acquire().min_replicas(2).within(PATIENCE)).await.unwrap();
    let master = watched.master().await.unwrap();
    for (server, addr) in watched.servers().iter().enumerate() {
        if server != master {
            let mut operator = operator(addr).await;
            operator.say::<()>("CONFIG SET replica-read-only no").await;
            assert_eq!(operator.say::<u32>("DEL latchwork:mutex:{a}:one").await, 1);
        }
    }
    watched.kill(master).await.unwrap();
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Forgotten));
    let again = soon(client.mutex("a").unwrap().acquire()).await.unwrap();
    assert!(again.token() > hold.token());
}

/// A partition with the client on both sides of it: the master that is cut off serves all the while.
#[tokio::test]
async fn a_hold_goes_on_beside_a_master_that_is_cut_off_and_what_that_alone_knows_is_forgotten() {
    // Longer than a busy machine takes to acquire.
    let watched = WatchedRedis::start_cuttable(Duration::from_secs(6)).await.unwrap();
    let client = user(&watched, "ttl=20s&request_timeout=4s").await;
    let mutex = client.mutex("a").unwrap();
    let hold = soon(mutex.acquire().min_replicas(2).within(PATIENCE)).await.unwrap();
    let master = watched.master().await.unwrap();
    watched.cut(master);
    let too_late = soon(client.mutex("late").unwrap().acquire()).await.unwrap();
    watched.wait_until_replaced(master).await.unwrap();
    assert!(watched.leads(master).await, "it was told");
    assert_eq!(soon(too_late.lost()).await, Ended::Lost(LostReason::Forgotten));
    let again = soon(client.mutex("late").unwrap().acquire()).await.unwrap();
    assert!(again.token() > too_late.token(), "the new master knows of no token that the old one gave last");
    assert!(watched.leads(master).await, "it was told meanwhile");
    watched.heal();
    watched.wait_until_whole().await.unwrap();
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
    assert!(again.is_held());
    for hold in [hold, again] {
        soon(hold.release()).await.unwrap();
    }
    soon(client.close()).await.unwrap();
}

/// How many scripts a server has run for clients.
async fn scripts(addr: &str) -> u64 {
    operator(addr).await.calls("evalsha").await
}

/// An operator moves the master while all are well.
#[tokio::test]
async fn a_master_that_is_demoted_gets_no_further_write() {
    let watched = WatchedRedis::start().await.unwrap();
    let client = user(&watched, "ttl=20s").await;
    let master = watched.master().await.unwrap();
    let (old, mutex) = (&watched.servers()[master], client.mutex("a").unwrap());
    let hold = soon(mutex.acquire()).await.unwrap();
    let before = scripts(old).await;
    let sentinel = format!("SENTINEL FAILOVER {}", WatchedRedis::SERVICE);
    operator(&watched.sentinels()[0]).await.say::<()>(&sentinel).await;
    watched.wait_until_replaced(master).await.unwrap();
    watched.wait_until_whole().await.unwrap();
    let demoted = scripts(old).await;
    soon(hold.release()).await.unwrap();
    soon(mutex.acquire()).await.unwrap().release().await.unwrap();
    assert!(demoted <= before + 1, "a renewal at most: {before}, {demoted}");
    assert_eq!(scripts(old).await, demoted, "all of it went to the new master");
}

/// The connection stands, and only the Sentinels know better: the client hears it from them, long before a request of
/// its own would go without an answer. The process of one Sentinel stands still, and its connection does not end.
#[tokio::test]
async fn a_client_whose_master_falls_silent_hears_of_the_new_one_from_any_sentinel() {
    let watched = WatchedRedis::start().await.unwrap();
    let client = user(&watched, PATIENT).await;
    for sentinel in &watched.sentinels() {
        let mut operator = operator(sentinel).await;
        soon(async {
            while !operator.say::<String>("CLIENT LIST").await.contains(" sub=1 ") {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    }
    let master = watched.master().await.unwrap();
    let before = scripts(&watched.servers()[master]).await;
    watched.pause_sentinel(0).unwrap();
    watched.pause(master).unwrap();
    watched.wait_until_replaced(master).await.unwrap();
    let asked = Instant::now();
    let hold = soon(client.mutex("a").unwrap().acquire()).await.unwrap();
    assert!(asked.elapsed() < PROMPT, "not by a Sentinel's word: {:?}", asked.elapsed());
    watched.resume(master).unwrap();
    soon(async {
        while watched.leads(master).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(hold.is_held());
    // One renewal of the client's place in the registry may have been on its way when it fell silent.
    let after = scripts(&watched.servers()[master]).await;
    assert!(after <= before + 1, "the old master got nothing since: {before}, {after}");
    watched.resume_sentinel(0).unwrap();
    soon(hold.release()).await.unwrap();
    soon(client.close()).await.unwrap();
}

/// A Sentinel that a partition has left beside an old master, which believes in itself. It stands first in
/// the URL.
#[tokio::test]
async fn a_sentinel_that_names_another_master_than_most_is_outvoted() {
    let watched = WatchedRedis::start().await.unwrap();
    let (sentinels, lone) = (watched.sentinels(), own(&[]).await);
    let master = watched.master().await.unwrap();
    let port = |addr: &str| addr.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    let mut left = Vec::new();
    for sentinel in &sentinels[..2] {
        let proxy = Proxy::start(sentinel.as_str()).await.unwrap();
        proxy.readdress(watched.servers().iter().map(|server| (port(server), port(lone.addr()))));
        left.push(proxy);
    }
    let service = WatchedRedis::SERVICE;
    let url = |of: [&str; 3]| format!("redis-sentinel://{}/{service}?ttl=10s", of.join(","));
    let [one, other] = [left[0].addr().to_string(), left[1].addr().to_string()];

    let client = at(&url([&one, &sentinels[1], &sentinels[2]])).await.unwrap();
    let hold = soon(client.mutex("a").unwrap().acquire()).await.unwrap();
    // It is asked again meanwhile, and says so again.
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
    assert!(hold.is_held(), "{:?}", hold.state());
    operator(&sentinels[2]).await.say::<()>(&format!("SENTINEL FAILOVER {service}")).await;
    watched.wait_until_replaced(master).await.unwrap();
    let after = soon(client.mutex("b").unwrap().acquire()).await.unwrap();
    assert!(after.is_held());
    assert_eq!(scripts(lone.addr()).await, 0, "something was written to the old master");
    drop((hold, after));
    soon(client.close()).await.unwrap();

    // Where most are left beside it, nobody can know.
    let client = at(&url([&sentinels[2], &one, &other])).await.unwrap();
    soon(client.mutex("a").unwrap().acquire()).await.unwrap().release().await.unwrap();
    assert!(scripts(lone.addr()).await > 0, "most Sentinels name it");
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_the_sentinels_is_named() {
    let watched = WatchedRedis::start().await.unwrap();
    let (sentinels, service) = (watched.sentinels(), WatchedRedis::SERVICE);
    let [first, second, third] = [0, 1, 2].map(|place: usize| sentinels[place].clone());
    let mut mistakes =
        Mistakes::of(include_str!("../../../src/guide/connecting.md"), "## When Sentinels are wrong");

    // Nobody listens there.
    let error = refused(&format!("redis-sentinel://127.0.0.1:1,127.0.0.1:2/{service}")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    said(&error, &["no Sentinel answers", "127.0.0.1:1", "127.0.0.1:2", "refused"]);
    mistakes.made("nobody listens at the hosts of the URL", &error);

    let error = refused(&format!("redis-sentinel://{first},{second}/other")).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    said(&error, &[&first, "watches no service \"other\""]);
    mistakes.made("the Sentinels do not watch the service", &error);

    let server = own(&[]).await;
    let error = refused(&format!("redis-sentinel://{}/{service}", server.addr())).await;
    assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
    assert!(error.to_string().contains("expected Redis Sentinel"), "{error}");
    mistakes.made("the URL has `redis-sentinel://`, and the host is no Sentinel", &error);
    let error = refused(&format!("redis://{first}")).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    said(&error, &["Sentinel", "redis-sentinel://"]);
    mistakes.made("the URL has `redis://`, and the host is a Sentinel", &error);

    // A Sentinel that is behind: it names a replica.
    let master = watched.master().await.unwrap();
    let port = |server: usize| watched.servers()[server].rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
    let replica = (master + 1) % 3;
    let behind = Proxy::start(first.as_str()).await.unwrap();
    behind.readdress([(port(master), port(replica))]);
    let error = refused(&format!("redis-sentinel://{}/{service}?connect_timeout=2s", behind.addr())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    said(&error, &[&watched.servers()[replica], "the Sentinels name as the master", "is a replica of"]);
    mistakes.made("a Sentinel is behind, and names a replica", &error);

    // Sentinels with a login, of which one is dead. What it may say is enough.
    for sentinel in [&second, &third] {
        let mut operator = operator(sentinel).await;
        let rules = "on >word &+switch-master +sentinel|get-master-addr-by-name +subscribe +hello";
        operator.say::<()>(&format!("ACL SETUSER app {rules}")).await;
        operator.say::<()>("ACL SETUSER deaf on >word resetchannels +@all").await;
        operator.say::<()>("ACL SETUSER default resetpass >secret").await;
    }
    watched.kill_sentinel(0).await.unwrap();
    let at_all = |login: &str| format!("redis-sentinel://{first},{second},{third}/{service}?{login}");
    for login in ["", "sentinel_password=wrong", "sentinel_user=app&sentinel_password=wrong"] {
        let error = refused(&at_all(login)).await;
        assert!(error.kind() == ErrorKind::Forbidden, "{login}: {error}");
        said(&error, &["to log in at the Sentinel at", &second]);
        assert!(!error.to_string().contains("wrong"), "{error}");
        if login.is_empty() {
            mistakes.made("the Sentinels demand another login", &error);
        }
    }
    mistakes.all_made();
    // One that may not listen is found at each dial all the same.
    for login in [
        "sentinel_password=secret",
        "sentinel_user=app&sentinel_password=word",
        "sentinel_user=deaf&sentinel_password=word",
    ] {
        let client = at(&at_all(login)).await.unwrap();
        soon(client.mutex("a").unwrap().acquire()).await.unwrap().release().await.unwrap();
        client.close().await.unwrap();
    }
}
