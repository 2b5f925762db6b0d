use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;

use crate::common::{COUNTS, Fixture, KEY, Next, WAITS};
use crate::terminal::{INTERRUPT, QUIT, Terminal};

#[tokio::test]
async fn command_reads_the_terminal_input() {
    let fixture = Fixture::new().await;
    let (mut terminal, mut run) =
        Terminal::lock(&fixture, KEY, "stty -echo; echo $$; read -r line; echo \"read $line\"").await;
    terminal.types(b"hello\n").await;
    assert_eq!(run.line().await.trim(), "read hello");
    assert_eq!(run.over().await.code(), 0);
}

#[tokio::test]
async fn ctrl_c_reaches_the_command_once() {
    let fixture = Fixture::new().await;
    for key in [INTERRUPT, QUIT] {
        let (mut terminal, mut run) = Terminal::lock(&fixture, KEY, COUNTS).await;
        terminal.types(&[key]).await;
        let line = loop {
            let line = run.line().await;
            if line.contains("signals") {
                break line;
            }
        };
        assert!(line.trim().ends_with("signals 1"), "{line:?}");
        assert_eq!(run.over().await.code(), 3);
    }
}

/// A signal from another program goes only to `latchwork`.
#[tokio::test]
async fn a_signal_of_another_program_reaches_the_command_at_a_terminal_too() {
    let fixture = Fixture::new().await;
    let (_terminal, mut run) = Terminal::lock(&fixture, KEY, COUNTS).await;
    run.signal(Signal::INT);
    assert_eq!(run.line().await.trim(), "signals 1");
    assert_eq!(run.over().await.code(), 3);
}

#[tokio::test]
async fn a_command_that_ctrl_c_ends_ends_the_program_by_the_same_signal() {
    let fixture = Fixture::new().await;
    let (mut terminal, run) = Terminal::lock(&fixture, KEY, WAITS).await;
    let next = Next::behind(&fixture, run.command).await;
    terminal.types(&[INTERRUPT]).await;
    let over = run.over().await;
    assert_eq!((over.status.signal(), over.code()), (Some(2), 130), "a script that runs it ends too");
    next.holds_alone().await;
}

/// SIGHUP goes only to the program, the leader of its session.
#[tokio::test]
async fn a_terminal_that_is_closed_ends_the_command() {
    let fixture = Fixture::new().await;
    let (terminal, mut run) = Terminal::lock(&fixture, KEY, WAITS).await;
    let next = Next::behind(&fixture, run.command).await;
    run.forget_lines();
    drop(terminal);
    run.command_is_gone().await;
    assert_eq!(run.over().await.code(), 129);
    next.holds_alone().await;
}
