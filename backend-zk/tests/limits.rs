//! Stored data that are no limit: errors show them, and they stay until a limit is set.

use crate::common::{address, admitted, backend, config, join, server, soon, still_waits, stranger, waiting};
use latchwork_conformance::limits::{StoredLimit, bad_limits_are_reported_and_stay, shows_bad_limit};
use latchwork_core::Kind;
use latchwork_core::contracts::{Join, Limit};
use latchwork_core::decide::Claim;
use zookeeper_client::Client;

struct Data {
    stranger: Client,
    path: String,
}

impl StoredLimit for Data {
    async fn write(&mut self, text: &str) {
        self.stranger.set_data(&self.path, text.as_bytes(), None).await.unwrap();
    }

    async fn read(&mut self) -> String {
        String::from_utf8(self.stranger.get_data(&self.path).await.unwrap().0).unwrap()
    }
}

#[tokio::test]
async fn data_that_are_no_limit_are_a_conflict_that_shows_them_and_stay_until_one_is_set() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::Semaphore, "a");
    let (client, stranger) = (backend(&config).await, stranger(addr).await);
    let path = format!("/{}/limits/a", config.namespace);
    client.set_limit(&queue, 1).await.unwrap();
    bad_limits_are_reported_and_stay(&*client, &queue, &mut Data { stranger, path }).await;
}

#[tokio::test]
async fn a_waiter_learns_it_and_a_holder_goes_on() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::Semaphore, "a");
    let (client, stranger) = (backend(&config).await, stranger(addr).await);
    let asked = || Join { limit: Limit::Exactly(1), ..join(&queue, Claim::Permits(1)) };
    let held = admitted(client.join(&asked()).await);
    let waiter = waiting(client.join(&asked()).await);
    assert!(still_waits(&client, &queue, waiter.admitted()).await);
    let path = format!("/{}/limits/a", config.namespace);
    stranger.set_data(&path, b"nan", None).await.unwrap();
    shows_bad_limit(&soon(waiter.admitted()).await.unwrap_err(), "nan");
    assert_eq!(held.state().lost(), None);
    waiter.leave().await.unwrap();
    held.leave().await.unwrap();
}
