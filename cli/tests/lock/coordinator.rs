use std::time::{Duration, Instant};

use crate::common::{Fixture, KEY, Next, SHORT_TTL, SOON, TTL, WAITS, gone, ran};

/// Survives SIGTERM.
const STUBBORN: &str = "trap 'echo asked' TERM; echo $$; while :; do sleep 0.05; done";

/// The test may read the line late.
const STAMPS: &str = "asked=; stamp() { read -r up _ </proc/uptime; echo $up; }; \
    trap 'asked=1; stamp' TERM; echo $$; while :; do sleep 0.01; [ -z \"$asked\" ] || stamp; done";

fn uptime() -> f64 {
    let uptime = std::fs::read_to_string("/proc/uptime").expect("Linux has it");
    seconds(uptime.split(' ').next().expect("a word"))
}

fn seconds(stamp: &str) -> f64 {
    stamp.parse().unwrap_or_else(|_| panic!("no seconds: {stamp:?}"))
}

#[tokio::test]
async fn a_server_that_was_killed_costs_the_command_its_hold_after_its_grace() {
    let fixture = Fixture::short().await;
    let mut run = fixture.lock(&["--grace", "3s"], STAMPS).await;
    fixture.server.kill().await.expect("killed");
    let killed = uptime();
    run.command_is_gone().await;
    let stamps: Vec<_> = run.rest().await.iter().map(|stamp| seconds(stamp)).collect();
    let (asked, last) = (stamps[0], stamps[stamps.len() - 1]);
    // Without the grace of 3 s, the command would get an eighth of the TTL.
    assert!(last - asked > 1.0, "it had a grace: {asked} to {last}");
    // The guard can be late.
    assert!(last - killed < SHORT_TTL.as_secs_f64() + 3.0, "{killed} to {last}");
    run.loses_its_hold("the lease expired").await;
}

#[tokio::test]
async fn pause_past_ttl_ends_the_command_before_next_hold() {
    let fixture = Fixture::short().await;
    let script = "echo $$; while :; do sleep 0.05; done";
    let (run, next) = fixture.contended(&["--grace", "500ms"], script).await;
    fixture.server.pause().await.expect("paused");
    run.command_is_gone().await;
    fixture.server.resume().await.expect("resumed");
    next.holds_alone().await;
    run.loses_its_hold("").await;
}

#[tokio::test]
async fn a_server_that_is_back_in_time_costs_nothing() {
    let fixture = Fixture::with_ttl(Duration::from_secs(12)).await;
    let run = fixture.lock(&["--grace", "100ms"], "echo $$; exec sleep 6").await;
    fixture.server.pause().await.expect("paused");
    // Longer than between two renewals; far shorter than the rest of the lease.
    tokio::time::sleep(Duration::from_millis(4200)).await;
    fixture.server.resume().await.expect("resumed");
    let over = run.over().await;
    assert_eq!((over.code(), over.said.as_str()), (0, ""));
}

#[tokio::test]
async fn an_operators_removal_ends_the_command_at_once_and_it_is_said() {
    let fixture = Fixture::new().await;
    let run = fixture.lock(&["--grace", "1m"], STUBBORN).await;
    let lock = fixture.client().await.mutex(KEY).expect("a lock");
    let holder = lock.queue().first(1).await.expect("a queue").remove(0);
    let begun = Instant::now();
    assert!(lock.force_release(holder.sequence).await.expect("released"));
    run.command_is_gone().await;
    // Sooner than the next renewal.
    assert!(begun.elapsed() < TTL / 4, "{:?}", begun.elapsed());
    let over = run.over().await;
    assert_eq!(over.code(), 121, "{}", over.said);
    assert!(over.said.contains("it was removed") && over.said.contains("no grace"), "{}", over.said);
}

/// Also a daemon in a separate session.
#[tokio::test]
async fn processes_of_the_command_end_with_the_hold() {
    let fixture = Fixture::short().await;
    let mut run =
        fixture.lock(&["--grace", "200ms"], "echo $$; setsid sh -c 'echo $$; exec sleep 300' & wait").await;
    let daemon = run.line().await.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a process");
    let next = Next::behind(&fixture, daemon).await;
    fixture.server.pause().await.expect("paused");
    gone(daemon).await;
    fixture.server.resume().await.expect("resumed");
    next.holds_alone().await;
    run.loses_its_hold("").await;
}

#[tokio::test]
async fn a_fixed_end_asks_a_grace_before_and_kills_at_the_end() {
    let fixture = Fixture::new().await;
    // A connection takes time, and the hold has a fixed end.
    let next = fixture.client().await;
    let begun = Instant::now();
    let mut run = fixture.lock(&["--max-hold", "6s", "--grace", "3s"], STUBBORN).await;
    let next = Next::stands(next, run.command).await;
    assert_eq!(run.line().await, "asked");
    // SIGTERM comes after 3 s, except for a tick of a clock.
    assert!(begun.elapsed() > Duration::from_millis(2900), "{:?}", begun.elapsed());
    next.holds_alone().await;
    run.loses_its_hold("fixed end").await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_in_one_line() {
    let fixture = Fixture::new().await;
    fixture.server.kill().await.expect("killed");
    let ran = ran(fixture.program(["lock", KEY, "--", "echo", "ran"]));
    let (code, out, said) = tokio::time::timeout(SOON, ran).await.expect("in time");
    assert_eq!((code, &*out, said.lines().count()), (Some(122), "", 1), "{said}");
    assert!(said.contains("no Redis answers") && !said.contains('\u{1b}'), "{said}");
}

#[tokio::test]
async fn a_lock_that_is_taken_is_tried_or_waited_for() {
    let fixture = Fixture::new().await;
    let run = fixture.lock(&[], WAITS).await;
    for options in [vec!["--try"], vec!["--within", "3s"]] {
        let arguments = ["lock", KEY].into_iter().chain(options).chain(["--", "echo", "ran"]);
        let (code, out, _) = ran(fixture.program(arguments)).await;
        assert_eq!((code, &*out), (Some(120), ""));
    }
    let (_, out, _) = ran(fixture.program(["lock", KEY, "--shared", "--", "echo", "ran"])).await;
    assert_eq!(out, "ran\n", "a read/write lock is another thing");
    run.terminate().await;
}
