use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use latchwork_conformance::errors::fails;
use latchwork_core::backend::Backend;
use latchwork_core::backend::decide::count::request::{CountOutcome, CountRequest};
use latchwork_core::backend::decide::count::{Change, Count, Operation};
use latchwork_core::{Address, CellLife, ErrorKind, Kind};

use crate::common::cells::write;
use crate::common::{LONG, client, operated, promptly, queue, served};

const CLIENTS: u64 = 16;
const ADDS: u64 = 25;

fn request(writer: u64, number: u64, change: Change) -> CountRequest {
    let operation = Operation { writer, number };
    CountRequest { change, operation, initial: None, since: None, in_doubt: false }
}

async fn change(backend: &Arc<dyn Backend>, cell: &Address, request: CountRequest) -> CountOutcome {
    backend.change_count(cell, &request, None).await.unwrap().expect("this server changes counts").outcome
}

async fn value(backend: &Arc<dyn Backend>, cell: &Address) -> i64 {
    let cell = backend.read_cell(cell).await.unwrap().expect("the count was written");
    std::str::from_utf8(&cell.value).unwrap().parse::<Count>().unwrap().value()
}

/// Compare-and-set would succeed for one client at a time.
#[tokio::test]
async fn adds_of_many_clients_at_once_are_one_request_each() {
    let (server, mut operator) = operated().await;
    let cell = queue(Kind::Counter, "a");
    let mut clients = Vec::new();
    for writer in 0..CLIENTS {
        let client = client(&server, "1h").await;
        // The client loads the script.
        change(&client, &cell, request(writer, 2, Change::Add(0))).await;
        clients.push(client);
    }
    let [by_hash, by_text] = operator.script_calls().await;
    let adding = clients.iter().zip(0..).map(async |(client, writer)| {
        for number in 2..2 + ADDS {
            let added = change(client, &cell, request(writer, 2 * number, Change::Add(1))).await;
            assert!(matches!(added, CountOutcome::Applied(_)), "{added:?}");
        }
    });
    join_all(adding).await;
    assert_eq!(operator.script_calls().await, [by_hash + CLIENTS * ADDS, by_text]);
    assert_eq!(value(&clients[0], &cell).await.cast_unsigned(), CLIENTS * ADDS);
}

#[tokio::test]
async fn count_watch_reports_changes_but_no_repetition_or_refusal() {
    let (server, _operator, backend) = served(LONG).await;
    let other = client(&server, LONG).await;
    let cell = queue(Kind::Counter, "a");
    let mut watch = backend.watch_cell(&cell);
    promptly(watch.changed()).await.unwrap();
    let add = request(1, 2, Change::Add(1));
    for outcome in [CountOutcome::Applied(1), CountOutcome::Applied(1)] {
        assert_eq!(change(&other, &cell, add).await, outcome);
    }
    promptly(watch.changed()).await.unwrap();
    assert_eq!(change(&other, &cell, request(2, 2, Change::Add(i64::MAX))).await, CountOutcome::Refused);
    // A message would have arrived before.
    assert_eq!(value(&backend, &cell).await, 1);
    assert!(watch.changed().now_or_never().is_none(), "the watch reported a change, and nothing was written");
}

#[tokio::test]
async fn a_changed_count_stays_though_it_hung_on_a_lease() {
    let (_server, mut operator, backend) = served(LONG).await;
    let cell = queue(Kind::Counter, "a");
    write(&backend, &cell, "5 1", CellLife::Lease).await;
    assert!(operator.say::<i64>("PTTL latchwork:counter:{a}:cell").await > 0);
    assert_eq!(change(&backend, &cell, request(1, 2, Change::Add(1))).await, CountOutcome::Applied(6));
    assert_eq!(operator.say::<i64>("PTTL latchwork:counter:{a}:cell").await, -1);
}

#[tokio::test]
async fn full_server_refuses_new_change_and_repeats_known_answer() {
    let (_server, mut operator, backend) = served(LONG).await;
    let cell = queue(Kind::Counter, "a");
    let add = request(1, 2, Change::Add(1));
    assert_eq!(change(&backend, &cell, add).await, CountOutcome::Applied(1));
    operator.fill_memory().await;
    let answer = backend.change_count(&cell, &request(1, 4, Change::Add(1)), None).await;
    fails(answer, ErrorKind::Unavailable, "the memory is full");
    assert_eq!(value(&backend, &cell).await, 1);
    assert_eq!(change(&backend, &cell, add).await, CountOutcome::Applied(1), "it writes nothing");
}
