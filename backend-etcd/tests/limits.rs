//! What is stored as a limit and is none: told as what it is, and left alone until a limit is set.

mod common;

use common::{ask, client, etcdctl, join, keys, server, soon, still_waits, wait};
use latchwork_conformance::limits::{Place, is_told, what_is_none_is_told_and_stays};
use latchwork_conformance::servers::Server;
use latchwork_core::Kind as Lock;
use latchwork_core::contracts::Patience;
use latchwork_core::decide::Claim;

const KEY: &str = "latchwork/limit/semaphore/a";

struct Key<'a>(&'a Server);

impl Place for Key<'_> {
    async fn write(&mut self, text: &str) {
        etcdctl(self.0, &["put", "--", KEY, text]).await;
    }

    async fn read(&mut self) -> String {
        let printed = etcdctl(self.0, &["get", "--print-value-only", KEY]).await;
        printed.strip_suffix('\n').expect("a line").to_owned()
    }
}

#[tokio::test]
async fn what_is_no_limit_is_a_conflict_that_shows_it_and_stays_until_one_is_set() {
    let server = server().await;
    let client = client(&server, "").await;
    let queue = ask(Lock::Semaphore, Claim::Permits(1), None, Patience::Wait).queue;
    what_is_none_is_told_and_stays(&**client.backend(), &queue, &mut Key(&server)).await;
    assert_eq!(keys(&server, "latchwork/semaphore/").await, [""; 0]);
}

#[tokio::test]
async fn who_waits_is_told_of_it_and_who_holds_goes_on() {
    let server = server().await;
    let client = client(&server, "").await;
    let (_, held) = join(&client, Lock::Semaphore, Claim::Permits(1), Some(1)).await;
    let (admitted, waiter) = join(&client, Lock::Semaphore, Claim::Permits(1), Some(1)).await;
    assert!(!admitted);
    let mut waiting = wait(&waiter);
    still_waits(&mut waiting).await;
    etcdctl(&server, &["put", "--", KEY, "nan"]).await;
    is_told(&soon(waiting).await.unwrap().unwrap_err(), "nan");
    assert!(held.state().lost().is_none());
    waiter.leave().await.unwrap();
    held.leave().await.unwrap();
}
