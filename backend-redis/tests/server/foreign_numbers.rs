use futures_util::FutureExt;
use latchwork_conformance::errors::fails;
use latchwork_core::backend::{Join, Joined, NodeId, Patience};
use latchwork_core::{Claim, ErrorKind, Kind};

use crate::common::{ALL, KINDS, LONG, admitted, ask, limit, queue, served, soon, waiting};

#[tokio::test]
async fn a_number_out_of_range_is_refused_by_its_key_before_anything_is_written() {
    let (_server, mut operator, client) = served(LONG).await;
    let id = NodeId::random();
    let held = |number: &str| format!("{number} {id} {number} 1000000 x 1 a@b label");
    for kind in [Kind::Mutex, Kind::RwLock] {
        let key = format!("latchwork:{}:{{a}}:one", kind.as_str());
        let queue = queue(kind, "a");
        for text in [
            "9999999999999999999999".to_owned(),
            "9007199254740992".to_owned(),
            // It has no next number.
            "9007199254740991".to_owned(),
            held("9007199254740992"),
            held("99999999999999999999999999"),
        ] {
            operator.run(redis::cmd("SET").arg(&key).arg(&text)).await;
            for patience in [Patience::Wait, Patience::Try] {
                let join = Join { patience, ..ask(&queue, Claim::Exclusive) };
                let error = fails(client.join(&join).await, ErrorKind::Misconfigured, &text);
                assert!(error.to_string().contains(&key), "{error}");
            }
            let keys = operator.keys(&format!("latchwork:{}:*", kind.as_str())).await;
            assert_eq!(keys, [key.as_str()], "{text}: something was written");
            assert_eq!(client.list(&queue, ALL).await.unwrap().len(), 0, "{text}");
            assert!(!client.revoke(&queue, 1).await.unwrap());
            let stays: String = operator.say(&format!("GET {key}")).await;
            assert_eq!(stays, text, "the foreign key must stay for its owner");
            operator.tell(&format!("DEL {key} latchwork:{}:{{a}}:meta", kind.as_str())).await;
        }
        admitted(&client, &ask(&queue, Claim::Exclusive)).await.leave().await.unwrap();
    }
}

#[tokio::test]
async fn bad_last_number_refuses_joins_but_allows_listing_and_revoke() {
    let (_server, mut operator, client) = served(LONG).await;
    for (kind, claim) in KINDS {
        let (queue, meta) = (queue(kind, "b"), format!("latchwork:{}:{{b}}:meta", kind.as_str()));
        let join = || Join { limit: limit(kind), ..ask(&queue, claim) };
        let held = admitted(&client, &join()).await;
        let next = waiting(&client, &join()).await;
        for number in ["9007199254740992", "1e300", "-1", "inf", "nan", "0.5", "x"] {
            operator.tell(&format!("HSET {meta} last {number}")).await;
            let error = fails(client.join(&join()).await, ErrorKind::Misconfigured, number);
            assert!(error.to_string().contains(&meta), "{error}");
            let listed = client.list(&queue, ALL).await.unwrap();
            let standing: Vec<_> = listed.iter().map(|entry| (entry.sequence, entry.admitted)).collect();
            assert_eq!(standing, [(held.state().sequence(), true), (next.state().sequence(), false)]);
            soon(waiting(&client, &join())).await.leave().await.unwrap();
        }
        assert!(client.revoke(&queue, held.state().sequence()).await.unwrap());
        soon(next.admitted()).await.unwrap();
        next.leave().await.unwrap();
    }
}

#[tokio::test]
async fn foreign_node_with_a_bad_number_blocks_no_waiter() {
    let (_server, mut operator, client) = served(LONG).await;
    for (kind, claim) in KINDS {
        for score in ["9007199254740992", "1e300", "-7", "0.5", "inf"] {
            let (queue, key) = (queue(kind, "c"), format!("latchwork:{}:{{c}}", kind.as_str()));
            let join = || Join { limit: limit(kind), ..ask(&queue, claim) };
            let held = admitted(&client, &join()).await;
            let next = waiting(&client, &join()).await;
            operator.tell(&format!("ZADD {key}:seq {score} foreign")).await;
            operator.tell(&format!("ZADD {key}:exp 9e15 foreign")).await;
            let letter = if kind == Kind::Semaphore { "p" } else { "x" };
            let data = format!("{letter} 1 60000000 1 0@nobody foreign");
            operator.run(redis::cmd("HSET").arg(format!("{key}:node")).arg("foreign").arg(data)).await;
            let listed = client.list(&queue, ALL).await.unwrap();
            let sound = listed.iter().filter(|entry| entry.label == "test").count();
            assert_eq!(sound, 2, "{kind:?} {score}");
            assert!(client.revoke(&queue, held.state().sequence()).await.unwrap());
            soon(next.admitted()).await.unwrap();
            let last = waiting(&client, &join()).await;
            assert!(last.admitted().now_or_never().is_none(), "{kind:?} {score}: two hold");
            next.leave().await.unwrap();
            soon(last.admitted()).await.unwrap();
            assert!(last.state().sequence() > next.state().sequence());
            last.leave().await.unwrap();
            let tries = Join { patience: Patience::Try, ..join() };
            let Ok(Joined::Admitted(again)) = client.join(&tries).await else { panic!("{kind:?} {score}") };
            again.leave().await.unwrap();
        }
    }
}
