//! Stored data that are no limit: errors show them, and they stay until a limit is set.

use crate::common::{address, backend, config, server, stranger};
use latchwork_conformance::limits::{
    StoredLimit, a_bad_limit_ends_a_wait_and_no_hold, bad_limits_are_reported_and_stay,
};
use latchwork_core::Kind;
use latchwork_core::backend::ExpectedLimit;
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
    client.set_limit(&queue, ExpectedLimit::Any, 1).await.unwrap();
    bad_limits_are_reported_and_stay(&*client, &queue, &mut Data { stranger, path }).await;
}

#[tokio::test]
async fn a_waiter_learns_it_and_a_holder_goes_on() {
    let addr = server().await.addr();
    let config = config(addr);
    let (client, stranger) = (backend(&config).await, stranger(addr).await);
    let path = format!("/{}/limits/a", config.namespace);
    let queue = address(&config, Kind::Semaphore, "a");
    a_bad_limit_ends_a_wait_and_no_hold(&*client, &queue, &mut Data { stranger, path }).await;
}
