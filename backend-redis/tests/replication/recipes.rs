use latchwork_core::recipes::{MultiLock, MultiMember};
use latchwork_core::{Coordinator, Error, Owner};

use super::replicas::Replicas;
use super::{PATIENT, is_unconfirmed};
use crate::common::coordinators::user;
use crate::common::{Operator, soon, until};

#[tokio::test]
async fn every_recipe_is_refused_while_replication_is_held_back_and_acquired_after_that() {
    let replicas = Replicas::start().await;
    let client = user(&replicas.url("ttl=60s&request_timeout=3s&min_replicas=1")).await;
    replicas.hold_back_all();
    for (what, answer) in soon(all(&client)).await {
        let error = answer.expect_err(what);
        println!("{what}: {error}");
        is_unconfirmed(&error, 0, 1);
    }
    soon(client.mutex("mutex").unwrap().acquire().min_replicas(0)).await.unwrap().release().await.unwrap();
    let mut operator = Operator::of(&replicas.primary).await;
    until(async || nothing_is_held(&mut operator).await).await;
    soon(client.close()).await.unwrap();
    replicas.let_through(1);
    let patient = user(&replicas.url(&format!("{PATIENT}&min_replicas=1"))).await;
    for (what, answer) in soon(all(&patient)).await {
        answer.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    // A re-entry asks no replica.
    let (reentrant, owner) = (patient.mutex("owner").unwrap(), Owner::new("an owner"));
    let held = soon(reentrant.acquire().by(&owner)).await.unwrap();
    replicas.hold_back_all();
    let again = soon(reentrant.acquire().by(&owner)).await.unwrap();
    assert_eq!(again.token(), held.token());
}

async fn nothing_is_held(operator: &mut Operator) -> bool {
    for key in operator.keys("*").await.iter().filter(|key| !key.contains(":clients:")) {
        let of_one =
            key.ends_with(":one") && operator.say::<String>(&format!("GET {key}")).await.contains(' ');
        if of_one || key.ends_with(":node") {
            return false;
        }
    }
    true
}

/// At once: the writer and the reader wait for each other.
async fn all(client: &Coordinator) -> [(&'static str, Result<(), Error>); 8] {
    let (mutex, other) = (client.mutex("mutex").unwrap(), client.mutex("other").unwrap());
    let (reentrant, rwlock) = (client.mutex("owner").unwrap(), client.rwlock("rwlock").unwrap());
    let (semaphore, election) = (client.semaphore("permits", 2).unwrap(), client.election("leader").unwrap());
    let members: [MultiMember; 2] =
        [client.mutex("one").unwrap().into(), MultiMember::write(&client.rwlock("two").unwrap())];
    let (multi, owner) = (MultiLock::new(members).unwrap(), Owner::new("an owner"));
    let tried = async { other.try_acquire().await.map(|hold| hold.expect("the lock is free")) };
    let answers = tokio::join!(
        given_back("mutex", mutex.acquire()),
        given_back("a try", tried),
        given_back("an owner", reentrant.acquire().by(&owner)),
        given_back("a reader", rwlock.read()),
        given_back("a writer", rwlock.write()),
        given_back("permits", semaphore.acquire(2)),
        given_back("a leader", election.campaign(b"me")),
        given_back("several", multi.acquire()),
    );
    answers.into()
}

async fn given_back<T>(
    what: &'static str,
    acquiring: impl Future<Output = Result<T, Error>>,
) -> (&'static str, Result<(), Error>) {
    (what, acquiring.await.map(drop))
}
