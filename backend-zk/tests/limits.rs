//! What is stored as a limit and is none: told as what it is, and left alone until a limit is set.

mod common;

use common::{address, admitted, backend, config, join, server, soon, still_waits, stranger, waiting};
use latchwork_core::contracts::{AskedLimit, Join, Page, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::{Error, ErrorKind, Kind};

fn is_told(error: &Error, shown: &str) {
    assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("\"{shown}\"")) && text.contains("set_limit"), "{shown:?}: {text}");
}

#[tokio::test]
async fn what_is_no_limit_is_a_conflict_that_shows_it_and_stays_until_one_is_set() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::Semaphore, "a");
    let (client, stranger) = (backend(&config).await, stranger(addr).await);
    let path = format!("/{}/limits/a", config.namespace);
    client.set_limit(&queue, 1).await.unwrap();
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
        ("5000000000", "5000000000"),
        ("\u{1b}[2J", "\\u{1b}[2J"),
        (&long, &cut),
    ] {
        stranger.set_data(&path, stored.as_bytes(), None).await.unwrap();
        for limit in [AskedLimit::Exactly(3), AskedLimit::UnlessStored(3), AskedLimit::Stored] {
            for patience in [Patience::Wait, Patience::Try] {
                let asked = Join { limit, patience, ..join(&queue, Claim::Permits(1)) };
                is_told(&soon(client.join(&asked)).await.unwrap_err(), shown);
            }
        }
        is_told(&client.limit(&queue).await.unwrap_err(), shown);
        assert_eq!(stranger.get_data(&path).await.unwrap().0, stored.as_bytes(), "it stays");
    }
    assert!(
        client.list(&queue, Page { after: 0, most: 9 }).await.unwrap().is_empty(),
        "a refused join left its node"
    );
    client.set_limit(&queue, 2).await.unwrap();
    admitted(client.join(&join(&queue, Claim::Permits(1))).await).leave().await.unwrap();
}

#[tokio::test]
async fn who_waits_is_told_of_it_and_who_holds_goes_on() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::Semaphore, "a");
    let (client, stranger) = (backend(&config).await, stranger(addr).await);
    let asked = || Join { limit: AskedLimit::Exactly(1), ..join(&queue, Claim::Permits(1)) };
    let held = admitted(client.join(&asked()).await);
    let waiter = waiting(client.join(&asked()).await);
    assert!(still_waits(&client, &queue, waiter.admitted()).await);
    let path = format!("/{}/limits/a", config.namespace);
    stranger.set_data(&path, b"nan", None).await.unwrap();
    is_told(&soon(waiter.admitted()).await.unwrap_err(), "nan");
    assert_eq!(held.state().lost(), None);
    waiter.leave().await.unwrap();
    held.leave().await.unwrap();
}
