use super::listed;
use crate::common::{address, admitted, backend, config, join, server, soon, waiting};
use latchwork_core::Claim::Exclusive;
use latchwork_core::{ErrorKind, Kind, Result};

#[tokio::test]
async fn only_a_held_writer_is_downgraded() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::RwLock, "a");
    let backend = backend(&config).await;
    let not_held = |done: Result<()>| done.unwrap_err().kind() == ErrorKind::NotHeld;
    let holder = admitted(backend.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(backend.join(&join(&queue, Exclusive)).await);
    assert!(not_held(waiter.downgrade().await), "a waiter would overtake others");
    let mutex = address(&config, Kind::Mutex, "a");
    assert!(not_held(admitted(backend.join(&join(&mutex, Exclusive)).await).downgrade().await));
    holder.leave().await.unwrap();
    assert!(not_held(holder.downgrade().await), "the node has left");
    soon(waiter.admitted()).await.unwrap();
    assert_eq!(listed(&backend, &queue).await, [(waiter.state().sequence(), Exclusive, true)]);
}
