use latchwork_conformance::errors::fails;
use latchwork_core::backend::Join;
use latchwork_core::{Claim, ErrorKind, Kind, LostReason};

use crate::common::{ALL, LONG, admitted, ask, expire, limit, queue, served, waiting};

#[tokio::test]
async fn a_node_without_data_is_what_nodes_were_before_there_was_any() {
    let (_server, mut operator, client) = served(LONG).await;
    let queue = queue(Kind::RwLock, "a");
    let first = admitted(&client, &ask(&queue, Claim::Shared)).await;
    let one: String = operator.say("GET latchwork:rwlock:{a}:one").await;
    assert!(one.ends_with(" test") && !one.contains('\0'), "{one}");
    first.write_data(&b"data".as_slice().into()).await.unwrap();
    first.write_data(&b"".as_slice().into()).await.unwrap();
    assert_eq!(operator.say::<String>("GET latchwork:rwlock:{a}:one").await, one);
    admitted(&client, &ask(&queue, Claim::Shared)).await;
    let nodes: Vec<String> = operator.say("HVALS latchwork:rwlock:{a}:node").await;
    assert!(nodes.iter().all(|node| node.ends_with(" test")), "{nodes:?}");
}

#[tokio::test]
async fn data_of_a_node_that_has_expired_is_refused_and_makes_no_node() {
    let (_server, mut operator, client) = served(LONG).await;
    for kind in [Kind::Mutex, Kind::Group, Kind::Semaphore] {
        let claim = if kind == Kind::Semaphore { Claim::Permits(1) } else { Claim::Exclusive };
        for contended in [false, true] {
            let queue = queue(kind, if contended { "contended" } else { "alone" });
            let join = Join { limit: limit(kind), data: b"first".as_slice().into(), ..ask(&queue, claim) };
            let node = admitted(&client, &join).await;
            if contended {
                waiting(&client, &ask(&queue, claim)).await;
            }
            expire(&mut operator, &queue, &node).await;
            let error = node.write_data(&b"late".as_slice().into()).await.unwrap_err();
            assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{queue:?}: {error}");
            let left: Vec<_> = client.list(&queue, ALL).await.unwrap();
            assert_eq!(left.len(), usize::from(contended), "{queue:?}: {left:?}");
            assert!(left.iter().all(|entry| entry.admitted && entry.data.is_empty()), "{left:?}");
        }
    }
}

#[tokio::test]
async fn full_server_refuses_data_and_keeps_the_previous_data() {
    let (_server, mut operator, client) = served(LONG).await;
    for contended in [false, true] {
        let queue = queue(Kind::Election, if contended { "contended" } else { "alone" });
        let join = Join { data: b"first".as_slice().into(), ..ask(&queue, Claim::Exclusive) };
        let node = admitted(&client, &join).await;
        if contended {
            waiting(&client, &ask(&queue, Claim::Exclusive)).await;
        }
        operator.fill_memory().await;
        let answer = node.write_data(&b"second".as_slice().into()).await;
        fails(answer, ErrorKind::Unavailable, "the memory is full");
        operator.tell("CONFIG SET maxmemory 0").await;
        assert_eq!(*client.list(&queue, ALL).await.unwrap()[0].data, *b"first");
        node.write_data(&b"third".as_slice().into()).await.unwrap();
        assert_eq!(*client.list(&queue, ALL).await.unwrap()[0].data, *b"third");
    }
}
