//! The workers, as tasks or as processes.

use std::io::PipeReader;
use std::process::Stdio;

use latchwork::Coordinator;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::coordinators::Stage;
use crate::event::{Event, WORKERS, What};
use crate::worker::Plan;

/// A dropped crew ends them all.
pub(crate) struct Crew {
    members: Vec<Member>,
    // In the order of time, because a worker reports its release before it releases, and its hold after it
    // has acquired.
    events: mpsc::UnboundedReceiver<Event>,
    gate: watch::Sender<bool>,
}

enum Member {
    Task { coordinator: Coordinator, task: JoinHandle<bool> },
    Process { child: Box<Child>, input: ChildStdin },
}

impl Crew {
    pub(crate) async fn tasks(stage: &Stage) -> Result<Crew, String> {
        let (events, received) = mpsc::unbounded_channel();
        let (gate, opened) = watch::channel(false);
        let mut members = Vec::new();
        for plan in plans(stage) {
            let coordinator = plan.connect().await.map_err(|error| error.to_string())?;
            let (client, events, mut opened) = (coordinator.clone(), events.clone(), opened.clone());
            let task = tokio::spawn(async move {
                let tell = |what| {
                    let _ = events.send(Event::now(plan.worker, what));
                };
                let start = async {
                    let _ = opened.wait_for(|open| *open).await;
                };
                plan.carry_out(&client, start, tell).await
            });
            members.push(Member::Task { coordinator, task });
        }
        Ok(Crew { members, events: received, gate })
    }

    pub(crate) fn processes(stage: &Stage) -> Result<Crew, String> {
        // One pipe, so that their events stay in order.
        let (reader, writer) = std::io::pipe().map_err(failed("making a pipe"))?;
        let program = std::env::current_exe().map_err(failed("finding this program"))?;
        let mut members = Vec::new();
        for plan in plans(stage) {
            let plan = serde_json::to_string(&plan).map_err(|error| error.to_string())?;
            let mut child = Command::new(&program)
                .env(Plan::VARIABLE, plan)
                .stdin(Stdio::piped())
                .stdout(writer.try_clone().map_err(failed("sharing a pipe"))?)
                .kill_on_drop(true)
                .spawn()
                .map_err(failed("starting a worker"))?;
            let input = child.stdin.take().expect("it was asked for");
            members.push(Member::Process { child: Box::new(child), input });
        }
        // The pipe must end with the last worker.
        drop(writer);
        let (events, received) = mpsc::unbounded_channel();
        tokio::spawn(read(reader, events));
        Ok(Crew { members, events: received, gate: watch::Sender::new(false) })
    }

    pub(crate) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    pub(crate) async fn start(&mut self) -> Result<(), String> {
        self.gate.send_replace(true);
        for member in &mut self.members {
            if let Member::Process { input, .. } = member {
                input.write_all(b"go\n").await.map_err(failed("starting the workers"))?;
            }
        }
        Ok(())
    }

    pub(crate) async fn kill(&mut self, worker: usize) -> Result<Event, String> {
        match &mut self.members[worker] {
            Member::Task { coordinator, task } => {
                latchwork::testing::crash(coordinator).await;
                task.abort();
            }
            Member::Process { child, .. } => child.kill().await.map_err(failed("killing a worker"))?,
        }
        Ok(Event::now(worker, What::Killed))
    }

    /// Returns a complaint for each worker that failed without being killed.
    pub(crate) async fn end(mut self, killed: usize) -> Vec<String> {
        let mut complaints = Vec::new();
        for (worker, member) in self.members.iter_mut().enumerate() {
            let end = match member {
                Member::Task { task, .. } => match task.await {
                    Ok(well) => (!well).then(|| "failed".to_owned()),
                    Err(error) => Some(error.to_string()),
                },
                Member::Process { child, .. } => match child.wait().await {
                    Ok(status) => (!status.success()).then(|| status.to_string()),
                    Err(error) => Some(error.to_string()),
                },
            };
            if let Some(how) = end.filter(|_| worker != killed) {
                complaints.push(format!("{} ended badly: {how}", WORKERS[worker]));
            }
        }
        complaints
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &self.members {
            if let Member::Task { task, .. } = member {
                task.abort();
            }
        }
    }
}

fn plans(stage: &Stage) -> impl Iterator<Item = Plan> {
    (0..WORKERS.len()).map(|worker| stage.plan(worker))
}

async fn read(reader: PipeReader, events: mpsc::UnboundedSender<Event>) {
    let broken =
        |error: &dyn std::fmt::Display| What::Fails { error: format!("reading its events: {error}") };
    let pipe = match pipe::Receiver::from_owned_fd(reader.into()) {
        Ok(pipe) => pipe,
        Err(error) => {
            // The crew may have been dropped. The same below.
            let _ = events.send(Event::now(0, broken(&error)));
            return;
        }
    };
    let mut lines = BufReader::new(pipe).lines();
    loop {
        let event = match lines.next_line().await {
            Ok(None) => return,
            Ok(Some(line)) => {
                serde_json::from_str(&line).unwrap_or_else(|error| Event::now(0, broken(&error)))
            }
            Err(error) => {
                let _ = events.send(Event::now(0, broken(&error)));
                return;
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {error}")
}
