//! A server that is started without its data: whoever held is told that it was forgotten, and whoever waited waits on by itself.

mod common;

use std::time::{Duration, Instant};

use common::{client, etcdctl, soon, until_keys};
use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_core::{LostReason, Release};
use tempfile::TempDir;

/// A server whose data are in this folder.
async fn server_in(data: &TempDir) -> Server {
    let folder = data.path().join("etcd");
    let options = Options::new().own().args(["--data-dir", folder.to_str().expect("a text")]);
    Server::start(Kind::Etcd, options).await.unwrap_or_else(|error| panic!("{error}"))
}

/// As after a lost disk: the same server, without what it knew.
async fn restart_without_data(server: &Server, data: &TempDir) {
    server.kill().await.unwrap();
    std::fs::remove_dir_all(data.path().join("etcd")).unwrap();
    server.launch().await.unwrap();
}

#[tokio::test]
async fn who_held_is_forgotten_and_who_waited_joins_anew() {
    let data = tempfile::tempdir().unwrap();
    let server = server_in(&data).await;
    let (a, b) = (client(&server, "ttl=5s").await, client(&server, "ttl=5s").await);
    let (mutex, semaphore) = (a.mutex("a").unwrap(), a.semaphore_or_stored("s", 1).unwrap());
    let held = (mutex.acquire().await.unwrap(), semaphore.acquire(1).await.unwrap());
    let waiting = tokio::spawn({
        let (mutex, semaphore) = (b.mutex("a").unwrap(), b.semaphore_or_stored("s", 1).unwrap());
        async move {
            tokio::join!(
                mutex.acquire_within(Duration::from_secs(50)),
                semaphore.acquire_within(1, Duration::from_secs(50))
            )
        }
    });
    until_keys(&server, "latchwork/mutex/a/", 2).await;
    until_keys(&server, "latchwork/semaphore/s/", 2).await;
    restart_without_data(&server, &data).await;
    // Within its lease: by a look, or by the renewal.
    for reason in [soon(held.0.lost()).await.reason(), soon(held.1.lost()).await.reason()] {
        assert_eq!(reason, LostReason::Forgotten);
    }
    assert_eq!(a.lease().lost(), Some(LostReason::Forgotten));
    let (lock, permit) = soon(waiting).await.unwrap();
    let (lock, permit) = (lock.unwrap(), permit.unwrap());
    assert!(lock.is_held() && permit.is_held());
    // Who was forgotten is not in the way of its own next turn.
    assert_eq!(lock.release().await.unwrap(), Release::Released);
    assert_eq!(permit.release().await.unwrap(), Release::Released);
    let again = soon(mutex.acquire()).await.unwrap();
    assert_eq!(again.release().await.unwrap(), Release::Released);
}

/// The release asks the server, and the server does not know.
#[tokio::test]
async fn a_release_behind_a_restart_without_data_says_that_it_was_forgotten() {
    let data = tempfile::tempdir().unwrap();
    let server = server_in(&data).await;
    let client = client(&server, "ttl=60s").await;
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    restart_without_data(&server, &data).await;
    // The next renewal is 20 s away.
    let asked = Instant::now();
    assert_eq!(soon(hold.release()).await.unwrap(), Release::AlreadyLost(LostReason::Forgotten));
    assert!(asked.elapsed() < Duration::from_secs(15), "the renewal said it");
}

/// The control: the same server, from which an operator takes what it knows. That is somebody's hand.
#[tokio::test]
async fn an_operators_hand_is_no_other_incarnation() {
    let data = tempfile::tempdir().unwrap();
    let server = server_in(&data).await;
    let client = client(&server, "ttl=5s").await;
    let (mutex, other) = (client.mutex("a").unwrap(), client.mutex("b").unwrap());
    let hold = mutex.acquire().await.unwrap();
    etcdctl(&server, &["del", "--prefix", "latchwork/mutex/a/"]).await;
    assert_eq!(soon(hold.lost()).await.reason(), LostReason::Revoked);
    // With its data: the same incarnation.
    let hold = other.acquire().await.unwrap();
    server.kill().await.unwrap();
    server.launch().await.unwrap();
    let lease = etcdctl(&server, &["lease", "list"]).await.lines().last().unwrap().to_owned();
    etcdctl(&server, &["lease", "revoke", &lease]).await;
    assert_eq!(soon(hold.lost()).await.reason(), LostReason::Revoked);
}
