//! Who inspects or releases is an operator.

use std::process::Output;

use super::{listed, nodes};
use crate::common::{Fixture, KEY, SOON, WAITS};
use crate::terminal::Terminal;

async fn ran(fixture: &Fixture, arguments: &[&str]) -> Output {
    fixture.program(arguments).output().await.expect("it ran")
}

#[tokio::test]
async fn a_retired_namespace_is_still_inspected_and_lets_nobody_else_in() {
    let fixture = Fixture::new().await;
    let operator = fixture.operator().await;
    operator.retire("memory://after").await.expect("nobody is there");

    let refused = ran(&fixture, &["lock", KEY, "--", "true"]).await;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(122) && said.contains("memory://after"), "{refused:?}");

    let inspected = ran(&fixture, &["inspect", "--json"]).await;
    assert!(inspected.status.success(), "{inspected:?}");
    let json = String::from_utf8(inspected.stdout).expect("text");
    assert!(nodes(&json).is_empty());
    let shown: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let marker = serde_json::json!({ "course": "leaves", "move": null, "url": "memory://after" });
    assert_eq!(shown["marker"], marker, "{shown}");
    let people = ran(&fixture, &["inspect"]).await;
    let said = String::from_utf8_lossy(&people.stdout);
    assert!(said.contains("it is retired: clients are sent to \"memory://after\""), "{said}");
    // It gets as far as looking for the holder.
    let released = ran(&fixture, &["release", &format!("mutex/{KEY}"), "--sequence", "1", "--yes"]).await;
    assert_eq!(released.status.code(), Some(120), "{released:?}");
    assert!(operator.reopen().await.expect("answered"));
    let inspected = ran(&fixture, &["inspect", "--json"]).await;
    assert!(!String::from_utf8_lossy(&inspected.stdout).contains("marker"), "{inspected:?}");
    operator.coordinator().close().await.expect("a close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_keeps_nobody_from_retiring_the_namespace() {
    let fixture = Fixture::new().await;
    let mut watched = super::Watched::start(&fixture, "100ms");
    assert!(watched.next().await.is_empty());
    let operator = fixture.operator().await;
    operator.retire("memory://after").await.expect("only operators are there");
    assert!(watched.next().await.is_empty(), "it goes on");
    assert!(operator.reopen().await.expect("answered"));
    let coordinator = fixture.client().await;
    let lock = coordinator.mutex(KEY).expect("a lock");
    let _held = lock.acquire().await.expect("held");
    let sequence = listed(&lock).await[0].sequence;
    let shown = async { while watched.next().await.iter().all(|node| node["sequence"] != sequence) {} };
    tokio::time::timeout(SOON, shown).await.expect("it is shown in time");
    watched.end().await;
    operator.coordinator().close().await.expect("a close");
}

/// Under both URLs it takes part.
#[tokio::test]
async fn a_release_that_waits_for_its_answer_keeps_up_with_a_move() {
    let mut fixture = Fixture::new().await;
    let side = |name: &str| format!("{}%26namespace={name}", fixture.url.replace('&', "%26"));
    fixture.url = format!("moving:?from={}&to={}&move=m", side("before"), side("after"));
    let run = fixture.lock(&[], WAITS).await;
    let inspected = ran(&fixture, &["inspect", "--json"]).await;
    let sequence = nodes(&String::from_utf8(inspected.stdout).expect("text"))[0]["sequence"].to_string();
    let program = env!("CARGO_BIN_EXE_latchwork");
    let script = format!("echo $$; exec {program} release mutex/{KEY} --sequence {sequence}");
    let (mut terminal, mut asked) = Terminal::run(&fixture, &["sh", "-c", &script]).await;
    while !asked.line().await.contains("Type yes:") {}
    let started = tokio::time::timeout(SOON, ran(&fixture, &["migrate", "start"])).await;
    let started = started.expect("it is acknowledged meanwhile");
    assert!(started.status.success(), "{started:?}");
    terminal.types(b"yes\n").await;
    assert_eq!(asked.over().await.code(), 0);
    assert_eq!(run.over().await.code(), 121);
}
