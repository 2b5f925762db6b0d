use std::time::{Duration, Instant};

use crate::common::{client, etcdctl, soon, started, until_keys};
use latchwork_conformance::servers::{Options, Server};
use latchwork_core::{Ended, Limit, LostReason};
use tempfile::TempDir;

async fn server_in(data: &TempDir) -> Server {
    let folder = data.path().join("etcd");
    started(Options::new().args(["--data-dir", folder.to_str().expect("a text")])).await
}

async fn restart_without_data(server: &Server, data: &TempDir) {
    server.kill().await.unwrap();
    std::fs::remove_dir_all(data.path().join("etcd")).unwrap();
    server.launch().await.unwrap();
}

#[tokio::test]
async fn restart_without_data_loses_holds_and_waiters_join_again() {
    let data = tempfile::tempdir().unwrap();
    let server = server_in(&data).await;
    let (a, b) = (client(&server, "ttl=15s").await, client(&server, "ttl=15s").await);
    let (mutex, semaphore) = (a.mutex("a").unwrap(), a.semaphore("s", Limit::UnlessStored(1)).unwrap());
    let held = (mutex.acquire().await.unwrap(), semaphore.acquire(1).await.unwrap());
    let waiting = tokio::spawn({
        let (mutex, semaphore) = (b.mutex("a").unwrap(), b.semaphore("s", Limit::UnlessStored(1)).unwrap());
        async move {
            tokio::join!(
                mutex.acquire().within(Duration::from_secs(50)),
                semaphore.acquire(1).within(Duration::from_secs(50))
            )
        }
    });
    until_keys(&server, "latchwork/mutex/a/", 2).await;
    until_keys(&server, "latchwork/semaphore/s/", 2).await;
    let lease = a.lease();
    restart_without_data(&server, &data).await;
    for ended in [soon(held.0.lost()).await, soon(held.1.lost()).await] {
        assert_eq!(ended, Ended::Lost(LostReason::Forgotten));
    }
    assert_eq!(lease.lost(), Some(LostReason::Forgotten), "the client may have opened another lease since");
    let (lock, permit) = soon(waiting).await.unwrap();
    let (lock, permit) = (lock.unwrap(), permit.unwrap());
    assert!(lock.is_held() && permit.is_held());
    lock.release().await.unwrap();
    permit.release().await.unwrap();
    let again = soon(mutex.acquire()).await.unwrap();
    again.release().await.unwrap();
}

#[tokio::test]
async fn release_after_a_restart_without_data_reports_forgotten() {
    let data = tempfile::tempdir().unwrap();
    let server = server_in(&data).await;
    let client = client(&server, "ttl=60s").await;
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    restart_without_data(&server, &data).await;
    let asked = Instant::now();
    assert_eq!(soon(hold.release()).await.unwrap_err().lost_reason(), Some(LostReason::Forgotten));
    assert!(asked.elapsed() < Duration::from_secs(15), "the renewal noticed the loss of data");
}

/// The control.
#[tokio::test]
async fn deletion_by_an_operator_is_reported_as_revoked() {
    let data = tempfile::tempdir().unwrap();
    let server = server_in(&data).await;
    let client = client(&server, "ttl=60s").await;
    let (mutex, other) = (client.mutex("a").unwrap(), client.mutex("b").unwrap());
    let hold = mutex.acquire().await.unwrap();
    etcdctl(&server, &["del", "--prefix", "latchwork/mutex/a/"]).await;
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Revoked));
    let hold = other.acquire().await.unwrap();
    server.kill().await.unwrap();
    server.launch().await.unwrap();
    let lease = etcdctl(&server, &["lease", "list"]).await.lines().last().unwrap().to_owned();
    etcdctl(&server, &["lease", "revoke", &lease]).await;
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Revoked));
}
