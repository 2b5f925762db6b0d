//! A server removes by path, some time after its decision (CELL-IDLE).

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_conformance::cell_actions::{lasting, written};
use latchwork_conformance::servers::{Options, Server};
use latchwork_core::{CellLife, Expected, Kind, TimeToIdle};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::common::{PATIENCE, address, backend, config, started, stranger};
use crate::larger::idle_cells::ROUNDS;

const ACLS: Acls<'static> = Acls::anyone_all();

/// They end together. The server removes one in 6 ms, so the last waits for most of a second.
const CELLS: usize = 150;
const TRIES: usize = 8;

static SHARED: OnceCell<Server> = OnceCell::const_new();

async fn server() -> &'static Server {
    SHARED.get_or_init(async || started(Options::new().own().args(ROUNDS)).await).await
}

/// Then the server has decided to remove them all.
async fn one_is_gone(client: &Client, directory: &str, names: &[String]) {
    let gone = async { while there(client, directory, names).await == names.len() {} };
    timeout(PATIENCE, gone).await.expect("the server removes the idle cell");
}

/// The server makes the removals of a round one by one, and this container's in a later round.
async fn decided_removals_are_over(client: &Client, name: &str) {
    let (path, child) = (format!("/{name}"), format!("/{name}/used"));
    client.create(&path, b"", &CreateMode::Container.with_acls(ACLS)).await.unwrap();
    client.create(&child, b"", &CreateMode::Persistent.with_acls(ACLS)).await.unwrap();
    client.delete(&child, None).await.unwrap();
    one_is_gone(client, "/", &[name.to_owned()]).await;
}

async fn there(client: &Client, directory: &str, names: &[String]) -> usize {
    let found: HashSet<_> = client.list_children(directory).await.unwrap().into_iter().collect();
    names.iter().filter(|name| found.contains(*name)).count()
}

/// The control. The test repeats until the race occurs.
#[tokio::test]
async fn a_plain_node_is_removed_in_the_place_of_a_container() {
    let server = server().await;
    let client = stranger(server.addr()).await;
    let mut replaced = 0;
    for round in 0..TRIES {
        let (made, left) = replaced_and_left(&client, round).await;
        if left < made {
            return;
        }
        replaced += made;
    }
    panic!(
        "the server removed none of {replaced} plain nodes: at 0 no node was replaced, otherwise the server checks first"
    );
}

async fn replaced_and_left(client: &Client, round: usize) -> (usize, usize) {
    let (container, plain) = (CreateMode::Container.with_acls(ACLS), CreateMode::Persistent.with_acls(ACLS));
    let used = CreateMode::Persistent.with_acls(ACLS).with_ttl(Duration::from_millis(800));
    let names: Vec<_> = (0..CELLS).map(|number| format!("raw-{round}-{number}")).collect();
    join_all(names.iter().map(|name| {
        let mut made = client.new_multi_writer();
        made.add_create(&format!("/{name}"), b"", &container).unwrap();
        made.add_create(&format!("/{name}/used"), b"", &used).unwrap();
        async move {
            made.commit().await.unwrap();
        }
    }))
    .await;
    one_is_gone(client, "/", &names).await;
    let replaced = join_all(names.iter().map(|name| {
        let (path, mut anew) = (format!("/{name}"), client.new_multi_writer());
        anew.add_delete(&path, None).unwrap();
        anew.add_create(&path, b"stays", &plain).unwrap();
        async move { anew.commit().await.is_ok() }
    }))
    .await;
    let replaced: Vec<_> =
        names.iter().zip(replaced).filter(|(_, made)| *made).map(|(name, _)| name.clone()).collect();
    decided_removals_are_over(client, &format!("marker-{round}")).await;
    (replaced.len(), there(client, "/", &replaced).await)
}

#[tokio::test]
async fn a_cell_that_is_written_as_an_idle_one_ends_is_not_removed_in_its_place() {
    let server = server().await;
    let (client, config) = (stranger(server.addr()).await, config(server.addr()));
    let backend = backend(&config).await;
    let idle = CellLife::Idle(TimeToIdle::new(Duration::from_secs(8)).unwrap());
    let names: Vec<_> = (0..CELLS).map(|number| number.to_string()).collect();
    let cells: Vec<_> = names.iter().map(|name| address(&config, Kind::Value, name.as_str())).collect();
    let write_all = async |lives: [CellLife; 3]| {
        let writes = cells.iter().enumerate().map(|(number, cell)| {
            let (backend, write) = (&backend, lasting(Expected::Any, "here", lives[number % 3]));
            async move { written(backend.write_cell(cell, &write).await) }
        });
        join_all(writes).await;
    };
    write_all([idle; 3]).await;
    let directory = format!("/{}/value", config.namespace);
    assert_eq!(there(&client, &directory, &names).await, CELLS);
    one_is_gone(&client, &directory, &names).await;
    let long = CellLife::Idle(TimeToIdle::new(Duration::from_secs(60)).unwrap());
    write_all([CellLife::Stays, CellLife::Lease, long]).await;
    decided_removals_are_over(&client, "marker").await;
    assert_eq!(there(&client, &directory, &names).await, CELLS);
    for cell in &cells {
        assert!(backend.read_cell(cell).await.unwrap().is_some(), "{cell}");
    }
}
