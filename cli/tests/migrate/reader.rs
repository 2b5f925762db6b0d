//! A reader of the progress that stops reading.

use std::io::{PipeReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use super::Sides;
use super::played::Played;
use crate::common::{SOON, pid_of};

/// The capacity of a pipe.
const FULL: usize = 1 << 16;

fn stalled(sides: &Sides) -> (Child, PipeReader) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(&[b' '; FULL]).expect("there is room for it");
    let mut run = sides.program(&["run"]);
    let run = run.stdout(Stdio::from(writer)).stderr(Stdio::piped()).spawn().expect("it starts");
    (run, reader)
}

async fn reaches(sides: &Sides, phase: &str) {
    let reached = async {
        while sides.status().await["phase"] != phase {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, reached).await.unwrap_or_else(|_| panic!("it does not reach {phase}"));
}

#[tokio::test]
async fn it_stops_no_move_and_reads_all_of_it_when_it_goes_on() {
    let sides = Sides::of_one_redis().await;
    let member = Played::new(&sides, "a-service", true).await;
    let (run, mut reader) = stalled(&sides);
    reaches(&sides, "done").await;
    let mut text = String::new();
    let read = tokio::task::spawn_blocking(move || reader.read_to_string(&mut text).map(|_| text));
    let over = timeout(SOON, run.wait_with_output()).await.expect("in time").expect("a status");
    let text = read.await.expect("no panic").expect("read");
    assert!(over.status.success(), "{over:?}");
    for part in ["both  reached (both-by-old)", "done  reached", "migrate finish"] {
        assert!(text.contains(part), "{part:?} in {}", text.trim());
    }
    member.leaves().await;
}

#[tokio::test]
async fn ctrl_c_works_while_the_reader_stalls() {
    let sides = Sides::of_one_redis().await;
    let late = Played::new(&sides, "late", false).await;
    let (run, reader) = stalled(&sides);
    let waits = async { while sides.status().await["waits_for"][0]["label"] != "late" {} };
    timeout(SOON, waits).await.expect("the stage exists");
    kill_process(pid_of(run.id()), Signal::INT).expect("it runs");
    let over = timeout(SOON, run.wait_with_output()).await.expect("in time").expect("a status");
    assert_eq!(over.status.signal(), Some(2), "{over:?}");
    assert!(String::from_utf8_lossy(&over.stderr).contains("nothing is lost"), "{over:?}");
    drop(reader);
    late.leaves().await;
}
