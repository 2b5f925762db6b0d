use super::{listed, nodes, shown};
use crate::common::{Fixture, KEY, SOON, WAITS, ran};
use crate::terminal::Terminal;

#[tokio::test]
async fn retired_namespace_refuses_locks_but_allows_inspection() {
    let fixture = Fixture::new().await;
    let operator = fixture.operator().await;
    operator.retire("memory://after").await.expect("no client is connected");

    let (code, _, said) = ran(fixture.program(["lock", KEY, "--", "true"])).await;
    assert!(code == Some(122) && said.contains("memory://after"), "{said}");

    let json = shown(&fixture.url, &["inspect", "--json"]).await;
    assert!(nodes(&json).is_empty());
    let snapshot: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let marker = serde_json::json!({ "course": "leaves", "move": null, "url": "memory://after" });
    assert_eq!(snapshot["marker"], marker, "{snapshot}");
    let said = shown(&fixture.url, &["inspect"]).await;
    assert!(said.contains("it is retired: clients are sent to \"memory://after\""), "{said}");
    // It connects, and finds no holder.
    let release = ["release", &format!("mutex/{KEY}"), "--sequence", "1", "--yes"];
    let (code, _, said) = ran(fixture.program(release)).await;
    assert_eq!(code, Some(120), "{said}");
    assert!(operator.reopen().await.expect("answered"));
    let json = shown(&fixture.url, &["inspect", "--json"]).await;
    assert!(!json.contains("marker"), "{json}");
    operator.coordinator().close().await.expect("a close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_does_not_prevent_retiring_the_namespace() {
    let fixture = Fixture::new().await;
    let mut watched = super::Watched::start(&fixture, "100ms");
    assert!(watched.next().await.is_empty());
    let operator = fixture.operator().await;
    operator.retire("memory://after").await.expect("only operators are connected");
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

/// The program takes part in the move.
#[tokio::test]
async fn a_release_that_waits_for_its_answer_keeps_up_with_a_move() {
    let mut fixture = Fixture::new().await;
    let side = |name: &str| format!("{}%26namespace={name}", fixture.url.replace('&', "%26"));
    fixture.url = format!("moving:?from={}&to={}&move=m", side("before"), side("after"));
    let run = fixture.lock(&[], WAITS).await;
    let json = shown(&fixture.url, &["inspect", "--json"]).await;
    let sequence = nodes(&json)[0]["sequence"].to_string();
    let program = env!("CARGO_BIN_EXE_latchwork");
    let script = format!("echo $$; exec {program} release mutex/{KEY} --sequence {sequence}");
    let (mut terminal, mut asked) = Terminal::run(&fixture, &["sh", "-c", &script]).await;
    while !asked.line().await.contains("Type yes:") {}
    let started = shown(&fixture.url, &["migrate", "start"]);
    tokio::time::timeout(SOON, started).await.expect("the step is acknowledged during the question");
    terminal.types(b"yes\n").await;
    assert_eq!(asked.over().await.code(), 0);
    run.loses_its_hold("").await;
}
