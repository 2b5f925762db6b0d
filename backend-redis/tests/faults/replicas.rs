use std::time::Instant;

use latchwork_conformance::cases::is_long;
use latchwork_core::{Coordinator, Ended, LostReason};

use crate::common::coordinators::user;
use crate::common::{outlive, soon};
use crate::replication::replicas::Replicas;
use crate::replication::{NOISE, PATIENT, SOON, is_unconfirmed};

#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    lost: usize,
    kept: usize,
}

impl Figures {
    async fn look(&mut self, promoted: &Coordinator, key: &str) {
        match soon(promoted.mutex(key).unwrap().try_acquire()).await.unwrap() {
            Some(_) => self.lost += 1,
            None => self.kept += 1,
        }
    }
}

/// The plain lock is the control.
#[tokio::test]
async fn a_confirmed_lock_outlives_a_failover_to_its_replica_and_a_plain_one_does_not() {
    let rounds = if is_long() { 50 } else { 5 };
    let replicas = Replicas::start().await;
    let (mut plain, mut confirmed, mut refused) = (Figures::default(), Figures::default(), 0);
    let mut waited = Vec::new();
    for round in 0..rounds {
        let client = user(&replicas.url(PATIENT)).await;
        let mutex = |key: &str| client.mutex(key).unwrap();
        replicas.hold_back_all();
        is_unconfirmed(&mutex("refused").acquire().min_replicas(1).within(SOON).await.unwrap_err(), 0, 1);
        refused += 1;
        replicas.let_through(0);
        replicas.caught_up(1).await;
        let begun = Instant::now();
        let kept = soon(mutex("confirmed").acquire().min_replicas(1)).await.unwrap();
        waited.push(begun.elapsed());
        replicas.hold_back(0);
        let lost = soon(mutex("plain").acquire()).await.unwrap();
        assert!(kept.is_held() && lost.is_held(), "round {round}");
        replicas.fail_over_to(0).await;
        let promoted = user(&replicas.url_of(0, PATIENT)).await;
        plain.look(&promoted, "plain").await;
        confirmed.look(&promoted, "confirmed").await;
        assert!(
            soon(promoted.mutex("refused").unwrap().try_acquire()).await.unwrap().is_some(),
            "the lock is held"
        );
        drop((kept, lost));
        promoted.close_now().await.unwrap();
        latchwork_core::crash(&client).await;
        replicas.begin_again().await;
    }
    waited.sort();
    println!(
        "{rounds} failovers: plain locks {plain:?}; confirmed locks {confirmed:?} (acquired in {:?}, at most {:?}); \
         refused while held back: {refused}",
        waited[waited.len() / 2],
        waited.last()
    );
    assert_eq!(plain, Figures { lost: rounds, kept: 0 }, "the control: nothing has reached the replica");
    assert_eq!(confirmed, Figures { lost: 0, kept: rounds });
}

/// `WAIT` is not a consensus: the promoted replica must be one that confirmed.
#[tokio::test]
async fn a_confirmed_lock_is_lost_in_a_failover_to_a_replica_that_did_not_confirm() {
    let replicas = Replicas::start().await;
    let client = user(&replicas.url(PATIENT)).await;
    replicas.hold_back(1);
    let mutex = client.mutex("a").unwrap();
    is_unconfirmed(&mutex.acquire().min_replicas(2).within(2 * NOISE).await.unwrap_err(), 1, 2);
    let hold = soon(mutex.acquire().min_replicas(1)).await.unwrap();
    replicas.fail_over_to(1).await;
    let promoted = user(&replicas.url_of(1, PATIENT)).await;
    let other = soon(promoted.mutex("a").unwrap().try_acquire()).await.unwrap();
    assert!(other.is_some() && hold.is_held(), "two clients hold: only the token protects the resource");
}

#[tokio::test]
async fn a_confirmed_hold_goes_on_where_its_replica_takes_the_address_of_the_primary() {
    let replicas = Replicas::start().await;
    let client = user(&replicas.url("ttl=6s")).await;
    replicas.hold_back(1);
    let kept = soon(client.mutex("confirmed").unwrap().acquire().min_replicas(1)).await.unwrap();
    replicas.hold_back(0);
    let lost = soon(client.mutex("plain").unwrap().acquire()).await.unwrap();
    replicas.fail_over_in_place_to(0).await;
    assert_eq!(soon(lost.lost()).await, Ended::Lost(LostReason::Forgotten));
    outlive(&client.lease(), 1.5).await;
    assert!(kept.is_held(), "the node was renewed on the replica");
    kept.release().await.unwrap();
    client.close().await.unwrap();
}
