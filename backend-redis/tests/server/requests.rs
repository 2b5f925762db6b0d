use futures_util::future::join_all;
use latchwork_conformance::actions::in_turn;
use latchwork_core::backend::Close;
use latchwork_core::{Claim, Kind};

use crate::common::{ALL, LONG, SHORT, admitted, ask, client, outlive, queue, served, soon, waiting};

#[tokio::test]
async fn an_uncontended_join_is_one_script_and_a_leave_one_more() {
    let (_server, mut operator, client) = served("1h").await;
    let join = ask(&queue(Kind::Mutex, "a"), Claim::Exclusive);
    let [by_hash, by_text] = operator.script_calls().await;
    admitted(&client, &join).await.leave().await.unwrap();
    assert_eq!(operator.script_calls().await, [by_hash + 2, by_text]);
    // Without contention a script reads the time and one key, and writes that key.
    let commands = ["time", "get", "set", "pexpire", "hset", "zadd"];
    let mut calls = Vec::new();
    for command in commands {
        calls.push(operator.calls(command).await);
    }
    let join = ask(&join.queue, Claim::Exclusive);
    admitted(&client, &join).await.leave().await.unwrap();
    for (command, (before, more)) in commands.into_iter().zip(calls.into_iter().zip([2, 2, 2, 0, 0, 0])) {
        assert_eq!(operator.calls(command).await - before, more, "{command}");
    }
}

#[tokio::test]
async fn many_readers_are_notified_by_one_message_a_script() {
    let (server, mut operator, writer) = served("1h").await;
    let readers = client(&server, "1h").await;
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&writer, &ask(&queue, Claim::Exclusive)).await;
    let nodes = in_turn((0..600).map(async |_| waiting(&readers, &ask(&queue, Claim::Shared)).await)).await;
    let before = operator.calls("publish").await;
    held.leave().await.unwrap();
    for node in &nodes {
        soon(node.admitted()).await.unwrap();
    }
    // 256 nodes in each script, and one message, because all are of one client.
    assert_eq!(operator.calls("publish").await - before, 3);
    assert!(readers.list(&queue, ALL).await.unwrap().iter().all(|entry| entry.admitted));
    readers.close(Close::Orderly).await.unwrap();
    assert_eq!(writer.list(&queue, ALL).await.unwrap().len(), 0);
}

#[tokio::test]
async fn many_waiters_for_a_node_of_a_shorter_ttl_recheck_together() {
    let (server, mut operator, writer) = served(SHORT).await;
    let readers = client(&server, LONG).await;
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&writer, &ask(&queue, Claim::Exclusive)).await;
    let joins: Vec<_> = (0..300).map(|_| ask(&queue, Claim::Shared)).collect();
    let nodes = join_all(joins.iter().map(|join| waiting(&readers, join))).await;
    let before = operator.calls("evalsha").await;
    let lease = writer.lease();
    let looking = join_all(nodes.iter().map(|node| node.admitted()));
    tokio::select! {
        _ = looking => panic!("admitted although the writer holds"),
        () = outlive(&lease, 3.0) => {}
    }
    let calls = operator.calls("evalsha").await - before;
    assert!(calls < 300, "{calls} requests");
    held.leave().await.unwrap();
    soon(join_all(nodes.iter().map(|node| node.admitted()))).await.into_iter().for_each(Result::unwrap);
}
