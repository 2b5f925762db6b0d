//! The guard ends the command in time, even if the program is stopped or killed: without a later report of
//! the program, it sends SIGTERM and then SIGKILL. It is in the process group of both, and no passed-on
//! signal ends it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use latchwork::{Clock, Moment};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{SignalKind, signal as on_signal};

use super::message::{GuardReport, Order};
use super::own_program::own_program;
use super::{descendants, exec, signals};
use crate::exit::Ended;
use crate::failure::{Failure, Outcome};

/// The arguments from the program.
#[derive(Debug, Args)]
pub(crate) struct GuardOrder {
    /// The socket on which the program listens.
    socket: PathBuf,
    /// The time that the command has to end when the program is gone.
    #[arg(value_parser = humantime::parse_duration)]
    grace: Duration,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(order: GuardOrder) -> Outcome {
    let failed = |error: std::io::Error| Failure::machine("the guard of the command failed", error);
    let _signals = signals::shrug_off().map_err(failed)?;
    descendants::adopt().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(guard(order)).map_err(failed)?;
    Ok(Ended::WELL)
}

struct Guard {
    clock: Clock,
    lines: Lines<BufReader<OwnedReadHalf>>,
    says: OwnedWriteHalf,
    child: Option<Pid>,
    status: Option<WaitStatus>,
    end: Moment,
    warn: Moment,
    grace: Duration,
    /// The command got SIGTERM because of its hold.
    warned: bool,
    abandoned: bool,
}

async fn guard(order: GuardOrder) -> std::io::Result<()> {
    let (reads, says) = UnixStream::connect(&order.socket).await?.into_split();
    let lines = BufReader::new(reads).lines();
    let mut guard = Guard {
        clock: Clock::system(),
        lines,
        says,
        child: None,
        status: None,
        end: Moment::NEVER,
        warn: Moment::NEVER,
        grace: order.grace,
        warned: false,
        abandoned: false,
    };
    let mut children = on_signal(SignalKind::child())?;
    // The command does not start before its deadline is known.
    let first = guard.lines.next_line().await;
    guard.obey(first).await?;
    if guard.abandoned {
        return Err(std::io::Error::other("the program is gone"));
    }
    let child =
        Command::new(own_program()?).arg0("latchwork").args(exec::arguments(&order.command)).spawn()?;
    guard.child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    guard.say(GuardReport::Started).await;
    while guard.status.is_none() {
        let clock = guard.clock.clone();
        tokio::select! {
            biased;
            () = clock.sleep_until(guard.end) => guard.kill().await,
            () = clock.sleep_until(guard.warn) => guard.warn().await,
            _ = children.recv() => guard.reap(),
            line = guard.lines.next_line(), if !guard.abandoned => guard.obey(line).await?,
        }
    }
    if guard.warned {
        // Processes that the command has left would continue.
        guard.kill().await;
    }
    guard.conclude().await;
    Ok(())
}

impl Guard {
    /// If the program is gone, the command gets SIGTERM and its grace, but no time after the last reported
    /// end.
    async fn obey(&mut self, line: std::io::Result<Option<String>>) -> std::io::Result<()> {
        match line.ok().flatten().map(|line| line.parse::<Order>()) {
            Some(Ok(Order::Until { end, warn })) => (self.end, self.warn) = (end, warn),
            Some(Ok(Order::Signal(number))) => self.send(signals::signal(number)),
            Some(Ok(Order::Kill)) => self.kill().await,
            Some(Err(_)) => return Err(std::io::Error::other("an order of the program is malformed")),
            None => {
                self.warn().await;
                self.end = self.end.min(self.clock.now() + self.grace);
                self.abandoned = true;
            }
        }
        Ok(())
    }

    async fn warn(&mut self) {
        self.warn = Moment::NEVER;
        if !self.warned {
            self.warned = true;
            self.send(Some(Signal::TERM));
            self.say(GuardReport::Warned).await;
        }
    }

    fn send(&self, signal: Option<Signal>) {
        // A command that has just exited is not reaped yet, so no other process has its number.
        if let (Some(child), Some(signal), None) = (self.child, signal, self.status) {
            let _ = kill_process(child, signal);
        }
    }

    async fn kill(&mut self) {
        let child = self.child.filter(|_| self.status.is_none());
        let (own, mut status) = (self.child, self.status);
        descendants::kill_all(child, |pid, ended| {
            if Some(pid) == own {
                status = Some(ended);
            }
        })
        .await;
        self.status = status;
        (self.end, self.warn) = (Moment::NEVER, Moment::NEVER);
    }

    /// Also reaps adopted orphans.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if Some(pid) == self.child {
                self.status = Some(status);
            }
        }
    }

    async fn conclude(&mut self) {
        let Some(status) = self.status else { return };
        let report = match status.terminating_signal() {
            Some(number) => GuardReport::Signalled(number),
            None => GuardReport::Exited(status.exit_status().unwrap_or(0)),
        };
        self.say(report).await;
    }

    /// The program can be gone.
    async fn say(&mut self, report: GuardReport) {
        let _ = self.says.write_all(format!("{report}\n").as_bytes()).await;
    }
}
