use std::sync::Arc;

use crate::common::{ALL, address, admitted, backend, beside_others, config, soon};
use crate::observed::with_data;
use futures_util::future::join_all;
use latchwork_conformance::cell_actions::put;
use latchwork_conformance::servers::Ensemble;
use latchwork_core::Claim::Shared;
use latchwork_core::backend::{Backend, CellWritten};
use latchwork_core::{Address, Config, Expected, Kind};

async fn one_at_each(ensemble: &Ensemble) -> (Config, Vec<Arc<dyn Backend>>) {
    let config = config(&ensemble.addr(0));
    let mut clients = Vec::new();
    for server in 0..3 {
        let mut config = config.clone();
        config.hosts = vec![ensemble.addr(server)];
        clients.push(backend(&config).await);
    }
    (config, clients)
}

/// A follower answers reads itself, and gets a write later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_server_shows_confirmed_writes_and_counts_each_once() {
    let _beside = beside_others().await;
    let ensemble = super::well().await;
    let (config, clients) = one_at_each(&ensemble).await;
    let at = address(&config, Kind::Counter, "a");
    let write = |expected, number: u32| put(expected, number.to_be_bytes());
    for number in 0..300_u32 {
        let writer = &clients[number as usize % 3];
        let written = writer.write_cell(&at, &write(Expected::Any, number)).await.unwrap();
        for reader in &clients {
            let found = reader.read_cell(&at).await.unwrap().expect("the write was confirmed");
            assert_eq!(*found.value, number.to_be_bytes());
            assert!(matches!(written, CellWritten::Written(version) if version == found.version));
        }
    }

    let count = async |client: &Arc<dyn Backend>| {
        for _ in 0..50 {
            loop {
                let found = client.read_cell(&at).await.unwrap().expect("no client deletes the cell");
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

    let mut watch = clients[1].watch_cell(&at);
    soon(watch.changed()).await.unwrap();
    for number in 0..50_u32 {
        clients[0].write_cell(&at, &write(Expected::Any, number)).await.unwrap();
        soon(watch.changed()).await.unwrap();
        let found = clients[1].read_cell(&at).await.unwrap().unwrap();
        assert_eq!(*found.value, number.to_be_bytes());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listing_at_any_server_shows_changes_confirmed_at_another() {
    let _beside = beside_others().await;
    let ensemble = super::well().await;
    let (config, clients) = one_at_each(&ensemble).await;
    let queue = address(&config, Kind::Group, "a");
    let data = async |client: &Arc<dyn Backend>, queue: &Address| {
        let listed = client.list(queue, ALL).await.unwrap();
        listed.iter().map(|entry| entry.data.to_vec()).collect::<Vec<_>>()
    };
    for number in 0..50_u8 {
        let owner = &clients[usize::from(number) % 3];
        let mut watch = clients[usize::from(number + 1) % 3].watch_queue(&queue);
        soon(watch.changed()).await.unwrap();
        let joined = owner.join(&with_data(&queue, Shared, &[number])).await;
        let node = admitted(joined);
        for reader in &clients {
            assert_eq!(data(reader, &queue).await, [[number]]);
        }
        soon(watch.changed()).await.unwrap();
        node.write_data(&[100 + number][..].into()).await.unwrap();
        for reader in &clients {
            assert_eq!(data(reader, &queue).await, [[100 + number]]);
        }
        soon(watch.changed()).await.unwrap();
        node.leave().await.unwrap();
        for reader in &clients {
            assert!(data(reader, &queue).await.is_empty());
        }
    }
}
