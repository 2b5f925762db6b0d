use std::time::Duration;

use rustix::process::Signal;

use crate::common::{Fixture, KEY, Run, WAITS, ran};

#[tokio::test]
async fn semaphore_admits_commands_up_to_its_limit() {
    let fixture = Fixture::new().await;
    let semaphore =
        |permits: &'static str| ["semaphore", KEY, "--permits", permits, "--of", "3", "--try", "--"];
    let two = Run::start(fixture.program(semaphore("2").into_iter().chain(["sh", "-c", WAITS]))).await;
    for (permits, expected) in [("2", (Some(120), "")), ("1", (Some(0), "ran\n"))] {
        let (code, out, _) =
            ran(fixture.program(semaphore(permits).into_iter().chain(["echo", "ran"]))).await;
        assert_eq!((code, &*out), expected);
    }
    let other_limit = ["lock", KEY, "--permits", "1", "--of", "9", "--", "echo", "ran"];
    assert_eq!(ran(fixture.program(other_limit)).await.0, Some(122), "another limit is a conflict");
    two.terminate().await;
}

#[tokio::test]
async fn readers_run_together_and_a_writer_runs_alone() {
    let fixture = Fixture::new().await;
    let reader = fixture.lock(&["--shared"], WAITS).await;
    let tries = |how: &'static str| ran(fixture.program(["lock", KEY, how, "--try", "--", "echo", "ran"]));
    assert_eq!(tries("--shared").await.1, "ran\n");
    assert_eq!(tries("--exclusive").await.0, Some(120));
    reader.terminate().await;
    assert_eq!(tries("--exclusive").await.0, Some(0));
}

#[tokio::test]
async fn a_job_in_the_crontab_of_many_hosts_runs_once() {
    let fixture = Fixture::new().await;
    let mut hosts = Vec::new();
    for _ in 0..5 {
        // A host that starts later than this would run the job again.
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
    second.terminate().await;
}
