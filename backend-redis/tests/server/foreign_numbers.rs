//! Numbers of other programs in the keys of a queue.

use futures_util::FutureExt;
use latchwork_core::backend::{Join, Joined, NodeId, Patience};
use latchwork_core::{Claim, ErrorKind, Kind};

use crate::common::{ALL, KINDS, LONG, Operator, admitted, ask, client, limit, own, queue, soon, waiting};

#[tokio::test]
async fn a_number_out_of_range_is_refused_by_its_key_before_anything_is_written() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    let id = NodeId::random();
    let held = |number: &str| format!("{number} {id} {number} 1000000 x 1 a@b label");
    for kind in [Kind::Mutex, Kind::RwLock] {
        let key = format!("latchwork:{}:{{a}}:one", kind.as_str());
        let queue = queue(kind, "a");
        for text in [
            "9999999999999999999999".to_owned(),
            "9007199254740992".to_owned(),
            // The highest number: no next one can be counted from it.
            "9007199254740991".to_owned(),
            held("9007199254740992"),
            held("99999999999999999999999999"),
        ] {
            let mut set = redis::Cmd::new();
            set.arg("SET").arg(&key).arg(&text);
            operator.run(&set).await;
            for patience in [Patience::Wait, Patience::Try] {
                let join = Join { patience, ..ask(&queue, Claim::Exclusive) };
                let error = client.join(&join).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misconfigured, "{text}: {error}");
                assert!(error.to_string().contains(&key), "{error}");
            }
            let keys: Vec<String> = operator.say(&format!("KEYS latchwork:{}:*", kind.as_str())).await;
            assert_eq!(keys, [key.as_str()], "{text}: something was written");
            assert_eq!(operator.say::<String>(&format!("GET {key}")).await, text);
            assert_eq!(client.list(&queue, ALL).await.unwrap().len(), 0, "{text}");
            assert!(!client.revoke(&queue, 1).await.unwrap());
            assert_eq!(
                operator.say::<String>(&format!("GET {key}")).await,
                text,
                "it must stay for its owner"
            );
            let _: u32 = operator.say(&format!("DEL {key} latchwork:{}:{{a}}:meta", kind.as_str())).await;
        }
        // Without the key, all is well again.
        admitted(&client, &ask(&queue, Claim::Exclusive)).await.leave().await.unwrap();
    }
}

#[tokio::test]
async fn a_last_number_out_of_range_is_refused_and_what_stands_is_listed_and_revoked() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    for (kind, claim) in KINDS {
        let (queue, meta) = (queue(kind, "b"), format!("latchwork:{}:{{b}}:meta", kind.as_str()));
        let join = || Join { limit: limit(kind), ..ask(&queue, claim) };
        let held = admitted(&client, &join()).await;
        let next = waiting(&client, &join()).await;
        for number in ["9007199254740992", "1e300", "-1", "inf", "nan", "0.5", "x"] {
            let _: u32 = operator.say(&format!("HSET {meta} last {number}")).await;
            let error = client.join(&join()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{number}: {error}");
            assert!(error.to_string().contains(&meta), "{error}");
            let listed = client.list(&queue, ALL).await.unwrap();
            let standing: Vec<_> = listed.iter().map(|entry| (entry.sequence, entry.admitted)).collect();
            assert_eq!(standing, [(held.state().sequence(), true), (next.state().sequence(), false)]);
            // The nodes give the last number again.
            soon(waiting(&client, &join())).await.leave().await.unwrap();
        }
        assert!(client.revoke(&queue, held.state().sequence()).await.unwrap());
        soon(next.admitted()).await.unwrap();
        next.leave().await.unwrap();
    }
}

#[tokio::test]
async fn a_foreign_node_with_a_number_out_of_range_is_none() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    for (kind, claim) in KINDS {
        for score in ["9007199254740992", "1e300", "-7", "0.5", "inf"] {
            let (queue, key) = (queue(kind, "c"), format!("latchwork:{}:{{c}}", kind.as_str()));
            let join = || Join { limit: limit(kind), ..ask(&queue, claim) };
            let held = admitted(&client, &join()).await;
            let next = waiting(&client, &join()).await;
            let _: u32 = operator.say(&format!("ZADD {key}:seq {score} foreign")).await;
            let _: u32 = operator.say(&format!("ZADD {key}:exp 9e15 foreign")).await;
            let mut data = redis::Cmd::new();
            let letter = if kind == Kind::Semaphore { "p" } else { "x" };
            data.arg("HSET").arg(format!("{key}:node")).arg("foreign");
            data.arg(format!("{letter} 1 60000000 1 0@nobody foreign"));
            operator.run(&data).await;
            let sound = |entries: Vec<latchwork_core::backend::QueueEntry>| {
                entries.into_iter().filter(|entry| entry.label == "test").count()
            };
            assert_eq!(sound(client.list(&queue, ALL).await.unwrap()), 2, "{kind:?} {score}");
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
