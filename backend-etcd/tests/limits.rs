//! What is stored as a limit and is none: told as what it is, and left alone until a limit is set.

mod common;

use common::{ask, client, etcdctl, join, keys, server, soon, still_waits, wait};
use latchwork_core::ErrorKind;
use latchwork_core::contracts::{AskedLimit, Join, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::{Error, Kind as Lock};

const KEY: &str = "latchwork/limit/semaphore/a";

fn is_told(error: &Error, shown: &str) {
    assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("\"{shown}\"")) && text.contains("set_limit"), "{shown:?}: {text}");
}

#[tokio::test]
async fn what_is_no_limit_is_a_conflict_that_shows_it_and_stays_until_one_is_set() {
    let server = server().await;
    let client = client(&server, "").await;
    let one = Claim::Permits(1);
    let queue = ask(Lock::Semaphore, one, None, Patience::Wait).queue;
    let long = "x".repeat(70);
    let cut = "x".repeat(64) + "…";
    for (stored, shown) in [
        ("abc", "abc"),
        ("", ""),
        ("-5", "-5"),
        ("+5", "+5"),
        ("0", "0"),
        ("5 ", "5 "),
        ("inf", "inf"),
        ("nan", "nan"),
        ("5000000000", "5000000000"),
        ("\u{1b}[2J", "\\u{1b}[2J"),
        (&long, &cut),
    ] {
        etcdctl(&server, &["put", "--", KEY, stored]).await;
        for limit in [AskedLimit::Exactly(3), AskedLimit::UnlessStored(3), AskedLimit::Stored] {
            for patience in [Patience::Wait, Patience::Try] {
                let asked = Join { limit, ..ask(Lock::Semaphore, one, None, patience) };
                is_told(&soon(client.backend().join(&asked)).await.unwrap_err(), shown);
            }
        }
        is_told(&client.backend().limit(&queue).await.unwrap_err(), shown);
        assert_eq!(
            etcdctl(&server, &["get", "--print-value-only", KEY]).await,
            format!("{stored}\n"),
            "it stays"
        );
    }
    assert_eq!(keys(&server, "latchwork/semaphore/").await, [""; 0], "a refused join left its node");
    client.backend().set_limit(&queue, 2).await.unwrap();
    let (admitted, _node) = join(&client, Lock::Semaphore, one, Some(2)).await;
    assert!(admitted);
}

#[tokio::test]
async fn who_waits_is_told_of_it_and_who_holds_goes_on() {
    let server = server().await;
    let client = client(&server, "").await;
    let (_, held) = join(&client, Lock::Semaphore, Claim::Permits(1), Some(1)).await;
    let (admitted, waiter) = join(&client, Lock::Semaphore, Claim::Permits(1), Some(1)).await;
    assert!(!admitted);
    let mut waiting = wait(&waiter);
    still_waits(&mut waiting).await;
    etcdctl(&server, &["put", "--", KEY, "nan"]).await;
    is_told(&soon(waiting).await.unwrap().unwrap_err(), "nan");
    assert!(held.state().lost().is_none());
    waiter.leave().await.unwrap();
    held.leave().await.unwrap();
}
