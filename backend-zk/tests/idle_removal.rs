//! What a server removes by its path, some time after it has decided so (CELL-IDLE).

mod common;

use std::time::Duration;

use futures_util::future::join_all;
use latchwork_conformance::servers::{Kind as ServerKind, Options, Server};
use latchwork_core::Kind;
use latchwork_core::contracts::{CellLife, CellWrite, CellWritten, Expected, TimeToIdle};
use tokio::time::{sleep, timeout};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::common::{PATIENCE, address, backend, config, stranger};

const ACLS: Acls<'static> = Acls::anyone_all();

/// So many end at once. The server removes one in 6 ms, so the last waits for most of a second.
const CELLS: usize = 150;
/// How often the control is tried at most.
const ROUNDS: usize = 8;

async fn server() -> Server {
    let args = ["extendedTypesEnabled=true", "-Dznode.container.checkIntervalMs=250"];
    Server::start(ServerKind::Zookeeper, Options::new().own().args(args)).await.unwrap()
}

/// Waits until the server has removed one of these: it has decided to remove them all then.
async fn one_is_gone(client: &Client, paths: &[String]) {
    let gone = async {
        loop {
            for path in paths {
                if client.check_stat(path).await.unwrap().is_none() {
                    return;
                }
            }
        }
    };
    timeout(PATIENCE, gone).await.expect("the server removes what is over");
}

async fn there(client: &Client, paths: &[String]) -> usize {
    let mut there = 0;
    for path in paths {
        there += usize::from(client.check_stat(path).await.unwrap().is_some());
    }
    there
}

/// The control: a plain node that takes the place of a container, as other backends' cells could, is
/// removed with what was decided for the container. Only a race shows it, so it is run until it does.
#[tokio::test]
async fn a_plain_node_is_removed_in_the_place_of_a_container() {
    let server = server().await;
    let client = stranger(server.addr()).await;
    let mut replaced = 0;
    for round in 0..ROUNDS {
        let (made, left) = replaced_and_left(&client, round).await;
        if left < made {
            return;
        }
        replaced += made;
    }
    panic!("of {replaced} none was removed: 0 were there to replace, or the server looks before it removes");
}

/// How many containers were replaced by plain nodes while the server removed containers, and how many
/// of these are left.
async fn replaced_and_left(client: &Client, round: usize) -> (usize, usize) {
    let (container, plain) = (CreateMode::Container.with_acls(ACLS), CreateMode::Persistent.with_acls(ACLS));
    let used = CreateMode::Persistent.with_acls(ACLS).with_ttl(Duration::from_millis(800));
    let paths: Vec<_> = (0..CELLS).map(|number| format!("/raw-{round}-{number}")).collect();
    for path in &paths {
        let mut made = client.new_multi_writer();
        made.add_create(path, b"", &container).unwrap();
        made.add_create(&format!("{path}/used"), b"", &used).unwrap();
        made.commit().await.unwrap();
    }
    one_is_gone(client, &paths).await;
    let replaced = join_all(paths.iter().map(|path| async {
        let mut anew = client.new_multi_writer();
        anew.add_delete(path, None).unwrap();
        anew.add_create(path, b"stays", &plain).unwrap();
        anew.commit().await.is_ok()
    }))
    .await;
    let replaced: Vec<_> =
        paths.iter().zip(replaced).filter(|(_, made)| *made).map(|(path, _)| path.clone()).collect();
    sleep(Duration::from_secs(3)).await;
    (replaced.len(), there(client, &replaced).await)
}

#[tokio::test]
async fn a_cell_that_is_written_as_an_idle_one_ends_is_not_removed_in_its_place() {
    let server = server().await;
    let (client, config) = (stranger(server.addr()).await, config(server.addr()));
    let backend = backend(&config).await;
    let idle = CellLife::Idle(TimeToIdle::new(Duration::from_secs(1)).unwrap());
    let cells: Vec<_> = (0..CELLS).map(|number| address(&config, Kind::Value, number.to_string())).collect();
    let write = |life| CellWrite { expected: Expected::Any, value: Some(b"here"[..].into()), life };
    let write_all = async |lives: [CellLife; 3]| {
        let written = cells.iter().enumerate().map(|(number, cell)| {
            let (backend, write) = (&backend, write(lives[number % 3]));
            async move { backend.write_cell(cell, &write).await }
        });
        for written in join_all(written).await {
            assert!(matches!(written, Ok(CellWritten::Written(_))), "{written:?}");
        }
    };
    write_all([idle; 3]).await;
    let paths: Vec<_> = (0..CELLS).map(|number| format!("/{}/value/{number}", config.namespace)).collect();
    assert_eq!(there(&client, &paths).await, CELLS);
    one_is_gone(&client, &paths).await;
    let long = CellLife::Idle(TimeToIdle::new(Duration::from_secs(60)).unwrap());
    write_all([CellLife::Stays, CellLife::Lease, long]).await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(there(&client, &paths).await, CELLS);
    for cell in &cells {
        assert!(backend.read_cell(cell).await.unwrap().is_some(), "{cell}");
    }
}
