//! Every recipe asks replicas in the same way.

use latchwork_core::recipes::{Acquire, Member, MultiLock};
use latchwork_core::{Error, Owner};

use crate::common::soon;
use crate::replicas::Replicas;
use crate::{is_unconfirmed, user};

#[tokio::test]
async fn every_recipe_is_refused_while_replication_is_held_back_and_acquired_after_that() {
    let replicas = Replicas::start().await;
    let client = user(&replicas.url("ttl=60s&request_timeout=800ms&min_replicas=1")).await;
    let (mutex, other) = (client.mutex("mutex").unwrap(), client.mutex("other").unwrap());
    let (reentrant, rwlock) = (client.reentrant_mutex("owner").unwrap(), client.rwlock("rwlock").unwrap());
    let (semaphore, election) = (client.semaphore("permits", 2).unwrap(), client.election("leader").unwrap());
    let multi = MultiLock::new([client.mutex("one").unwrap().into(), Member::write(rwlock.clone())]).unwrap();
    let owner = Owner::new("an owner");
    // Each gives back what it acquired.
    let all = async || -> Vec<(&str, Result<(), Error>)> {
        vec![
            ("mutex", mutex.acquire().await.map(drop)),
            ("a try", other.try_acquire().await.map(|hold| drop(hold.expect("it is free")))),
            ("an owner", reentrant.acquire_as(&owner).await.map(drop)),
            ("a reader", rwlock.read().await.map(drop)),
            ("a writer", rwlock.write().await.map(drop)),
            ("permits", semaphore.acquire(2).await.map(drop)),
            ("a leader", election.campaign(b"me").await.map(drop)),
            ("several", multi.acquire().await.map(drop)),
        ]
    };
    replicas.hold_back_all();
    for (what, answer) in soon(all()).await {
        let error = answer.expect_err(what);
        println!("{what}: {error}");
        is_unconfirmed(&error, 0, 1);
    }
    // Not asked for, whatever the URL says.
    let plain = soon(mutex.acquire_with(Acquire::new().min_replicas(0))).await.unwrap();
    let _ = plain.release().await.unwrap();
    replicas.let_through(1);
    for (what, answer) in soon(all()).await {
        answer.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    // A re-entry asks nobody.
    let held = soon(reentrant.acquire_as(&owner)).await.unwrap();
    replicas.hold_back_all();
    let again = soon(reentrant.acquire_as(&owner)).await.unwrap();
    assert_eq!(again.token(), held.token());
}
