//! What is stored as a limit and is none: told as what it is, and left alone until a limit is set.

mod common;

use common::{address, admitted, backend, config, join, server, soon, still_waits, stranger, waiting};
use latchwork_conformance::limits::{Place, is_told, what_is_none_is_told_and_stays};
use latchwork_core::Kind;
use latchwork_core::contracts::{AskedLimit, Join};
use latchwork_core::decide::Claim;
use zookeeper_client::Client;

struct Data {
    stranger: Client,
    path: String,
}

impl Place for Data {
    async fn write(&mut self, text: &str) {
        self.stranger.set_data(&self.path, text.as_bytes(), None).await.unwrap();
    }

    async fn read(&mut self) -> String {
        String::from_utf8(self.stranger.get_data(&self.path).await.unwrap().0).unwrap()
    }
}

#[tokio::test]
async fn what_is_no_limit_is_a_conflict_that_shows_it_and_stays_until_one_is_set() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::Semaphore, "a");
    let (client, stranger) = (backend(&config).await, stranger(addr).await);
    let path = format!("/{}/limits/a", config.namespace);
    client.set_limit(&queue, 1).await.unwrap();
    what_is_none_is_told_and_stays(&*client, &queue, &mut Data { stranger, path }).await;
}

#[tokio::test]
async fn who_waits_is_told_of_it_and_who_holds_goes_on() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::Semaphore, "a");
    let (client, stranger) = (backend(&config).await, stranger(addr).await);
    let asked = || Join { limit: AskedLimit::Exactly(1), ..join(&queue, Claim::Permits(1)) };
    let held = admitted(client.join(&asked()).await);
    let waiter = waiting(client.join(&asked()).await);
    assert!(still_waits(&client, &queue, waiter.admitted()).await);
    let path = format!("/{}/limits/a", config.namespace);
    stranger.set_data(&path, b"nan", None).await.unwrap();
    is_told(&soon(waiter.admitted()).await.unwrap_err(), "nan");
    assert_eq!(held.state().lost(), None);
    waiter.leave().await.unwrap();
    held.leave().await.unwrap();
}
