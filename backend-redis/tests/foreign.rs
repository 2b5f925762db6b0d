//! What others have written where our queues are, or sent to our inboxes.

mod common;

use common::{Operator, admitted, ask, client, own, queue, soon, waiting};
use futures_util::FutureExt;
use latchwork_core::contracts::{AskedLimit, Join, Joined, Page, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::{ErrorKind, Kind};

const ALL: Page = Page { after: 0, most: 10_000 };
const KINDS: [(Kind, Claim); 3] =
    [(Kind::Mutex, Claim::Exclusive), (Kind::RwLock, Claim::Exclusive), (Kind::Semaphore, Claim::Permits(1))];
/// With this TTL the next renewal is 20 s away: what comes before came by message.
const LONG: &str = "60s";

fn limit(kind: Kind) -> AskedLimit {
    if kind == Kind::Semaphore { AskedLimit::Exactly(1) } else { AskedLimit::Stored }
}

/// The node's data: the secret of its admission, and the inbox.
async fn told_by(operator: &mut Operator, key: &str, id: &str) -> (String, String) {
    let text: String = operator.say(&format!("HGET {key}:node {id}")).await;
    let (secret, inbox) = text.split(' ').nth(4).unwrap().split_once('@').unwrap();
    (secret.to_owned(), inbox.to_owned())
}

#[tokio::test]
async fn a_number_out_of_range_is_refused_by_its_key_before_anything_is_written() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    let id = latchwork_core::contracts::NodeId::random();
    let held = |number: &str| format!("{number} {id} {number} 1000000 x 1 a@b label");
    for kind in [Kind::Mutex, Kind::RwLock] {
        let key = format!("latchwork:{}:{{a}}:one", kind.as_str());
        let queue = queue(kind, "a");
        for text in [
            "9999999999999999999999".to_owned(),
            "9007199254740992".to_owned(),
            // The highest there is: nothing comes behind it.
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
                assert_eq!(*error.kind(), ErrorKind::Misconfigured, "{text}: {error}");
                assert!(error.to_string().contains(&key), "{error}");
            }
            let keys: Vec<String> = operator.say(&format!("KEYS latchwork:{}:*", kind.as_str())).await;
            assert_eq!(keys, [key.as_str()], "{text}: something was written");
            assert_eq!(operator.say::<String>(&format!("GET {key}")).await, text);
            assert_eq!(client.list(&queue, ALL).await.unwrap().len(), 0, "{text}");
            assert!(!client.revoke(&queue, 1).await.unwrap());
            assert_eq!(operator.say::<String>(&format!("GET {key}")).await, text, "left to who mends it");
            let _: u32 = operator.say(&format!("DEL {key} latchwork:{}:{{a}}:meta", kind.as_str())).await;
        }
        // Mended: as if nothing had been.
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
            assert_eq!(*error.kind(), ErrorKind::Misconfigured, "{number}: {error}");
            assert!(error.to_string().contains(&meta), "{error}");
            let listed = client.list(&queue, ALL).await.unwrap();
            let standing: Vec<_> = listed.iter().map(|entry| (entry.sequence, entry.admitted)).collect();
            assert_eq!(standing, [(held.state().sequence(), true), (next.state().sequence(), false)]);
            // From the nodes that stand, the last number is known again.
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
            let sound = |entries: Vec<latchwork_core::contracts::Entry>| {
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

/// Puts so many waiters of a dead client behind whoever stands in a queue.
async fn crowd(operator: &mut Operator, kind: Kind, key: &str, count: usize) {
    let code = "local letter, now = ARGV[2], redis.call('TIME')
        local t = now[1] * 1000000 + now[2]
        for i = 1, ARGV[1] do
          local id = string.format('%032x', i)
          redis.call('ZADD', KEYS[1], string.format('%.0f', t + i), id)
          redis.call('ZADD', KEYS[2], string.format('%.0f', t + 3600000000 + i), id)
          redis.call('HSET', KEYS[3], id, letter .. ' 1 3600000000 1 0@nobody waiter')
          if letter == 'x' and KEYS[5] then redis.call('ZADD', KEYS[5], string.format('%.0f', t + i), id) end
        end
        redis.call('HSET', KEYS[4], 'last', string.format('%.0f', t + ARGV[1]))
        if KEYS[5] then redis.call('HSET', KEYS[4], 'writers', redis.call('ZCARD', KEYS[5])) end";
    let parts: &[&str] = match kind {
        Kind::RwLock => &["seq", "exp", "node", "meta", "writers"],
        _ => &["seq", "exp", "node", "meta"],
    };
    let mut eval = redis::Cmd::new();
    eval.arg("EVAL").arg(code).arg(parts.len());
    parts.iter().for_each(|part| {
        eval.arg(format!("{key}:{part}"));
    });
    operator.run(eval.arg(count).arg(if kind == Kind::Semaphore { "p" } else { "x" })).await;
}

/// How far the server's longest script took, in microseconds.
async fn slowest(operator: &mut Operator) -> u64 {
    let log: Vec<redis::Value> = operator.say("SLOWLOG GET 1000").await;
    let took = |entry: &redis::Value| match entry {
        redis::Value::Array(fields) => match (&fields[2], &fields[3]) {
            (redis::Value::Int(took), redis::Value::Array(words))
                if format!("{:?}", words[0]).contains("EVALSHA") =>
            {
                u64::try_from(*took).unwrap()
            }
            _ => 0,
        },
        _ => 0,
    };
    log.iter().map(took).max().unwrap_or(0)
}

/// With more waiters than one call looks at: nobody waits for the whole of it, nobody is admitted before its end, and who holds
/// is told that it does.
#[tokio::test]
async fn a_long_queue_is_mended_in_pieces_and_admits_nobody_meanwhile() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (holder, other) = (client(&server, LONG).await, client(&server, LONG).await);
    let crowded = if std::env::var_os("LATCHWORK_LONG").is_some() { 100_000 } else { 20_000 };
    operator.say::<()>("CONFIG SET slowlog-log-slower-than 1000").await;
    for (kind, claim) in KINDS {
        for damage in ["foreign member", "hash deleted"] {
            let (queue, key) = (
                queue(kind, damage),
                format!("latchwork:{}:{{{}}}", kind.as_str(), damage.replace(' ', "%20")),
            );
            let join = || Join { limit: limit(kind), ..ask(&queue, claim) };
            let held = admitted(&holder, &join()).await;
            let next = waiting(&holder, &join()).await;
            crowd(&mut operator, kind, &key, crowded).await;
            operator.say::<()>("SLOWLOG RESET").await;
            match damage {
                "foreign member" => operator.say::<()>(&format!("ZADD {key}:seq 1 foreign")).await,
                _ => operator.say::<()>(&format!("DEL {key}:meta")).await,
            }
            let tries = Join { patience: Patience::Try, ..join() };
            assert!(matches!(other.join(&tries).await, Ok(Joined::Refused)));
            let mending: Option<String> = operator.say(&format!("HGET {key}:meta mend")).await;
            assert!(mending.is_some_and(|mend| !mend.is_empty()), "{kind:?}, {damage}: all at once");
            assert!(next.admitted().now_or_never().is_none());
            soon(async {
                // The client that was refused goes on by itself.
                while operator
                    .say::<Option<String>>(&format!("HGET {key}:meta mend"))
                    .await
                    .is_none_or(|mend| !mend.is_empty())
                {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            println!("{kind:?}, {damage}: the longest script took {} us", slowest(&mut operator).await);
            assert_eq!((held.state().lost(), next.state().lost()), (None, None));
            assert_eq!(operator.say::<Option<String>>(&format!("ZSCORE {key}:seq foreign")).await, None);
            assert_eq!(operator.say::<usize>(&format!("ZCARD {key}:seq")).await, crowded + 2);
            assert!(next.admitted().now_or_never().is_none(), "{kind:?}, {damage}: two hold");
            held.leave().await.unwrap();
            soon(next.admitted()).await.unwrap();
            next.leave().await.unwrap();
        }
    }
}

/// Whoever cannot read the queue does not know the secret, though it knows everything else.
#[tokio::test]
async fn a_forged_message_of_an_admission_admits_nobody() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (holder, waiter) = (client(&server, LONG).await, client(&server, LONG).await);
    for (kind, claim) in KINDS {
        let (queue, key) = (queue(kind, "a"), format!("latchwork:{}:{{a}}", kind.as_str()));
        let join = || Join { limit: limit(kind), ..ask(&queue, claim) };
        let (mine, first, second) = (join(), join(), join());
        let held = admitted(&holder, &mine).await;
        let (next, last) = (waiting(&waiter, &first).await, waiting(&waiter, &second).await);
        let (secret, inbox) = told_by(&mut operator, &key, &first.id.to_string()).await;
        let (others, _) = told_by(&mut operator, &key, &second.id.to_string()).await;
        let sequence = next.state().sequence();
        for forged in [String::new(), ".".into(), ".0".into(), format!(".{others}"), format!(" {secret}")] {
            operator.publish(&inbox, &format!("{} {sequence}{forged}", first.id)).await;
        }
        // Messages come in order: when this one was acted upon, the others were too.
        let before = operator.calls("evalsha").await;
        operator.publish(&inbox, &format!("{} -{sequence}", first.id)).await;
        soon(async {
            while operator.calls("evalsha").await == before {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert!(next.admitted().now_or_never().is_none(), "{kind:?}: two hold");
        assert!(last.admitted().now_or_never().is_none());
        // With the secret of the node it would be believed: nothing else was wrong with the others.
        operator.publish(&inbox, &format!("{} {sequence}.{secret}", first.id)).await;
        soon(next.admitted()).await.unwrap();
        held.leave().await.unwrap();
        next.leave().await.unwrap();
        soon(last.admitted()).await.unwrap();
        last.leave().await.unwrap();
    }
}
