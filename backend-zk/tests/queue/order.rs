use crate::common::{ALL, address, admitted, config, coordinator, join, place, server, soon, stranger};
use latchwork_conformance::actions::leave_all;
use latchwork_core::Claim::{Exclusive, Permits};
use latchwork_core::backend::Join;
use latchwork_core::{ErrorKind, Kind, Limit};
use zookeeper_client::Error;

#[tokio::test]
async fn tokens_rise_after_the_directory_counter_starts_again() {
    let addr = server().await.addr();
    let config = config(addr);
    let coordinator = coordinator(&config).await;
    let mutex = coordinator.mutex("a").unwrap();
    let stranger = stranger(addr).await;
    let mut last = None;
    for _ in 0..3 {
        let guard = soon(mutex.acquire()).await.unwrap();
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
        let queue = format!("/{}/mutex/a", config.namespace);
        let names = stranger.list_children(&queue).await.unwrap();
        assert!(names.len() == 1 && names[0].ends_with("-lock-0000000000"), "{names:?}");
        guard.release().await.unwrap();
        // The server removes empty containers once a minute.
        let deleted = stranger.delete(&queue, None).await;
        assert!(matches!(deleted, Ok(()) | Err(Error::NoNode)), "{deleted:?}");
    }
    coordinator.close().await.unwrap();
}

/// Ids are reused, and a new directory starts a new counter.
#[tokio::test]
async fn a_second_leave_of_a_node_spares_the_next_of_its_path() {
    let (config, client, stranger) = place().await;
    let queue = address(&config, Kind::Mutex, "a");
    let directory = format!("/{}/mutex/a", config.namespace);
    let first = admitted(client.join(&join(&queue, Exclusive)).await);
    let named = stranger.list_children(&directory).await.unwrap();
    assert!(client.list(&queue, ALL).await.unwrap()[0].age.is_some());
    first.leave().await.unwrap();
    stranger.delete(&directory, None).await.unwrap();
    let next = admitted(client.join(&join(&queue, Exclusive)).await);
    assert_eq!(stranger.list_children(&directory).await.unwrap(), named, "ids are reused");
    first.leave().await.unwrap();
    assert_eq!(stranger.list_children(&directory).await.unwrap(), named);
    next.leave().await.unwrap();
    assert!(stranger.list_children(&directory).await.unwrap().is_empty());
}

#[tokio::test]
async fn join_that_failed_after_its_write_leaves_no_node() {
    let (config, client, stranger) = place().await;
    let queue = address(&config, Kind::Semaphore, "a");
    let asked = join(&queue, Permits(1));
    let kept = admitted(client.join(&asked).await);
    let other = Join { limit: Limit::Exactly(3), ..join(&queue, Permits(1)) };
    assert_eq!(client.join(&other).await.unwrap_err().kind(), ErrorKind::Conflict);
    let next = admitted(client.join(&join(&queue, Permits(1))).await);
    let names = stranger.list_children(&format!("/{}/semaphore/a", config.namespace)).await.unwrap();
    assert!(names.len() == 2 && !names.iter().any(|name| name.contains(&other.id.hyphenated())), "{names:?}");
    leave_all([kept, next]).await;
}
