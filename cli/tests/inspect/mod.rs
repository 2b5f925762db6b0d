mod operator;
mod server_data;

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use latchwork_core::backend::QueueEntry;
use latchwork_servers::ask;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::time::{sleep, timeout};

use crate::common::{Fixture, KEY, SOON, WAITS, pid_of, program, ran};
use crate::terminal::Terminal;

const PROCESSES: usize = 50;

async fn listed(lock: &latchwork::Mutex) -> Vec<QueueEntry> {
    lock.queue().first(1000).await.expect("a queue")
}

async fn shown(url: &str, arguments: &[&str]) -> String {
    let (code, out, err) = ran(program(url, arguments)).await;
    assert_eq!(code, Some(0), "{err}");
    out
}

fn nodes(json: &str) -> Vec<Value> {
    let snapshot: Value = serde_json::from_str(json).expect("JSON");
    let queues = snapshot["queues"].as_array().expect("queues");
    let queue = queues.iter().find(|queue| queue["key"] == KEY);
    queue.map(|queue| queue["nodes"].as_array().expect("nodes").clone()).unwrap_or_default()
}

fn view(entry: &QueueEntry) -> (u64, bool, String) {
    (entry.sequence, entry.admitted, entry.label.clone())
}

fn view_of(node: &Value) -> (u64, bool, String) {
    let label = node["label"].as_str().expect("a label").to_owned();
    (node["sequence"].as_u64().expect("a number"), node["holds"].as_bool().expect("a truth"), label)
}

async fn contending(fixture: &Fixture) -> (Vec<Child>, latchwork::Coordinator, latchwork::Mutex) {
    let mut processes = Vec::new();
    for number in 0..PROCESSES {
        let label = format!("process {number}");
        let arguments = ["lock", KEY, "--owner-label", &label, "--", "sh", "-c", WAITS];
        processes.push(fixture.program(arguments).stdout(Stdio::null()).spawn().expect("it starts"));
    }
    let coordinator = fixture.client().await;
    let lock = coordinator.mutex(KEY).expect("a lock");
    let all = async {
        while listed(&lock).await.len() < PROCESSES {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(3 * SOON, all).await.expect("all contend in time");
    (processes, coordinator, lock)
}

async fn end(processes: &mut [Child]) {
    for process in processes {
        kill_process(pid_of(process.id()), Signal::TERM).expect("it runs");
        process.wait().await.expect("an end");
    }
}

struct Watched {
    child: Child,
    // Can stay unread: Ctrl-C ends a watch with a stalled reader.
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watched {
    fn start(fixture: &Fixture, every: &str) -> Self {
        let mut command = fixture.program(["inspect", "--watch", "--every", every, "--json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines }
    }

    async fn next(&mut self) -> Vec<Value> {
        let line = timeout(SOON, self.lines.next_line()).await.expect("in time").expect("a line");
        nodes(&line.expect("a view"))
    }

    async fn end(mut self) {
        kill_process(pid_of(self.child.id()), Signal::INT).expect("it runs");
        assert!(self.child.wait().await.expect("an end").success(), "Ctrl-C ends it well");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_matches_the_server_while_fifty_processes_contend() {
    let fixture = Fixture::new().await;
    let (mut processes, coordinator, lock) = contending(&fixture).await;
    let mut watched = Watched::start(&fixture, "100ms");
    let mut seen = BTreeSet::new();
    let mut compared = 0;
    for _ in 0..10 {
        let before = listed(&lock).await;
        let (_, shown, _) = ran(fixture.program(["inspect", "--json"])).await;
        let after = listed(&lock).await;
        if before.iter().map(view).eq(after.iter().map(view)) {
            let once = nodes(&shown);
            assert!(
                once.iter().map(view_of).eq(after.iter().map(view)),
                "{once:?}, the server has {after:?}"
            );
            compared += 1;
        }
        let shown = watched.next().await;
        let sequences: Vec<_> = shown.iter().map(|node| view_of(node).0).collect();
        assert!(sequences.is_sorted_by(|one, next| one < next), "{sequences:?}");
        assert!(shown.iter().filter(|node| view_of(node).1).count() <= 1, "one holds: {shown:?}");
        seen.extend(sequences);
        let holder =
            after.first().expect("a holder").label.strip_prefix("process ").expect("ours").to_owned();
        let holder: usize = holder.parse().expect("a number");
        if let Some(id) = processes[holder].id() {
            kill_process(pid_of(Some(id)), Signal::TERM).expect("it runs");
            processes[holder].wait().await.expect("an end");
        }
    }
    assert!(seen.len() >= PROCESSES - 1, "all were shown: {}", seen.len());
    let server: Vec<_> = listed(&lock).await.iter().map(view).collect();
    let same = async { while watched.next().await.iter().map(view_of).collect::<Vec<_>>() != server {} };
    timeout(SOON, same).await.expect("the view shows the state of the server");
    assert!(compared > 0, "the queue did not change during at least one view");
    watched.end().await;
    let mut left: Vec<_> = processes.into_iter().filter(|process| process.id().is_some()).collect();
    end(&mut left).await;
    coordinator.close().await.expect("a close");
}

/// The count of commands would include commands inside scripts.
async fn requests(fixture: &Fixture) -> u64 {
    let stats = ask(fixture.server.addr(), "INFO stats\r\nQUIT\r\n").await.expect("statistics");
    let count =
        stats.lines().find_map(|line| line.strip_prefix("total_reads_processed:")?.trim().parse().ok());
    count.unwrap_or_else(|| panic!("no count of reads in {stats}"))
}

/// At most ten requests, also with many waiters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_takes_few_requests_a_look_with_many_waiters() {
    const LOOKS: u64 = 20;
    let fixture = Fixture::quiet().await;
    let coordinator = fixture.client().await;
    let lock = coordinator.mutex(KEY).expect("a lock");
    let guard = lock.acquire().await.expect("held");
    let waits = |_| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().await })
    };
    let waiters: Vec<_> = (1..PROCESSES).map(waits).collect();
    let all = async { while listed(&lock).await.len() < PROCESSES {} };
    timeout(3 * SOON, all).await.expect("all wait in time");
    let mut watched = Watched::start(&fixture, "100ms");
    assert_eq!(watched.next().await.len(), PROCESSES);
    let before = requests(&fixture).await;
    for _ in 0..LOOKS {
        assert_eq!(watched.next().await.len(), PROCESSES);
    }
    let sent = requests(&fixture).await - before;
    println!("{sent} requests in {LOOKS} looks");
    // The next view can have begun.
    assert!((LOOKS..=10 * (LOOKS + 1)).contains(&sent), "{sent} requests in {LOOKS} looks");
    watched.end().await;
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    drop(guard);
    coordinator.close().await.expect("a close");
}

#[tokio::test]
async fn each_kind_and_key_is_shown_with_its_reason_and_nothing_of_others() {
    let fixture = Fixture::new().await;
    let coordinator = fixture.client().await;
    let _mutex = coordinator.mutex(KEY).expect("a lock").acquire().await.expect("held");
    let semaphore = coordinator.semaphore(KEY, 3).expect("a semaphore");
    let _permits = semaphore.acquire(2).await.expect("held");
    let other = fixture.client().await;
    let waits = other.semaphore(KEY, 3).expect("a semaphore");
    let waiting = tokio::spawn(async move { waits.acquire(2).await });
    while semaphore.queue().first(9).await.expect("a queue").len() < 2 {
        sleep(Duration::from_millis(5)).await;
    }
    let both = shown(&fixture.url, &["inspect", "the/"]).await;
    assert!(both.contains("mutex/the/lock  1 holder, 0 waiters") && !both.contains('\u{1b}'), "{both}");
    assert!(both.contains("semaphore/the/lock  1 holder, 1 waiter, limit 3"), "{both}");
    assert!(both.contains("2 free permits, 1 is free") && both.contains("2 permits"), "{both}");
    assert!(!shown(&fixture.url, &["inspect", "mutex/the/lock"]).await.contains("semaphore"));
    let nothing = shown(&fixture.url, &["inspect", "mutex/nothing"]).await;
    assert_eq!(nothing, "no holder and no waiter at mutex/nothing\n");
    let namespaced = format!("{}&namespace=other", fixture.url);
    let nothing = shown(&fixture.url, &["inspect", "--url", &namespaced]).await;
    assert_eq!(nothing, "no holder and no waiter\n");
    waiting.abort();
}

#[tokio::test]
async fn forced_release_warns_asks_and_removes_only_its_node() {
    let fixture = Fixture::new().await;
    let run = fixture.lock(&[], WAITS).await;
    let lock = fixture.client().await.mutex(KEY).expect("a lock");
    let sequence = listed(&lock).await[0].sequence.to_string();
    let queue = format!("mutex/{KEY}");
    let release =
        |more: &[&str]| ran(fixture.program([&["release", &queue, "--sequence", &sequence], more].concat()));
    let (code, _, said) = release(&[]).await;
    assert!(code == Some(125) && said.contains("--yes"), "no terminal: {said}");

    let program = env!("CARGO_BIN_EXE_latchwork");
    let script = format!("echo $$; exec {program} release {queue} --sequence {sequence}");
    let (mut terminal, mut asked) = Terminal::run(&fixture, &["sh", "-c", &script]).await;
    let mut warning = String::new();
    while !warning.contains("Type yes:") {
        warning += &asked.line().await;
    }
    assert!(warning.contains("fencing") && warning.contains("holder"), "{warning}");
    terminal.types(b"no\n").await;
    assert_eq!(asked.over().await.code(), 125);
    assert!(crate::common::alive(run.command), "no means no");

    assert_eq!(release(&["--yes"]).await.0, Some(0));
    run.loses_its_hold("").await;
    let (code, _, said) = release(&["--yes"]).await;
    assert!(code == Some(120) && said.contains("any more"), "{said}");
}
