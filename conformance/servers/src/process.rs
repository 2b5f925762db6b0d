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

/// For an orderly end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kills the process `$1` and removes its folder `$2` when its standard input ends without a line: the
/// process that started both has ended.
const WATCHDOG: &str =
    "trap '' INT TERM HUP; read -r _ && exit 0; kill -KILL \"$1\"; sleep 1; rm -rf -- \"$2\"";

/// The watchdog ends the program if this process cannot. A drop kills the program, and waits for its end.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: Pid,
    watchdog: std::process::Child,
}

impl Process {
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
        // In a separate group, an interrupt from the keyboard reaches only this process, which ends the
        // program.
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

    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    pub(super) async fn ended(&mut self) -> Result<ExitStatus, ServerError> {
        self.child.wait().await.map_err(ServerError::io("waiting for a server"))
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        kill_process(self.pid, signal)
            .map_err(|errno| ServerError::Io { what: format!("sending {signal:?}"), source: errno.into() })
    }

    /// Kills the program after [`PATIENCE`].
    pub(super) async fn stop(mut self) -> Result<(), ServerError> {
        self.signal(Signal::TERM)?;
        // A paused program does not react to the signal.
        self.signal(Signal::CONT)?;
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(ended) => ended.map(drop).map_err(ServerError::io("waiting for a server")),
            Err(_) => self.kill().await,
        }
    }

    pub(super) async fn kill(mut self) -> Result<(), ServerError> {
        self.child.kill().await.map_err(ServerError::io("killing a server"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        let given_up = Instant::now() + Duration::from_secs(2);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < given_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A line ends the watchdog without a kill.
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

/// When `kill` returns, a thread on another core may still run, and SIGSTOP causes no event.
pub(super) async fn until_stopped(pid: u32) -> Result<(), ServerError> {
    let stopped = async {
        while !is_stopped(pid).map_err(ServerError::io("looking at a server's threads"))? {
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    };
    let late = || io::Error::new(io::ErrorKind::TimedOut, "the process continues after SIGSTOP");
    timeout(PATIENCE, stopped)
        .await
        .unwrap_or_else(|_| Err(ServerError::io("stopping a server's threads")(late())))
}

fn is_stopped(pid: u32) -> io::Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        match fs::read_to_string(thread?.path().join("stat")) {
            // The state is the first field after the name, which may contain any text.
            Ok(stat) if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')) => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
