//! The other subcommands that run a command.

use std::time::Duration;

use rustix::process::Signal;

use crate::common::{Fixture, KEY, Run, WAITS};

async fn output(fixture: &Fixture, arguments: &[&str]) -> (Option<i32>, String) {
    let output = fixture.program(arguments).output().await.expect("it ran");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn a_semaphore_lets_so_many_run_and_no_more() {
    let fixture = Fixture::new().await;
    let semaphore =
        |permits: &'static str| ["semaphore", KEY, "--permits", permits, "--of", "3", "--try", "--"];
    let two = Run::start(fixture.program(semaphore("2").into_iter().chain(["sh", "-c", WAITS]))).await;
    assert_eq!(
        output(&fixture, &[&semaphore("2")[..], &["echo", "ran"]].concat()).await,
        (Some(120), String::new())
    );
    assert_eq!(
        output(&fixture, &[&semaphore("1")[..], &["echo", "ran"]].concat()).await,
        (Some(0), "ran\n".to_owned())
    );
    let other_limit = ["lock", KEY, "--permits", "1", "--of", "9", "--", "echo", "ran"];
    assert_eq!(output(&fixture, &other_limit).await.0, Some(122), "another limit is a conflict");
    two.signal(Signal::TERM);
    assert_eq!(two.over().await.code(), 143);
}

#[tokio::test]
async fn readers_run_beside_each_other_and_a_writer_alone() {
    let fixture = Fixture::new().await;
    let reader = fixture.lock(&["--shared"], WAITS).await;
    assert_eq!(output(&fixture, &["lock", KEY, "--shared", "--try", "--", "echo", "ran"]).await.1, "ran\n");
    assert_eq!(
        output(&fixture, &["lock", KEY, "--exclusive", "--try", "--", "echo", "ran"]).await.0,
        Some(120)
    );
    reader.signal(Signal::TERM);
    assert_eq!(reader.over().await.code(), 143);
    assert_eq!(
        output(&fixture, &["lock", KEY, "--exclusive", "--try", "--", "echo", "ran"]).await.0,
        Some(0)
    );
}

#[tokio::test]
async fn a_job_in_the_crontab_of_many_hosts_runs_once() {
    let fixture = Fixture::new().await;
    let mut hosts = Vec::new();
    for _ in 0..5 {
        // A host that the machine lets start later than that would run it again.
        let job = ["cron", KEY, "--min-hold", "8s", "--", "echo", "ran"];
        let host = fixture.program(job).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
        hosts.push(host);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut ran = 0;
    for host in hosts {
        let output = host.wait_with_output().await.expect("it ran");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        ran += String::from_utf8_lossy(&output.stdout).matches("ran").count();
    }
    assert_eq!(ran, 1);
}

#[tokio::test]
async fn the_next_candidate_leads_when_the_leader_dies() {
    let fixture = Fixture::short().await;
    let elect = |data: &'static str| ["elect", KEY, "--data", data, "--", "sh", "-c", WAITS];
    let first = Run::start(fixture.program(elect("first"))).await;
    let second = tokio::spawn(Run::start(fixture.program(elect("second"))));
    let election = fixture.client().await.election(KEY).expect("an election");
    assert_eq!(&*election.leader().await.expect("an answer").expect("a leader").data, b"first");
    first.signal(Signal::KILL);
    let second = second.await.expect("it leads");
    assert!(!crate::common::alive(first.command), "one leads at a time");
    assert_eq!(&*election.leader().await.expect("an answer").expect("a leader").data, b"second");
    second.signal(Signal::TERM);
    assert_eq!(second.over().await.code(), 143);
}
