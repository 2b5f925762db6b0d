use futures_util::FutureExt;
use latchwork_core::Kind;
use latchwork_core::backend::{Join, Joined, Patience};

use crate::common::{
    KINDS, LONG, Operator, admitted, ask, client, limit, queue, served, soon, until, waiting,
};

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
    let mut eval = redis::cmd("EVAL");
    eval.arg(code).arg(parts.len()).arg(parts.iter().map(|part| format!("{key}:{part}")).collect::<Vec<_>>());
    operator.run(eval.arg(count).arg(if kind == Kind::Semaphore { "p" } else { "x" })).await;
}

async fn slowest(operator: &mut Operator) -> u64 {
    use redis::Value::{Array, Int};
    let log: Vec<redis::Value> = operator.say("SLOWLOG GET 1000").await;
    let took = |entry: &redis::Value| {
        let Array(fields) = entry else { return 0 };
        match (&fields[2], &fields[3]) {
            (Int(took), Array(words)) if format!("{:?}", words[0]).contains("EVALSHA") => {
                took.cast_unsigned()
            }
            _ => 0,
        }
    };
    log.iter().map(took).max().unwrap_or(0)
}

/// More waiters than one call reads. Renewals confirm the holders.
#[tokio::test]
async fn long_queue_is_repaired_in_steps_without_admissions() {
    let (server, mut operator, holder) = served(LONG).await;
    let other = client(&server, LONG).await;
    let crowded = if std::env::var_os("LATCHWORK_LONG").is_some() { 100_000 } else { 20_000 };
    operator.tell("CONFIG SET slowlog-log-slower-than 1000").await;
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
            operator.tell("SLOWLOG RESET").await;
            match damage {
                "foreign member" => operator.tell(&format!("ZADD {key}:seq 1 foreign")).await,
                _ => operator.tell(&format!("DEL {key}:meta")).await,
            }
            let tries = Join { patience: Patience::Try, ..join() };
            assert!(matches!(other.join(&tries).await, Ok(Joined::Refused)));
            let mending: Option<String> = operator.say(&format!("HGET {key}:meta mend")).await;
            assert!(mending.is_some_and(|mend| !mend.is_empty()), "{kind:?}, {damage}: all at once");
            assert!(next.admitted().now_or_never().is_none());
            until(async || {
                let mending: Option<String> = operator.say(&format!("HGET {key}:meta mend")).await;
                mending.is_some_and(|mend| mend.is_empty())
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
