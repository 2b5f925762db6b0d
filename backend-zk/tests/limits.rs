use std::sync::Arc;

use crate::common::{address, place};
use latchwork_conformance::limits::{
    StoredLimit, a_bad_limit_ends_a_wait_and_no_hold, bad_limits_are_reported_and_stay,
};
use latchwork_core::backend::{Backend, ExpectedLimit};
use latchwork_core::{Address, Kind};
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

async fn semaphore() -> (Arc<dyn Backend>, Address, Data) {
    let (config, client, stranger) = place().await;
    let path = format!("/{}/limits/a", config.namespace);
    (client, address(&config, Kind::Semaphore, "a"), Data { stranger, path })
}

#[tokio::test]
async fn bad_limit_data_is_a_conflict_until_its_replacement() {
    let (client, queue, mut data) = semaphore().await;
    client.set_limit(&queue, ExpectedLimit::Any, 1).await.unwrap();
    bad_limits_are_reported_and_stay(&*client, &queue, &mut data).await;
}

#[tokio::test]
async fn a_waiter_learns_it_and_a_holder_goes_on() {
    let (client, queue, mut data) = semaphore().await;
    a_bad_limit_ends_a_wait_and_no_hold(&*client, &queue, &mut data).await;
}
