//! A queue works with any number and size of foreign keys below it.

use crate::common::{acquiring, client, etcdctl, keys, served, soon};
use etcd_client::Client;
use latchwork_conformance::servers::Server;
use latchwork_core::{Claim, Coordinator, ErrorKind, Key};

/// Together longer than a reply may be.
const KEYS: usize = 70;
const LARGE: usize = 1 << 20;

async fn program(server: &Server) -> Client {
    Client::connect([server.addr()], None).await.unwrap()
}

async fn plant(server: &Server) {
    let mut program = program(server).await;
    for kind in ["mutex", "rwlock", "semaphore"] {
        for number in 0..KEYS {
            let key = format!("latchwork/{kind}/a/foreign-{number}");
            soon(program.put(key, vec![b'x'; LARGE], None)).await.unwrap();
        }
    }
}

async fn one_of_each(client: &Coordinator) {
    let (mutex, rwlock) = (client.mutex("a").unwrap(), client.rwlock("a").unwrap());
    let semaphore = client.semaphore("a", 2).unwrap();
    let held = soon(mutex.acquire()).await.unwrap();
    assert!(soon(mutex.try_acquire()).await.unwrap().is_none());
    let waiting = acquiring(&mutex);
    soon(async { while mutex.queue().first(9).await.unwrap().len() < 2 {} }).await;
    held.release().await.unwrap();
    soon(waiting).await.unwrap().unwrap().release().await.unwrap();

    let writer = soon(rwlock.write()).await.unwrap();
    assert!(soon(rwlock.try_read()).await.unwrap().is_none());
    let reader = soon(writer.downgrade()).await.unwrap();
    let beside = soon(rwlock.try_read()).await.unwrap().expect("readers read together");
    let listed = rwlock.queue().first(9).await.unwrap();
    let claims: Vec<_> =
        listed.iter().map(|entry| (entry.claim, entry.admitted, entry.label.as_str())).collect();
    assert_eq!(claims, [(Claim::Shared, true, client.label()); 2]);
    reader.release().await.unwrap();
    beside.release().await.unwrap();

    let two = soon(semaphore.acquire(2)).await.unwrap();
    assert!(soon(semaphore.try_acquire(1)).await.unwrap().is_none());
    assert_eq!(semaphore.queue().first(9).await.unwrap()[0].claim, Claim::Permits(2));
    two.release().await.unwrap();
}

#[tokio::test]
async fn seventy_keys_of_a_megabyte_below_a_queue_are_in_nobodys_way() {
    let (server, client) = served("").await;
    plant(&server).await;
    one_of_each(&client).await;
    client.close().await.unwrap();
}

#[tokio::test]
async fn large_values_at_an_exact_address_are_in_nobodys_way() {
    let (server, client) = served("").await;
    let mut program = program(&server).await;
    let lease = program.lease_grant(60, None).await.unwrap().id();
    for number in 0..KEYS {
        let leased = etcd_client::PutOptions::new().with_lease(lease);
        soon(program.put(format!("jobs/{number}"), vec![b'x'; LARGE], Some(leased))).await.unwrap();
    }
    let mutex = client.mutex(Key::exact("jobs")).unwrap();
    assert!(soon(mutex.try_acquire()).await.unwrap().is_none(), "a foreign node holds the lock");
    let waiting = acquiring(&mutex);
    soon(async { while mutex.queue().first(100).await.unwrap().len() <= KEYS {} }).await;
    soon(program.lease_revoke(lease)).await.unwrap();
    soon(waiting).await.unwrap().unwrap().release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_queue_is_read_page_by_page() {
    let (server, client) = served("").await;
    let rwlock = client.rwlock("a").unwrap();
    let reader = soon(rwlock.read()).await.unwrap();
    let mut program = program(&server).await;
    for first in (0..4200).step_by(100) {
        let puts = (first..first + 100).map(|number| {
            let key = format!("latchwork/rwlock/a/{}{number}", if number % 2 == 0 { "!" } else { "z" });
            etcd_client::TxnOp::put(key, "", None)
        });
        program.txn(etcd_client::Txn::new().and_then(puts.collect::<Vec<_>>())).await.unwrap();
    }
    let beside = soon(rwlock.read()).await.unwrap();
    assert!(soon(rwlock.try_write()).await.unwrap().is_none(), "two read");
    assert_eq!(soon(rwlock.queue().first(9)).await.unwrap().len(), 2);
    reader.release().await.unwrap();
    beside.release().await.unwrap();
    soon(rwlock.try_write()).await.unwrap().expect("the lock is free").release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_reply_that_is_too_long_says_so_and_leaves_nothing() {
    let (server, client) = served("").await;
    let mut program = program(&server).await;
    // A name may be as long as a request.
    let long = "x".repeat(1_400_000);
    for number in 0..50 {
        soon(program.put(format!("latchwork/rwlock/a/{number}{long}"), "", None)).await.unwrap();
    }
    let rwlock = client.rwlock("a").unwrap();
    for error in [
        soon(rwlock.read()).await.map(drop).unwrap_err(),
        soon(rwlock.try_read()).await.map(drop).unwrap_err(),
        soon(rwlock.queue().first(9)).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(!error.is_retryable() && error.to_string().contains("the reply is too long"), "{error}");
    }
    let nodes = keys(&server, "latchwork/rwlock/a/").await.into_iter().filter(|key| key.len() < 1000);
    assert_eq!(nodes.collect::<Vec<_>>(), [""; 0], "a refused join left its node");
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_key_without_a_lease_or_deeper_below_holds_no_exact_address() {
    let (server, a) = served("namespace=a").await;
    let b = client(&server, "namespace=b").await;
    let _permit = soon(b.semaphore("s", 1).unwrap().acquire(1)).await.unwrap();
    let _held = soon(b.mutex("m").unwrap().acquire()).await.unwrap();
    etcdctl(&server, &["put", "b/notes", "by hand"]).await;
    for name in ["b", "b/limit/semaphore", "b/mutex"] {
        let mutex = a.mutex(Key::exact(name)).unwrap();
        soon(mutex.acquire()).await.unwrap().release().await.unwrap();
        soon(mutex.try_acquire()).await.unwrap().expect("the lock is free").release().await.unwrap();
    }
    a.close().await.unwrap();
    b.close().await.unwrap();
}
