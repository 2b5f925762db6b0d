use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use futures_util::StreamExt;

use latchwork::{Config, Coordinator, HoldState, Moment};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{MissedTickBehavior, timeout};

use super::deadline::Bounds;
use super::descendants;
use super::job::{Held, Job};
use super::message::{GuardReport, Order};
use super::own_program::own_program;
use super::signals::Received;
use crate::exit::{self, Ended};
use crate::failure::Failure;

/// A signal of a terminal reaches all its processes in this time.
const A_MOMENT: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Ending {
    pub(super) code: Ended,
    pub(super) warned: bool,
}

pub(super) struct Supervisor<'a> {
    coordinator: &'a Coordinator,
    config: &'a Config,
    job: &'a Job,
    held: &'a Held,
    bounds: Bounds,
    from_terminal: Option<i32>,
    warned: bool,
}

struct GuardProcess {
    process: Child,
    reports: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        coordinator: &'a Coordinator,
        config: &'a Config,
        job: &'a Job,
        held: &'a Held,
    ) -> Self {
        let lease = coordinator.lease();
        let fixed_end = job.max_hold.map_or(Moment::NEVER, |most| lease.clock().now() + most);
        let bounds = Bounds { grace: job.grace, ttl: lease.ttl(), fixed_end };
        Self { coordinator, config, job, held, bounds, from_terminal: None, warned: false }
    }

    /// After an error the command is gone.
    pub(super) async fn run(mut self, signals: &mut UnboundedReceiver<Received>) -> Result<Ending, Failure> {
        let failed = |error| Failure::machine("the guard of the command failed", error);
        // Adopts the orphans of a killed guard.
        descendants::adopt().map_err(failed)?;
        let guard = self.start().await.map_err(failed)?;
        self.watch(guard, signals).await
    }

    async fn start(&self) -> io::Result<GuardProcess> {
        // Passing on a descriptor needs unsafe code.
        let folder = tempfile::Builder::new().prefix("latchwork-").tempdir()?;
        let socket = folder.path().join("guard");
        let listener = UnixListener::bind(&socket)?;
        let mut children = signal(SignalKind::child())?;
        let mut process = Command::new(own_program()?)
            .arg0("latchwork")
            .args(self.arguments(&socket))
            .envs(self.environment())
            .spawn()?;
        let stream = loop {
            tokio::select! {
                came = listener.accept() => break came?.0,
                _ = children.recv() => if process.try_wait()?.is_some() {
                    return Err(io::Error::other("the guard did not start"));
                },
            }
        };
        let (reads, orders) = stream.into_split();
        Ok(GuardProcess { process, reports: BufReader::new(reads).lines(), orders })
    }

    fn arguments(&self, socket: &Path) -> Vec<OsString> {
        let grace = humantime::format_duration(self.job.grace).to_string();
        let mut arguments: Vec<OsString> =
            vec!["internal-guard".into(), socket.into(), grace.into(), "--".into()];
        arguments.extend(self.job.command.iter().cloned());
        arguments
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("LATCHWORK_KEY", self.job.key.clone()),
            ("LATCHWORK_URL", self.config.url_without_secrets()),
            ("LATCHWORK_SEQUENCE", self.held.sequence.to_string()),
        ];
        if let Some(fence) = self.held.fence {
            variables.push(("LATCHWORK_TOKEN", fence.to_string()));
        }
        variables
    }

    async fn watch(
        &mut self,
        mut guard: GuardProcess,
        signals: &mut UnboundedReceiver<Received>,
    ) -> Result<Ending, Failure> {
        let mut states = self.held.hold.states();
        let mut ticks = tokio::time::interval(self.bounds.period());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut over = false;
        loop {
            tokio::select! {
                biased;
                report = guard.reports.next_line() => {
                    let report = report.ok().flatten().and_then(|line| line.parse::<GuardReport>().ok());
                    let Some(report) = report else { return Err(abandoned(guard.process).await) };
                    if let Some(code) = self.heard(report, signals).await {
                        return self.conclude(guard, code);
                    }
                }
                state = states.next(), if !over => match state {
                    Some(HoldState::Ended(_)) | None => {
                        over = true;
                        guard.order(Order::Kill).await;
                    }
                    Some(_) => self.inform(&mut guard).await,
                },
                Some(signal) = signals.recv() => self.pass_on(&mut guard, signal).await,
                _ = ticks.tick(), if !over => self.inform(&mut guard).await,
            }
        }
    }
}

impl Supervisor<'_> {
    async fn inform(&mut self, guard: &mut GuardProcess) {
        let now = self.coordinator.lease().clock().now();
        guard.order(self.bounds.order(now, &self.held.hold)).await;
    }

    async fn pass_on(&mut self, guard: &mut GuardProcess, signal: Received) {
        if signal.from_terminal {
            self.from_terminal = Some(signal.number);
        } else {
            guard.order(Order::Signal(signal.number)).await;
        }
    }

    async fn heard(
        &mut self,
        report: GuardReport,
        signals: &mut UnboundedReceiver<Received>,
    ) -> Option<Ended> {
        match report {
            GuardReport::Exited(code) => Some(Ended::With(u8::try_from(code).unwrap_or(u8::MAX))),
            GuardReport::Signalled(number) => Some(match self.was_typed(number, signals).await {
                true => Ended::By(number),
                false => Ended::With(exit::by_signal(number)),
            }),
            GuardReport::Started => None,
            GuardReport::Warned => {
                self.warned = true;
                None
            }
        }
    }

    /// If Ctrl-C ended the command, it should also end the script that started this program, whose own signal
    /// can arrive later.
    async fn was_typed(&mut self, number: i32, signals: &mut UnboundedReceiver<Received>) -> bool {
        let typed = Received { number, from_terminal: true };
        while self.from_terminal != Some(number) {
            match timeout(A_MOMENT, signals.recv()).await {
                Ok(Some(received)) if received == typed => self.from_terminal = Some(number),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return false,
            }
        }
        true
    }

    fn conclude(&self, mut guard: GuardProcess, code: Ended) -> Result<Ending, Failure> {
        // The guard exits after its last report.
        guard.process.wait().map_err(|error| Failure::machine("the guard did not end", error))?;
        Ok(Ending { code, warned: self.warned })
    }
}

impl GuardProcess {
    /// The end of the reports shows that the guard is gone.
    async fn order(&mut self, order: Order) {
        let _ = self.orders.write_all(format!("{order}\n").as_bytes()).await;
    }
}

/// On Linux the command has died with its guard, and this process kills its adopted children before the
/// release.
async fn abandoned(mut guard: Child) -> Failure {
    let _ = guard.wait();
    descendants::kill_all(None, |_, _| {}).await;
    Failure::new(exit::LOST, "the guard of the command was killed, and the command with it")
        .next("start the command again")
}
