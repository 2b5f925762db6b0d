//! Cells on three servers: a follower that lags shows no old value, and versions are those of all.

mod common;

use std::sync::Arc;

use common::{address, backend, config, soon};
use futures_util::future::join_all;
use latchwork_conformance::servers::Ensemble;
use latchwork_core::Kind;
use latchwork_core::contracts::{Backend, CellLife, CellWrite, CellWritten, Expected};

/// A follower answers reads by itself, and hears of a write some time after it was confirmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_at_any_server_shows_what_was_confirmed_at_another_and_each_success_counts_once() {
    let ensemble = Ensemble::zookeeper(3).await.unwrap();
    let config = config(&ensemble.addr(0));
    let mut clients: Vec<Arc<dyn Backend>> = Vec::new();
    for server in 0..3 {
        let mut config = config.clone();
        config.hosts = vec![ensemble.addr(server)];
        clients.push(backend(&config).await);
    }
    let at = address(&config, Kind::Counter, "a");
    let write = |expected, number: u32| CellWrite {
        expected,
        value: Some(number.to_be_bytes().into()),
        life: CellLife::Stays,
    };
    for number in 0..300_u32 {
        let writer = &clients[number as usize % 3];
        let written = writer.write_cell(&at, &write(Expected::Any, number)).await.unwrap();
        for reader in &clients {
            let found = reader.read_cell(&at).await.unwrap().expect("it was confirmed");
            assert_eq!(*found.value, number.to_be_bytes());
            assert!(matches!(written, CellWritten::Written(version) if version == found.version));
        }
    }

    let count = async |client: &Arc<dyn Backend>| {
        for _ in 0..50 {
            loop {
                let found = client.read_cell(&at).await.unwrap().expect("nobody deletes it");
                let now = u32::from_be_bytes((*found.value).try_into().unwrap());
                let next = write(Expected::Version(found.version), now + 1);
                if let CellWritten::Written(_) = client.write_cell(&at, &next).await.unwrap() {
                    break;
                }
            }
        }
    };
    soon(join_all(clients.iter().map(count))).await;
    let found = clients[0].read_cell(&at).await.unwrap().unwrap();
    assert_eq!(*found.value, (299 + 150_u32).to_be_bytes());

    // News at one server of a write at another.
    let mut watch = clients[1].watch_cell(&at);
    soon(watch.changed()).await.unwrap();
    for number in 0..50_u32 {
        clients[0].write_cell(&at, &write(Expected::Any, number)).await.unwrap();
        soon(watch.changed()).await.unwrap();
        let found = clients[1].read_cell(&at).await.unwrap().unwrap();
        assert_eq!(*found.value, number.to_be_bytes());
    }
}
