//! The parent's side of a child process.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use latchwork_core::Config;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::role::{Order, Role};
use super::start::command;
use crate::bounds::PATIENCE;
use crate::waits::within;

/// A child process and its events. A drop kills the process.
///
/// A method panics if the child does not react in time. The message contains the child's standard error.
#[derive(Debug)]
pub struct Child<E> {
    /// The process.
    pub process: Process,
    /// Its events.
    pub events: Events<E>,
}

/// A child process without its events.
#[derive(Debug)]
pub struct Process {
    child: tokio::process::Child,
    orders: Option<ChildStdin>,
    stderr: File,
}

/// The events of a child process. They are always read, because a full pipe would stop the child.
#[derive(Debug)]
pub struct Events<E> {
    read: UnboundedReceiver<Result<E, String>>,
    reading: AbortHandle,
}

/// Reads an event from a line. `None` for a line without an event.
type Parse<E> = fn(&str) -> Option<Result<E, String>>;

impl<E: DeserializeOwned + Send + 'static> Child<E> {
    /// Starts this program again, in a role.
    pub fn start<R: Role<Event = E>>(config: &Config, role: &R) -> Self {
        Self::of(command(config, None, role))
    }

    /// Starts a program whose events are lines of JSON.
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        Self::piped(command, json)
    }
}

impl Child<String> {
    /// Starts a program whose events are lines of text. Its standard input remains as the command has it.
    pub fn of_text(command: Command) -> Self {
        Self::piped(command, text)
    }

    /// Starts a program on a terminal. The terminal is the standard output of the command, and `screen` is its other side.
    pub fn on_terminal(command: Command, screen: impl AsyncRead + Unpin + Send + 'static) -> Self {
        Self::reading(Process::start(command), screen, text)
    }

    /// Reads up to the line with this text, which must come soon, and returns the line.
    ///
    /// # Panics
    /// If the line does not come.
    pub async fn says(&mut self, text: &str) -> String {
        let line = async {
            loop {
                let line = self.next().await;
                if line.contains(text) {
                    return line;
                }
            }
        };
        within(PATIENCE, &format!("the line {text:?}"), line).await
    }
}

impl<E: Send + 'static> Child<E> {
    fn piped(mut command: Command, parse: Parse<E>) -> Self {
        command.stdout(Stdio::piped());
        let mut process = Process::start(command);
        let out = process.child.stdout.take().expect("piped");
        Self::reading(process, out, parse)
    }

    fn reading(process: Process, out: impl AsyncRead + Unpin + Send + 'static, parse: Parse<E>) -> Self {
        let (said, read) = unbounded_channel();
        let reading = tokio::spawn(hear(out, parse, said)).abort_handle();
        Self { process, events: Events { read, reading } }
    }

    /// Returns the next event, which must come soon.
    ///
    /// # Panics
    /// If the child ends first, or is silent for too long.
    pub async fn next(&mut self) -> E {
        self.next_within(PATIENCE).await
    }

    /// Returns the next event, which must come within this time.
    ///
    /// # Panics
    /// If the child ends first, or is silent for longer.
    pub async fn next_within(&mut self, time: Duration) -> E {
        match timeout(time, self.events.next()).await {
            Ok(Some(event)) => event,
            Ok(None) => {
                let status = within(PATIENCE, "the end of the child", self.process.ended()).await;
                self.process.fail(&format!("the child has ended: {status}"))
            }
            Err(_) => self.process.fail(&format!("the child reports nothing within {time:?}")),
        }
    }

    /// Gives the order to release, waits for a successful end, and returns the events up to then.
    ///
    /// # Panics
    /// If it does not end soon, or fails.
    pub async fn release(mut self) -> Vec<E> {
        self.process.tell(Order::Release).await;
        self.ends(PATIENCE).await
    }

    /// Waits for a successful end within this time, and returns the events up to then.
    ///
    /// # Panics
    /// If it does not end in time, or fails.
    pub async fn ends(self, time: Duration) -> Vec<E> {
        let Self { mut process, mut events } = self;
        // Together: a line that is not an event is reported before the failure that it causes.
        tokio::join!(process.ends_well(time), events.rest()).1
    }

    /// Kills the child, and returns the events up to then.
    pub async fn kill(mut self) -> Vec<E> {
        self.process.kill().await;
        self.events.rest().await
    }
}

impl Process {
    fn start(mut command: Command) -> Self {
        let stderr = tempfile::tempfile().expect("a temporary file");
        command.stderr(stderr.try_clone().expect("a handle")).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        Self { orders: child.stdin.take(), child, stderr }
    }

    /// Gives an order to a child in a role.
    ///
    /// # Panics
    /// If the child has ended.
    pub async fn tell(&mut self, order: Order) {
        self.write_line(&serde_json::to_string(&order).expect("an order is JSON")).await;
    }

    /// Writes a line to the standard input of the child.
    ///
    /// # Panics
    /// If the child has ended, or its standard input is not a pipe.
    pub async fn write_line(&mut self, line: &str) {
        let orders = self.orders.as_mut().expect("a pipe");
        if let Err(error) = orders.write_all(format!("{line}\n").as_bytes()).await {
            self.fail(&format!("the child does not read {line:?}: {error}"));
        }
    }

    /// Sends SIGKILL.
    ///
    /// # Panics
    /// If that is not possible.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("killed");
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// If the child has ended.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("signalled");
    }

    /// Returns the process id.
    ///
    /// # Panics
    /// If the child has ended.
    pub fn pid(&self) -> Pid {
        self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("the child lives")
    }

    /// Waits for the end of the child.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Panics
    /// If the system does not report the exit status.
    pub async fn ended(&mut self) -> ExitStatus {
        self.child.wait().await.expect("waited")
    }

    /// Waits for a successful end, within this time.
    ///
    /// # Panics
    /// If it does not end in time, or fails.
    pub async fn ends_well(&mut self, time: Duration) {
        match timeout(time, self.ended()).await {
            Ok(status) if status.success() => {}
            Ok(status) => self.fail(&format!("the child has failed: {status}")),
            Err(_) => self.fail(&format!("the child does not end within {time:?}")),
        }
    }

    fn fail(&self, why: &str) -> ! {
        panic!("{why}\n{}", self.stderr())
    }

    /// Returns the standard error of the child up to now.
    pub fn stderr(&self) -> String {
        let mut text = vec![0; self.stderr.metadata().map_or(0, |file| file.len() as usize)];
        // The file has one position, which is the child's: this reads without moving it.
        match self.stderr.read_exact_at(&mut text, 0) {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => format!("(its standard error cannot be read: {error})"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprint!("{}", self.stderr());
        }
    }
}

impl<E> Events<E> {
    /// Returns the next event, or `None` at the end of the child's output.
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost.
    ///
    /// # Panics
    /// If a line of the child is not such an event.
    pub async fn next(&mut self) -> Option<E> {
        self.read.recv().await.map(|event| event.unwrap_or_else(|why| panic!("{why}")))
    }

    /// Returns all events up to the end of the child's output.
    ///
    /// # Panics
    /// The same as for [`next`](Self::next).
    pub async fn rest(&mut self) -> Vec<E> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// Closes the child's output.
    pub fn close(&mut self) {
        self.reading.abort();
    }
}

fn json<E: DeserializeOwned>(line: &str) -> Option<Result<E, String>> {
    match line {
        // The test harness prints these before its test begins, and while it runs.
        "\n" | "running 1 test\n" => None,
        _ if line.ends_with(" has been running for over 60 seconds\n") => None,
        // The last line of a child that is killed may be cut off.
        _ if !line.ends_with('\n') => None,
        _ => Some(serde_json::from_str(line).map_err(|error| format!("{line:?} is not an event: {error}"))),
    }
}

fn text(line: &str) -> Option<Result<String, String>> {
    Some(Ok(line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Reads the output of a child to its end.
async fn hear<E>(out: impl AsyncRead + Unpin, parse: Parse<E>, said: UnboundedSender<Result<E, String>>) {
    let (mut out, mut line) = (BufReader::new(out), String::new());
    loop {
        line.clear();
        let event = match out.read_line(&mut line).await {
            Ok(0) => return,
            Ok(_) => parse(&line),
            Err(error) => Some(Err(format!("the output of the child cannot be read: {error}"))),
        };
        let Some(event) = event else { continue };
        let is_bad = event.is_err();
        // The parent may need no more events.
        let _ = said.send(event);
        if is_bad {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_harness_lines_are_not_events() {
        for line in ["\n", "running 1 test\n", "test a::b has been running for over 60 seconds\n", "{\"cut o"]
        {
            assert!(json::<u32>(line).is_none(), "{line:?}");
        }
        assert_eq!(json("7\n"), Some(Ok(7)));
        assert!(
            matches!(json::<u32>("seven\n"), Some(Err(why)) if why.contains("\"seven\\n\" is not an event"))
        );
    }
}
