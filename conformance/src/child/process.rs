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
use crate::bounds::{CONNECT, PATIENCE};
use crate::waits::within;

/// A child process, which a drop kills.
///
/// Methods panic with its standard error if it ends, fails or is silent.
#[derive(Debug)]
pub struct Child<E> {
    /// The process.
    pub process: Process,
    /// The events.
    pub events: Events<E>,
}

/// A child without its events. Methods panic like [`Child`]'s.
#[derive(Debug)]
pub struct Process {
    child: tokio::process::Child,
    orders: Option<ChildStdin>,
    stderr: File,
}

/// Events, which are always read: a full pipe would stop the child. Other lines are a panic.
#[derive(Debug)]
pub struct Events<E> {
    read: UnboundedReceiver<Result<E, String>>,
    reading: AbortHandle,
}

type Parse<E> = fn(&str) -> Option<Result<E, String>>;

impl<E: DeserializeOwned + Send + 'static> Child<E> {
    /// Starts this program in a role.
    pub fn start<R: Role<Event = E>>(config: &Config, role: &R) -> Self {
        Self::of(command(config, None, role))
    }

    /// Starts a program with events in JSON.
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        Self::piped(command, json)
    }
}

impl Child<String> {
    /// Starts a program with lines of text as events.
    pub fn of_text(command: Command) -> Self {
        Self::piped(command, text)
    }

    /// Starts a program on the terminal of `screen`.
    pub fn on_terminal(command: Command, screen: impl AsyncRead + Unpin + Send + 'static) -> Self {
        Self::reading(Process::start(command), screen, text)
    }

    /// Waits for the line with this text.
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

    /// Returns the next event.
    pub async fn next(&mut self) -> E {
        // A child may wait for a lost reply, for a request timeout of up to `CONNECT`, and again after others
        // have written.
        self.next_within(PATIENCE + 2 * CONNECT).await
    }

    /// Returns the next event, within this time.
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

    /// Releases, and returns the remaining events of a successful end.
    pub async fn release(mut self) -> Vec<E> {
        self.process.tell(Order::Release).await;
        self.ends(PATIENCE).await
    }

    /// Returns the remaining events of a successful end.
    pub async fn ends(self, time: Duration) -> Vec<E> {
        let Self { mut process, mut events } = self;
        // A bad line is reported before the failure that it causes.
        tokio::join!(process.ends_well(time), events.rest()).1
    }

    /// Kills it, and returns the remaining events.
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

    /// Gives an order.
    pub async fn tell(&mut self, order: Order) {
        self.write_line(&serde_json::to_string(&order).expect("an order is JSON")).await;
    }

    /// Writes a line to its standard input.
    pub async fn write_line(&mut self, line: &str) {
        let orders = self.orders.as_mut().expect("a pipe");
        if let Err(error) = orders.write_all(format!("{line}\n").as_bytes()).await {
            self.fail(&format!("the child does not read {line:?}: {error}"));
        }
    }

    /// Sends SIGKILL.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("killed");
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("signalled");
    }

    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("the child lives")
    }

    /// Waits for its end. Cancel safe.
    pub async fn ended(&mut self) -> ExitStatus {
        self.child.wait().await.expect("waited")
    }

    /// Waits for its success.
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

    /// Returns its standard error.
    pub fn stderr(&self) -> String {
        let mut text = vec![0; self.stderr.metadata().map_or(0, |file| file.len() as usize)];
        // Without moving the child's position in the file.
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
    /// Returns the next event. Cancel safe.
    pub async fn next(&mut self) -> Option<E> {
        self.read.recv().await.map(|event| event.unwrap_or_else(|why| panic!("{why}")))
    }

    /// Returns all remaining events.
    pub async fn rest(&mut self) -> Vec<E> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// Closes the output.
    pub fn close(&mut self) {
        self.reading.abort();
    }
}

fn json<E: DeserializeOwned>(line: &str) -> Option<Result<E, String>> {
    match line {
        // Lines of the test harness.
        "\n" | "running 1 test\n" => None,
        _ if line.ends_with(" has been running for over 60 seconds\n") => None,
        // A kill may cut off the last line.
        _ if !line.ends_with('\n') => None,
        _ => Some(serde_json::from_str(line).map_err(|error| format!("{line:?} is not an event: {error}"))),
    }
}

fn text(line: &str) -> Option<Result<String, String>> {
    Some(Ok(line.trim_end_matches(['\r', '\n']).to_owned()))
}

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
