//! What is stored as a limit and is none: told as what it is, and left alone until a limit is set.

mod common;

use common::{Operator, admitted, ask, client, own, queue, soon, waiting};
use latchwork_core::contracts::{AskedLimit, Join, NodeId, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::{Error, ErrorKind, Kind};

const KEY: &str = "latchwork:semaphore:{a}:limit";

fn is_told(error: &Error, shown: &str) {
    assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("\"{shown}\"")) && text.contains("set_limit"), "{shown:?}: {text}");
}

fn permits(limit: AskedLimit, patience: Patience) -> Join {
    Join { limit, patience, id: NodeId::random(), ..ask(&queue(Kind::Semaphore, "a"), Claim::Permits(1)) }
}

async fn store(operator: &mut Operator, text: &str) {
    operator.run(redis::cmd("SET").arg(KEY).arg(text)).await;
}

#[tokio::test]
async fn what_is_no_limit_is_a_conflict_that_shows_it_and_stays_until_one_is_set() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, "30s").await;
    let address = queue(Kind::Semaphore, "a");
    let long = "x".repeat(70);
    let cut = "x".repeat(64) + "…";
    for (stored, shown) in [
        ("abc", "abc"),
        ("", ""),
        ("-5", "-5"),
        ("+5", "+5"),
        ("0", "0"),
        ("0x5", "0x5"),
        ("5 ", "5 "),
        ("1e3", "1e3"),
        ("inf", "inf"),
        ("nan", "nan"),
        ("5000000000", "5000000000"),
        ("\u{1b}[2J", "\\u{1b}[2J"),
        (&long, &cut),
    ] {
        store(&mut operator, stored).await;
        for limit in [AskedLimit::Exactly(3), AskedLimit::UnlessStored(3), AskedLimit::Stored] {
            for patience in [Patience::Wait, Patience::Try] {
                is_told(&soon(client.join(&permits(limit, patience))).await.unwrap_err(), shown);
            }
        }
        is_told(&client.limit(&address).await.unwrap_err(), shown);
        let stays: String = operator.say(&format!("GET {KEY}")).await;
        assert_eq!(stays, stored, "it stays");
    }
    let nodes: u32 = operator.say("EXISTS latchwork:semaphore:{a}:seq").await;
    assert_eq!(nodes, 0, "a refused join left its node");
    client.set_limit(&address, 2).await.unwrap();
    admitted(&client, &permits(AskedLimit::Exactly(2), Patience::Wait)).await.leave().await.unwrap();
}

/// A waiter once took "-5" for a wait of two microseconds, and "nan" for a wait without an end.
#[tokio::test]
async fn who_waits_is_told_of_it_by_its_next_look_and_who_holds_goes_on() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, "3s").await;
    let address = queue(Kind::Semaphore, "a");
    for stored in ["-5", "nan", "inf"] {
        client.set_limit(&address, 1).await.unwrap();
        let held = admitted(&client, &permits(AskedLimit::Exactly(1), Patience::Wait)).await;
        let waiter = waiting(&client, &permits(AskedLimit::Exactly(1), Patience::Wait)).await;
        let before = operator.calls("evalsha").await;
        store(&mut operator, stored).await;
        is_told(&soon(waiter.admitted()).await.unwrap_err(), stored);
        // Nobody tells: a renewal each third of the TTL does, of a machine that may stand still.
        let looks = operator.calls("evalsha").await - before;
        assert!(looks < 20, "{looks} looks at {stored}");
        assert_eq!(held.state().lost(), None);
        waiter.leave().await.unwrap();
        held.leave().await.unwrap();
    }
}
