use std::time::Duration;

use latchwork_conformance::errors::fails;
use latchwork_core::{Config, Coordinator, ErrorKind, Kind, Operator};

use super::user;
use crate::common::coordinators::{queued, said};
use crate::common::{operated, soon, until};

async fn seen(client: &Coordinator) -> Vec<(bool, String)> {
    let [mutex, free] = ["m", "free"].map(|key| client.mutex(key).unwrap().queue());
    let rwlock = client.rwlock("rw").unwrap().queue();
    let semaphore = client.semaphore("s", 2).unwrap().queue();
    let mut seen = Vec::new();
    for queue in [mutex, free, rwlock, semaphore] {
        let entries = queue.first(9).await.unwrap();
        seen.extend(entries.into_iter().map(|entry| (entry.admitted, entry.sequence.to_string())));
    }
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore, Kind::Value] {
        let mut keys = client.list(kind, "").unwrap().all().await.unwrap();
        keys.sort_by_key(|listed| listed.address.name().to_owned());
        seen.extend(keys.into_iter().map(|listed| (true, format!("{:?}", listed.address))));
    }
    seen
}

#[tokio::test]
async fn operator_connects_and_lists_and_a_plain_client_is_refused() {
    let (server, mut by_hand) = operated().await;
    let client = user(&server, "ttl=1m").await.unwrap();
    let mutex = client.mutex("m").unwrap();
    let held = mutex.acquire().await.unwrap();
    let waiting = queued(&mutex, mutex.acquire()).await;
    let reader = client.rwlock("rw").unwrap().read().await.unwrap();
    let semaphore = client.semaphore("s", 2).unwrap();
    let permits = (semaphore.acquire(1).await.unwrap(), semaphore.acquire(1).await.unwrap());
    let third = tokio::spawn(semaphore.acquire(1));
    until(async || semaphore.queue().first(9).await.unwrap().len() == 3).await;
    client.shared_value("v").unwrap().write("v").await.unwrap();
    let before = seen(&client).await;
    assert_eq!(before.iter().filter(|(admitted, _)| !admitted).count(), 2, "{before:?}");

    by_hand.tell("CONFIG SET min-replicas-to-write 1").await;
    let url = format!("{}?connect_timeout=3s", server.url());
    let connections = by_hand.counted("INFO stats", "total_connections_received:").await;
    let refused = user(&server, "connect_timeout=3s").await.map(drop);
    let error = fails(refused, ErrorKind::Unavailable, "the server refuses writes");
    said(&error, &["does not serve this client", "too few replicas"]);
    assert!(error.is_refusal(), "{error}");
    let dials = by_hand.counted("INFO stats", "total_connections_received:").await - connections;
    assert!(dials < 12, "{dials} dials in three seconds");
    let (connectors, config) = ([latchwork_redis::connector()], Config::from_url(&url).unwrap());
    let operator = soon(Operator::connect(&connectors, &config)).await.unwrap();
    assert_eq!(seen(operator.coordinator()).await, before);
    assert_eq!(operator.marker().await.unwrap(), None);
    let mutex = operator.coordinator().mutex("m").unwrap();
    let released = soon(mutex.force_release(held.token().sequence())).await;
    said(&fails(released, ErrorKind::Unavailable, "refused"), &["too few replicas"]);
    let clients = soon(operator.coordinator().clients().all()).await.unwrap();
    assert_eq!(clients.len(), 1, "the operator is not registered");

    by_hand.tell("CONFIG SET min-replicas-to-write 0").await;
    let mutex = operator.coordinator().mutex("m").unwrap();
    let release =
        async || mutex.force_release(held.token().sequence()).await.is_ok_and(|was_there| was_there);
    until(release).await;
    soon(waiting).await.unwrap().unwrap().release().await.unwrap();
    reader.release().await.unwrap();
    permits.0.release().await.unwrap();
    permits.1.release().await.unwrap();
    soon(third).await.unwrap().unwrap().release().await.unwrap();
    soon(operator.coordinator().close()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), client.close()).await.unwrap().unwrap();
}
