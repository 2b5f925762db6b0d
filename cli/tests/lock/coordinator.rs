//! What the coordinator does to a hold, and what becomes of the command.

use std::time::{Duration, Instant};

use crate::common::{Fixture, KEY, Next, SOON, TTL, WAITS, gone};

/// Says when it is asked to end, and does not.
const STUBBORN: &str = "trap 'echo asked' TERM; echo $$; while :; do sleep 0.05; done";

#[tokio::test]
async fn a_server_that_was_killed_costs_the_command_its_hold_after_its_grace() {
    let fixture = Fixture::new().await;
    let mut run = fixture.lock(&["--grace", "500ms"], STUBBORN).await;
    fixture.server.kill().await.expect("killed");
    let begun = Instant::now();
    assert_eq!(run.line().await, "asked");
    let asked = begun.elapsed();
    run.command_is_gone().await;
    let went = begun.elapsed();
    assert!(went - asked > Duration::from_millis(200), "it had a grace: {asked:?}, {went:?}");
    assert!(went < TTL + Duration::from_millis(500), "{went:?}");
    let over = run.over().await;
    assert_eq!(over.code(), 121, "{}", over.said);
    assert!(over.said.contains("the lease expired"), "{}", over.said);
}

#[tokio::test]
async fn a_server_that_stands_still_past_the_ttl_costs_the_command_its_hold_before_another_holds() {
    let fixture = Fixture::new().await;
    let run = fixture.lock(&["--grace", "500ms"], "echo $$; while :; do sleep 0.05; done").await;
    let next = Next::behind(&fixture, run.command).await;
    fixture.server.pause().await.expect("paused");
    run.command_is_gone().await;
    fixture.server.resume().await.expect("resumed");
    next.holds_alone().await;
    let over = run.over().await;
    assert_eq!(over.code(), 121, "{}", over.said);
}

#[tokio::test]
async fn a_server_that_is_back_in_time_costs_nothing() {
    let fixture = Fixture::new().await;
    let run = fixture.lock(&["--grace", "100ms"], "echo $$; exec sleep 3").await;
    fixture.server.pause().await.expect("paused");
    tokio::time::sleep(TTL / 4).await;
    fixture.server.resume().await.expect("resumed");
    let over = run.over().await;
    assert_eq!((over.code(), over.said.as_str()), (0, ""));
}

#[tokio::test]
async fn an_operators_removal_ends_the_command_at_once_and_it_is_said() {
    let fixture = Fixture::new().await;
    let run = fixture.lock(&["--grace", "10s"], STUBBORN).await;
    let lock = fixture.client().await.mutex(KEY).expect("a lock");
    let holder = lock.queue(0, 1).await.expect("a queue").remove(0);
    let begun = Instant::now();
    assert!(lock.force_release(holder.sequence).await.expect("released"));
    run.command_is_gone().await;
    assert!(begun.elapsed() < TTL, "{:?}", begun.elapsed());
    let over = run.over().await;
    assert_eq!(over.code(), 121, "{}", over.said);
    assert!(over.said.contains("removed by another") && over.said.contains("no time"), "{}", over.said);
}

/// A daemon of the command, in a session of its own, goes with it when the hold is lost.
#[tokio::test]
async fn what_the_command_has_started_goes_with_it_when_the_hold_is_lost() {
    let fixture = Fixture::new().await;
    let mut run =
        fixture.lock(&["--grace", "200ms"], "echo $$; setsid sh -c 'echo $$; exec sleep 300' & wait").await;
    let daemon = run.line().await.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a process");
    let next = Next::behind(&fixture, daemon).await;
    fixture.server.pause().await.expect("paused");
    gone(daemon).await;
    fixture.server.resume().await.expect("resumed");
    next.holds_alone().await;
    assert_eq!(run.over().await.code(), 121);
}

#[tokio::test]
async fn a_fixed_end_asks_a_grace_before_and_kills_at_the_end() {
    let fixture = Fixture::new().await;
    let begun = Instant::now();
    let mut run = fixture.lock(&["--max-hold", "1500ms", "--grace", "700ms"], STUBBORN).await;
    let next = Next::behind(&fixture, run.command).await;
    assert_eq!(run.line().await, "asked");
    assert!(begun.elapsed() > Duration::from_millis(700), "{:?}", begun.elapsed());
    next.holds_alone().await;
    let over = run.over().await;
    assert_eq!(over.code(), 121, "{}", over.said);
    assert!(over.said.contains("fixed end"), "{}", over.said);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_in_one_line() {
    let fixture = Fixture::new().await;
    fixture.server.kill().await.expect("killed");
    let output = fixture.program(["lock", KEY, "--", "echo", "ran"]).output();
    let output = tokio::time::timeout(SOON, output).await.expect("in time").expect("it ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), output.stdout.len(), said.lines().count()),
        (Some(122), 0, 1),
        "{said}"
    );
    assert!(said.contains("no Redis answers") && !said.contains('\u{1b}'), "{said}");
}

#[tokio::test]
async fn a_lock_that_is_taken_is_tried_or_waited_for() {
    let fixture = Fixture::new().await;
    let run = fixture.lock(&[], WAITS).await;
    for options in [vec!["--try"], vec!["--within", "200ms"]] {
        let arguments = ["lock", KEY].into_iter().chain(options).chain(["--", "echo", "ran"]);
        let output = fixture.program(arguments).output().await.expect("it ran");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(120), 0));
    }
    let shared =
        fixture.program(["lock", KEY, "--shared", "--", "echo", "ran"]).output().await.expect("it ran");
    assert_eq!(String::from_utf8_lossy(&shared.stdout), "ran\n", "a read/write lock is another thing");
    run.signal(rustix::process::Signal::TERM);
    assert_eq!(run.over().await.code(), 143);
}
