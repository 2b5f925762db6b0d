//! Without a terminal.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use crate::common::{COUNTS, Fixture, KEY, Next, Run, SHORT_TTL, WAITS, alive, command, gone, pid_of};

/// The guard alone ends the command, and may be stalled for a tenth of this, the margin.
const GUARDED_TTL: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_command_that_ends_gives_its_code_and_the_lock_back() {
    let fixture = Fixture::new().await;
    let (run, next) =
        fixture.contended(&[], "trap 'exit 7' USR1; echo $$; while :; do sleep 0.05; done").await;
    kill_process(run.command, Signal::USR1).expect("it runs");
    assert_eq!(run.over().await.code(), 7);
    next.holds_alone().await;
}

/// The control: a command without a guard outlives its hold.
#[tokio::test]
#[should_panic(expected = "the command still ran when another held")]
async fn control_a_command_that_runs_on_is_noticed() {
    let fixture = Fixture::new().await;
    let mut unguarded =
        tokio::process::Command::new("sleep").arg("300").kill_on_drop(true).spawn().expect("it starts");
    let holder = fixture.client().await;
    let held = holder.mutex(KEY).expect("a lock").acquire().await.expect("it holds");
    let next = Next::behind(&fixture, pid_of(unguarded.id())).await;
    drop(held);
    next.holds_alone().await;
    unguarded.kill().await.expect("killed");
}

#[tokio::test]
async fn sigterm_sigint_sighup_and_sigquit_are_passed_on() {
    let fixture = Fixture::new().await;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let (run, next) = fixture.contended(&[], WAITS).await;
        run.signal(signal);
        run.command_is_gone().await;
        assert_eq!(run.over().await.status.code(), Some(128 + signal.as_raw()), "{signal:?}");
        // A lease would end later than this waits.
        next.holds_alone().await;
    }
}

#[tokio::test]
async fn a_command_that_handles_a_signal_hears_it_once_and_gives_its_own_code() {
    let fixture = Fixture::new().await;
    let mut run = fixture.lock(&[], COUNTS).await;
    run.signal(Signal::TERM);
    assert_eq!(run.line().await, "signals 1");
    assert_eq!(run.over().await.code(), 3);
}

#[tokio::test]
async fn a_command_that_was_killed_gives_128_and_the_signal() {
    let fixture = Fixture::new().await;
    let (run, next) = fixture.contended(&[], WAITS).await;
    kill_process(run.command, Signal::KILL).expect("it runs");
    assert_eq!(run.over().await.status.code(), Some(137));
    next.holds_alone().await;
}

#[tokio::test]
async fn a_command_that_is_stopped_keeps_the_lock() {
    let fixture = Fixture::short().await;
    let (run, next) = fixture.contended(&[], WAITS).await;
    kill_process(run.command, Signal::STOP).expect("it runs");
    tokio::time::sleep(SHORT_TTL + Duration::from_secs(1)).await;
    assert!(alive(run.command) && !next.holds_already());
    kill_process(run.command, Signal::CONT).expect("it runs");
    run.terminate().await;
    next.holds_alone().await;
}

#[tokio::test]
async fn a_program_that_was_killed_takes_the_command_with_it_before_another_holds() {
    let fixture = Fixture::short().await;
    let (run, next) =
        fixture.contended(&["--grace", "300ms"], "trap '' TERM; echo $$; sleep 300 & wait; sleep 300").await;
    run.signal(Signal::KILL);
    run.command_is_gone().await;
    next.holds_alone().await;
}

#[tokio::test]
async fn a_guard_that_was_killed_takes_the_command_with_it() {
    let fixture = Fixture::new().await;
    let (run, next) = fixture.contended(&[], WAITS).await;
    kill_process(run.guard(), Signal::KILL).expect("it runs");
    run.command_is_gone().await;
    run.loses_its_hold("guard").await;
    next.holds_alone().await;
}

#[tokio::test]
async fn a_program_and_a_guard_that_were_killed_together_take_the_command_with_them() {
    let fixture = Fixture::short().await;
    let (run, next) = fixture.contended(&[], WAITS).await;
    let guard = run.guard();
    // The guard cannot act.
    kill_process(guard, Signal::STOP).expect("it runs");
    run.signal(Signal::KILL);
    kill_process(guard, Signal::KILL).expect("it runs");
    run.command_is_gone().await;
    next.holds_alone().await;
}

#[tokio::test]
async fn a_program_that_is_stopped_past_the_ttl_has_its_command_ended_in_time() {
    let fixture = Fixture::with_ttl(GUARDED_TTL).await;
    let (run, next) =
        fixture.contended(&["--grace", "300ms"], "trap '' TERM; echo $$; while :; do sleep 0.1; done").await;
    run.signal(Signal::STOP);
    next.holds_alone().await;
    run.signal(Signal::CONT);
    run.loses_its_hold("the lease expired").await;
}

/// As after Ctrl-Z: no process can end the command in time.
#[tokio::test]
async fn a_group_that_is_stopped_past_the_ttl_has_its_command_ended_at_once_when_it_goes_on() {
    let fixture = Fixture::with_ttl(GUARDED_TTL).await;
    let run = fixture.lock(&[], "trap '' TERM; echo $$; while :; do sleep 0.1; done").await;
    let (command, guard) = (run.command, run.guard());
    for process in [command, guard, run.pid()] {
        kill_process(process, Signal::STOP).expect("it runs");
    }
    let next = fixture.client().await;
    let held = next.mutex(KEY).expect("a lock").acquire().await.expect("it is free in time");
    let begun = Instant::now();
    for process in [run.pid(), guard, command] {
        kill_process(process, Signal::CONT).expect("it is there");
    }
    gone(command).await;
    assert!(begun.elapsed() < GUARDED_TTL / 2, "at once: {:?}", begun.elapsed());
    run.loses_its_hold("").await;
    held.release().await.expect("a release");
}

#[tokio::test]
async fn a_signal_while_it_waits_leaves_the_queue() {
    let fixture = Fixture::new().await;
    let holder = fixture.lock(&[], WAITS).await;
    let mut waiting = fixture.program(["lock", KEY, "--", "echo", "never"]).spawn().expect("it starts");
    let lock = fixture.client().await.mutex(KEY).expect("a lock");
    while lock.queue().first(9).await.expect("a queue").len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    kill_process(pid_of(waiting.id()), Signal::TERM).expect("it runs");
    let status = waiting.wait().await.expect("a status");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert_eq!(lock.queue().first(9).await.expect("a queue").len(), 1);
    holder.terminate().await;
}

/// The command of `nohup`, or in the background of a script, ignores it too.
#[tokio::test]
async fn a_signal_that_was_ignored_stays_ignored() {
    let fixture = Fixture::new().await;
    let program = env!("CARGO_BIN_EXE_latchwork");
    let script =
        format!("trap '' HUP; exec {program} lock {KEY} -- sh -c 'echo $$; read -r _; exec sleep 300'");
    let run = Run::start(command("sh", &fixture.url, ["-c", &script])).await;
    run.signal(Signal::HUP);
    kill_process(run.command, Signal::HUP).expect("it runs");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(alive(run.command));
    run.terminate().await;
}
