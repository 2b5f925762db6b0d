//! A Redis that is full, loads, is demoted, loses its scripts or takes rights away: what users of the recipes are told, and
//! what they keep.

mod common;

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Operator, is_script, own, says, soon};
use futures_util::future::join_all;
use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_conformance::servers::Server;
use latchwork_core::decide::Claim;
use latchwork_core::{Config, Coordinator, Error, ErrorKind, Eviction, Hold, Kind, LostReason, connect};

const SHORT: Duration = Duration::from_millis(500);

async fn user(server: &Server, options: &str) -> Result<Coordinator, Error> {
    at(&format!("{}?{options}", server.url())).await
}

async fn at(url: &str) -> Result<Coordinator, Error> {
    let config = Config::from_url(url).expect("a good URL");
    soon(connect(&[latchwork_redis::connector()], &config)).await
}

/// The text as whoever reads the log sees it.
fn said(error: &Error, words: &[&str]) {
    println!("{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} in: {text}");
}

/// Lets a TTL pass and half of another: who holds still has been renewed meanwhile.
async fn outlive(coordinator: &Coordinator) {
    let lease = coordinator.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl() * 3 / 2).await;
}

#[tokio::test]
async fn a_full_memory_takes_nothing_from_those_who_hold_or_wait() {
    let server = own(&["--maxmemory-policy", "noeviction"]).await;
    let mut operator = Operator::of(&server).await;
    let ttl = format!("ttl={}", common::SHORT);
    let (a, b) = (user(&server, &ttl).await.unwrap(), user(&server, &ttl).await.unwrap());
    let (mutex, rwlock, semaphore) =
        (a.mutex("m").unwrap(), a.rwlock("rw").unwrap(), a.semaphore("s", 2).unwrap());
    let doomed = a.mutex("doomed").unwrap();
    let held = (
        mutex.acquire().await.unwrap(),
        rwlock.write().await.unwrap(),
        semaphore.acquire(2).await.unwrap(),
        doomed.acquire().await.unwrap(),
    );
    let waiting = tokio::spawn({
        let (mutex, rwlock, semaphore, doomed) = (
            b.mutex("m").unwrap(),
            b.rwlock("rw").unwrap(),
            b.semaphore("s", 2).unwrap(),
            b.mutex("doomed").unwrap(),
        );
        async move { tokio::join!(mutex.acquire(), rwlock.read(), semaphore.acquire(1), doomed.acquire()) }
    });
    let queued = async {
        while mutex.queue(0, 9).await.unwrap().len()
            + rwlock.queue(0, 9).await.unwrap().len()
            + semaphore.queue(0, 9).await.unwrap().len()
            + doomed.queue(0, 9).await.unwrap().len()
            < 8
        {}
    };
    soon(queued).await;
    operator.say::<()>("CONFIG SET maxmemory 1").await;

    let fresh = b.mutex("fresh").unwrap();
    said(&fresh.acquire_within(SHORT).await.unwrap_err(), &["deadline", "out of memory"]);
    let tried = fresh.try_acquire().await.unwrap_err();
    assert_eq!(*tried.kind(), ErrorKind::Unavailable);
    said(&tried, &["out of memory"]);
    let refused = soon(fresh.acquire()).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Unavailable);
    said(&refused, &["out of memory"]);
    outlive(&a).await;
    assert!(held.0.is_held() && held.1.is_held() && held.2.is_held() && held.3.is_held());
    assert!(!waiting.is_finished());

    // An operator takes two holds away, past us and by us; a writer turns reader; the others are given back. All who wait get
    // in, though nothing may grow.
    let node: Vec<String> = operator.say("ZRANGE latchwork:mutex:{doomed}:seq 0 0").await;
    assert_eq!(operator.say::<u32>(&format!("ZREM latchwork:mutex:{{doomed}}:seq {}", node[0])).await, 1);
    assert_eq!(soon(held.3.lost()).await.reason(), LostReason::Revoked);
    assert!(b.mutex("m").unwrap().force_release(held.0.token().sequence()).await.unwrap());
    assert_eq!(soon(held.0.lost()).await.reason(), LostReason::Revoked);
    let reading = held.1.downgrade().await.unwrap();
    let _ = held.2.release().await.unwrap();
    let (mutex, reader, permit, freed) = soon(waiting).await.unwrap();
    let next = (mutex.unwrap(), reader.unwrap(), permit.unwrap(), freed.unwrap());
    outlive(&b).await;
    assert!(reading.is_held(), "beside the reader that it let in");
    let _ = reading.release().await.unwrap();
    assert!(next.0.is_held() && next.1.is_held() && next.2.is_held() && next.3.is_held());
    let _ = next.0.release().await.unwrap();
    let _ = next.1.release().await.unwrap();
    let _ = next.2.release().await.unwrap();
    let _ = next.3.release().await.unwrap();
    let nodes: Vec<String> = operator.say("KEYS latchwork:*:node").await;
    assert_eq!(nodes, [""; 0], "nothing is left");
    operator.say::<()>("CONFIG SET maxmemory 0").await;
    let _ = fresh.acquire_within(Duration::from_secs(10)).await.unwrap().release().await.unwrap();
}

/// What was written to the log while it stood.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn every_policy_that_evicts_is_warned_of_and_refused_when_strict() {
    let server = own(&["--maxmemory", "64mb"]).await;
    let mut operator = Operator::of(&server).await;
    for (policy, eviction) in [
        ("allkeys-lru", Eviction::Possible),
        ("allkeys-lfu", Eviction::Possible),
        ("allkeys-random", Eviction::Possible),
        ("volatile-lru", Eviction::Possible),
        ("volatile-lfu", Eviction::Possible),
        ("volatile-random", Eviction::Possible),
        ("volatile-ttl", Eviction::Possible),
        ("noeviction", Eviction::Never),
    ] {
        operator.say::<()>(&format!("CONFIG SET maxmemory-policy {policy}")).await;
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        let reading = tracing::subscriber::set_default(subscriber);
        let client = user(&server, "").await.unwrap();
        drop(reading);
        assert_eq!(client.capabilities().eviction, eviction, "{policy}");
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let warned = text.contains("WARN") && text.contains("noeviction");
        assert_eq!(warned, eviction == Eviction::Possible, "{policy}: {text}");
        match user(&server, "strict=true").await {
            Ok(_) => assert_eq!(eviction, Eviction::Never, "{policy}"),
            Err(error) => {
                assert_eq!((error.kind(), eviction), (&ErrorKind::Misconfigured, Eviction::Possible));
                said(&error, &["strict", policy, "noeviction"]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_who_contend_while_scripts_are_flushed_are_all_served_one_by_one() {
    const ROUNDS: usize = 5;
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (inside, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut contenders = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = user(&server, "ttl=10s").await.unwrap();
        let (inside, served) = (Arc::clone(&inside), Arc::clone(&served));
        contenders.spawn(async move {
            let mutex = client.mutex("a").unwrap();
            for _ in 0..ROUNDS {
                let hold = mutex.acquire().await.unwrap();
                assert!(!inside.swap(true, Ordering::AcqRel), "two hold");
                tokio::task::yield_now().await;
                inside.store(false, Ordering::Release);
                let _ = hold.release().await.unwrap();
                served.fetch_add(1, Ordering::AcqRel);
            }
            client.close().await.unwrap();
        });
    }
    let mut flushed = 0;
    let flushing = async {
        // As often as the server answers, for as long as anybody contends.
        while !contenders.is_empty() {
            operator.say::<()>("SCRIPT FLUSH").await;
            flushed += 1;
            while let Some(ended) = contenders.try_join_next() {
                ended.unwrap();
            }
        }
    };
    soon(flushing).await;
    assert_eq!(served.load(Ordering::Acquire), 20 * ROUNDS);
    assert!(flushed > ROUNDS, "{flushed} flushes");
    let keys: Vec<String> = operator.say("KEYS latchwork:*:node").await;
    assert_eq!(keys, [""; 0], "nothing is left");
}

#[tokio::test]
async fn a_master_that_is_demoted_is_named_until_it_is_one_again() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = user(&server, "ttl=2s").await.unwrap();
    let mutex = client.mutex("a").unwrap();
    let _ = mutex.acquire().await.unwrap().release().await.unwrap();
    operator.say::<()>("REPLICAOF 127.0.0.1 1").await;
    let error = mutex.acquire_within(SHORT).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unavailable);
    said(&error, &["deadline", "replica"]);
    // An acquire without a deadline gives up after a TTL, and says why as well.
    let error = soon(mutex.acquire()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unavailable);
    said(&error, &["replica"]);
    operator.say::<()>("REPLICAOF NO ONE").await;
    let _ = soon(mutex.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn whoever_only_holds_leaves_a_demoted_master_at_the_first_renewal_that_fails() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = common::client(&server, "3s").await;
    let queue = common::queue(Kind::Mutex, "a");
    let held = common::admitted(&client, &common::ask(&queue, Claim::Exclusive)).await;
    let deadline = held.state().lease().deadline();
    operator.say::<()>("REPLICAOF 127.0.0.1 1").await;
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    soon(async {
        while !format!("{client:?}").contains("down") {
            looks.tick().await;
        }
    })
    .await;
    assert_eq!(held.state().lease().deadline(), deadline, "not renewed since");
    assert_eq!(held.state().lost(), None, "left only when it was lost");
    operator.say::<()>("REPLICAOF NO ONE").await;
    let end = deadline + Duration::from_secs(1);
    held.state().lease().clock().sleep_until(end).await;
    assert_eq!(held.state().lost(), None, "it has not come back in time");
}

#[tokio::test]
async fn a_server_that_loads_its_data_is_waited_for_and_named_when_it_takes_too_long() {
    let server =
        own(&["--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024"]).await;
    let mut operator = Operator::of(&server).await;
    let client = user(&server, "ttl=30s").await.unwrap();
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    operator.say::<()>("DEBUG POPULATE 2000").await;
    // A millisecond for each key: two seconds and more.
    operator.say::<()>("CONFIG SET key-load-delay 1000").await;
    let reloading = tokio::spawn(async move {
        operator.say::<()>("DEBUG RELOAD").await;
        operator
    });
    let error = loop {
        match user(&server, "connect_timeout=300ms").await {
            // Not yet.
            Ok(early) => early.close().await.unwrap_or_else(|error| println!("{error}")),
            Err(error) => break error,
        }
    };
    assert_eq!(*error.kind(), ErrorKind::Unavailable);
    said(&error, &["connect", "loading"]);
    // Whoever has time is served as soon as it is.
    let patient = user(&server, "connect_timeout=30s").await.unwrap();
    let mut operator = soon(reloading).await.unwrap();
    operator.say::<()>("CONFIG SET key-load-delay 0").await;
    assert!(patient.mutex("a").unwrap().try_acquire().await.unwrap().is_none(), "it is held, as before");
    assert!(hold.is_held());
    let _ = hold.release().await.unwrap();
    let _ = soon(patient.mutex("a").unwrap().acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn rights_that_are_taken_away_are_told_and_the_hold_ends_in_time() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    operator.say::<()>("ACL SETUSER app on >hunter2 ~latchwork:* &latchwork:* +@all").await;
    let client = at(&format!("redis://app:hunter2@{}?ttl=1s", server.addr())).await.unwrap();
    let mutex = client.mutex("a").unwrap();
    let hold = mutex.acquire().await.unwrap();
    operator.say::<()>("ACL SETUSER app resetkeys").await;
    let error = client.mutex("b").unwrap().acquire().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Forbidden { .. }), "{error}");
    said(&error, &["ACL", "keys"]);
    assert!(!error.to_string().contains("hunter2"));
    assert_eq!(soon(hold.lost()).await.reason(), LostReason::Expired);
    operator.say::<()>("ACL SETUSER app ~latchwork:*").await;
    let _ = soon(mutex.acquire()).await.unwrap().release().await.unwrap();
}

/// They are renewed in one script, which the server refuses for the sake of any of its keys.
#[tokio::test]
async fn rights_to_one_queue_that_are_taken_away_cost_nothing_else() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    operator.say::<()>("ACL SETUSER app on >hunter2 ~latchwork:* &latchwork:* +@all").await;
    let client = at(&format!("redis://app:hunter2@{}?ttl={}", server.addr(), common::SHORT)).await.unwrap();
    let hold = async |key: &str| client.mutex(key).unwrap().acquire().await.unwrap();
    let kept = [hold("kept-1").await, hold("kept-2").await, hold("kept-3").await];
    let taken = hold("taken").await;
    operator.say::<()>("ACL SETUSER app resetkeys ~latchwork:*kept*").await;
    assert_eq!(soon(taken.lost()).await.reason(), LostReason::Expired);
    outlive(&client).await;
    for hold in kept {
        hold.check().expect("its own queue is not forbidden");
        let _ = hold.release().await.unwrap();
    }
}

/// One connection swallows everything, while another would be served.
#[tokio::test]
async fn a_connection_that_falls_silent_is_given_up_before_what_is_held_is_lost() {
    let server = own(&[]).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let client = at(&format!("redis://{}?ttl={}", proxy.addr(), common::SHORT)).await.unwrap();
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    // The first renewal.
    let mut silent = proxy.hold_next_reply();
    soon(silent.fired()).await.unwrap();
    outlive(&client).await;
    hold.check().expect("another connection had time to renew it");
    let _ = hold.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn dialling_again_that_hangs_is_given_up_before_what_is_held_is_lost() {
    let server = own(&[]).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let options = "ttl=9s&connect_timeout=10m&request_timeout=10m";
    let client = at(&format!("redis://{}?{options}", proxy.addr())).await.unwrap();
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    let hung = proxy.hold_reply_to(says("HELLO"));
    let mut silent = proxy.hold_reply_to(is_script);
    soon(silent.fired()).await.unwrap();
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl() * 2 / 3).await;
    assert!(hung.has_fired());
    hold.check().expect("dialled once more in time");
    let _ = hold.release().await.unwrap();
    client.close().await.unwrap();
}

/// A request has much more time than a connection gets that answers nobody.
#[tokio::test]
async fn what_was_asked_on_a_connection_that_fell_silent_is_asked_again_on_the_next() {
    let server = own(&[]).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let options = format!("ttl={}&request_timeout=10m", common::SHORT);
    let client = at(&format!("redis://{}?{options}", proxy.addr())).await.unwrap();
    let mutex = client.mutex("a").unwrap();
    let hold = mutex.acquire().await.unwrap();
    let (ttl, mut left) = (client.lease().ttl(), proxy.hold_reply_to(is_script));
    let asked = Instant::now();
    drop(hold);
    soon(left.fired()).await.unwrap();
    let hold = soon(mutex.acquire()).await.unwrap();
    assert!(asked.elapsed() < 2 * ttl, "the leave was stuck for {:?}", asked.elapsed());
    let _ = hold.release().await.unwrap();
    let joined = proxy.hold_reply_to(is_script);
    let asked = Instant::now();
    let hold = soon(mutex.acquire()).await.unwrap();
    assert!(joined.has_fired() && asked.elapsed() < 2 * ttl, "the join was stuck for {:?}", asked.elapsed());
    let _ = hold.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn whoever_joins_after_a_loss_is_answered_in_time_however_much_was_lost() {
    let server = own(&[]).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let options = "ttl=1s&request_timeout=500ms";
    let client = at(&format!("redis://{}?{options}", proxy.addr())).await.unwrap();
    let held = (0..400).map(|number| {
        let mutex = client.mutex(format!("held-{number}")).unwrap();
        async move { mutex.acquire().await.unwrap() }
    });
    let held = soon(join_all(held)).await;
    proxy.cut();
    soon(join_all(held.iter().map(Hold::lost))).await;
    let asked = Instant::now();
    let error = soon(client.mutex("a").unwrap().acquire()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unavailable, "{error}");
    // It gives up after a TTL; a try is under way then: what was lost is given back, and it joins.
    let bound = Duration::from_secs(1) + SHORT * 2 + Duration::from_secs(1);
    assert!(asked.elapsed() < bound, "after {:?}", asked.elapsed());
    proxy.resume();
    let _ = soon(client.mutex("a").unwrap().acquire()).await.unwrap().release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn whoever_holds_after_a_loss_is_renewed_while_what_was_lost_is_given_back() {
    let server = own(&[]).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let options = format!("ttl={}&request_timeout=500ms", common::SHORT);
    let client = at(&format!("redis://{}?{options}", proxy.addr())).await.unwrap();
    let mut lost = Vec::new();
    for part in 0..20 {
        let held = (0..150).map(|number| {
            let mutex = client.mutex(format!("held-{part}-{number}")).unwrap();
            async move { mutex.acquire().await.unwrap() }
        });
        lost.extend(soon(join_all(held)).await);
    }
    client.lease().clock().jump(client.lease().ttl());
    // Of eight at a time that makes seven seconds.
    proxy.delay(Direction::ToClient, Duration::from_millis(20));
    let hold = soon(client.mutex("a").unwrap().acquire()).await.unwrap();
    outlive(&client).await;
    hold.check().expect("renewed meanwhile");
    assert!(lost.iter().all(|hold| !hold.is_held()));
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_server_that_dies_while_a_client_waits_is_an_outage_and_no_timeout() {
    let server = own(&[]).await;
    // A renewal is due long after the deadline: only the loss of the connection tells.
    let (holder, client) = (user(&server, "ttl=30s").await.unwrap(), user(&server, "ttl=30s").await.unwrap());
    let _held = holder.mutex("a").unwrap().acquire().await.unwrap();
    let mutex = client.mutex("a").unwrap();
    let waiting = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire_within(Duration::from_secs(2)).await }
    });
    soon(async {
        while holder.mutex("a").unwrap().queue(0, 10).await.unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    server.kill().await.unwrap();
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.cause().is_some(), "{error}");
}
