//! A server program that runs, and cannot outlive us.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::ServerError;
use crate::locate::Program;

/// How long a server may take to end when it is asked to, before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kills the process `$1` and removes its folder `$2` once its standard input ends without a word:
/// then the process that started both is gone, however it went.
const WATCHDOG: &str =
    "trap '' INT TERM HUP; read -r _ && exit 0; kill -KILL \"$1\"; sleep 1; rm -rf -- \"$2\"";

/// A running program, and the watchdog that ends it if we cannot.
///
/// Dropping it kills the program, and waits the moment that takes.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: Pid,
    watchdog: std::process::Child,
}

impl Process {
    /// Starts a program in `folder`, its output in `log`.
    pub(super) fn spawn(
        program: &Program,
        args: &[String],
        environment: &[(String, String)],
        folder: &Path,
        log: &Path,
    ) -> Result<Process, ServerError> {
        let what = || format!("starting {}", program.command.display());
        let output = File::options().create(true).append(true).open(log).map_err(ServerError::io(what()))?;
        let errors = output.try_clone().map_err(ServerError::io(what()))?;
        let mut command = Command::new(&program.command);
        command.args(args).envs(environment.iter().cloned()).current_dir(folder);
        if let Ok(path) = std::env::join_paths(&program.libraries)
            && !path.is_empty()
        {
            command.env("LD_LIBRARY_PATH", path);
        }
        // In its own group, so that an interrupt from the keyboard reaches us first: we end it.
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0).kill_on_drop(true);
        let child = command.spawn().map_err(ServerError::io(what()))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).ok_or_else(|| {
            ServerError::Io { what: what(), source: std::io::Error::other("it has no process id") }
        })?;
        let watchdog = watch_over(pid, folder).map_err(ServerError::io("starting sh"))?;
        Ok(Process { child, pid, watchdog })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Whether the program has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for the program's end.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, ServerError> {
        self.child.wait().await.map_err(ServerError::io("waiting for a server"))
    }

    /// Sends a signal.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        kill_process(self.pid, signal)
            .map_err(|errno| ServerError::Io { what: format!("sending {signal:?}"), source: errno.into() })
    }

    /// Asks the program to end, and sees to it that it does.
    pub(super) async fn stop(mut self) -> Result<(), ServerError> {
        self.signal(Signal::TERM)?;
        // A paused program would not hear.
        self.signal(Signal::CONT)?;
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(ended) => ended.map(drop).map_err(ServerError::io("waiting for a server")),
            Err(_) => self.kill().await,
        }
    }

    /// Kills the program: what a crash looks like.
    pub(super) async fn kill(mut self) -> Result<(), ServerError> {
        self.child.kill().await.map_err(ServerError::io("killing a server"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.start_kill();
        // The folder is removed after this, and a dying server must not write into it any more:
        // wait the moment it takes.
        let given_up = Instant::now() + Duration::from_secs(2);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < given_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Only a word, not the end of its input, sends the watchdog home. If it is gone already, so
        // be it.
        if let Some(mut input) = self.watchdog.stdin.take() {
            let _ = input.write_all(b"done\n");
        }
        let _ = self.watchdog.wait();
    }
}

fn watch_over(pid: Pid, folder: &Path) -> std::io::Result<std::process::Child> {
    use std::os::unix::process::CommandExt;
    std::process::Command::new("sh")
        .args(["-c", WATCHDOG, "watchdog"])
        .arg(pid.as_raw_nonzero().to_string())
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Waits until every thread of a process that was sent SIGSTOP has stopped: the signal is on its
/// way when `kill` returns, and a thread on another core may still answer. There is no event for
/// it, so it is polled.
///
/// # Errors
/// When the process does not stop, or cannot be looked at.
pub(super) async fn until_stopped(pid: u32) -> Result<(), ServerError> {
    let stopped = async {
        while !is_stopped(pid).map_err(ServerError::io("looking at a server's threads"))? {
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    };
    let late = || io::Error::new(io::ErrorKind::TimedOut, "it goes on after SIGSTOP");
    timeout(PATIENCE, stopped)
        .await
        .unwrap_or_else(|_| Err(ServerError::io("stopping a server's threads")(late())))
}

fn is_stopped(pid: u32) -> io::Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        match fs::read_to_string(thread?.path().join("stat")) {
            // The state is the first field behind the name, which may hold anything.
            Ok(stat) if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')) => {}
            Ok(_) => return Ok(false),
            // A thread that has ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
