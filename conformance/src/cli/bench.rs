use std::io::{IsTerminal, Write};
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use std::{env, io};

use indicatif::{ProgressBar, ProgressStyle};
use latchwork_bench::{Bench, Job, Line, Measure, Plan, Recipe, Summary, Target};
use latchwork_servers::{Clocks, Kind, Options, Server};
use tokio::process::Command;

use super::{Outcome, backends};

/// The environment variables of the peers' harness are defaults of some options.
#[derive(Debug, clap::Args)]
pub(super) struct BenchArgs {
    /// Backends, separated by commas: memory, redis, zookeeper, etcd (a server with default clocks is found or started), or
    /// the URL of a server [default: all of this build].
    #[arg(long, value_delimiter = ',')]
    backend: Vec<String>,
    /// Measures, separated by commas: M1 (uncontended), M2 (64 tasks), M3 (hand-off), RW, PERMITS, GIVEUPS (some acquisitions
    /// are dropped), REENTRY, COUNTER (adds), LATCH and VALUE (until the last waiter is notified), ELECTION (hand-over),
    /// QUORUM (of 3 and 5), MOVE (a client that takes part in a move, in each phase), M5 (held locks), BARRIER (members that pass together), MANY (locks that
    /// are opened, kept and closed while another client works) [default: all; with --json M1,M2,M3].
    #[arg(long, value_delimiter = ',', env = "BENCH_MEASURES")]
    measures: Vec<Measure>,
    /// Recipes of M1, M2, M3, GIVEUPS and MOVE, separated by commas: mutex, rw-write, semaphore [default: mutex; with --json
    /// all].
    #[arg(long, value_delimiter = ',')]
    recipes: Vec<Recipe>,
    /// Rounds of all measures except M5, BARRIER and MANY. The measures of a round take turns [default: 10; with --json 1].
    #[arg(long)]
    rounds: Option<usize>,
    /// Rounds of M5, BARRIER and MANY, after the other measures.
    #[arg(long, default_value = "1")]
    held_rounds: usize,
    /// Seconds of each measurement.
    #[arg(long, env = "BENCH_SECS", default_value = "0.5", value_parser = seconds)]
    secs: Duration,
    /// Seconds of warm-up before each measurement.
    #[arg(long, env = "BENCH_WARM", default_value = "0.5", value_parser = seconds)]
    warm: Duration,
    /// Numbers of contenders in M3, one measurement each.
    #[arg(long, env = "BENCH_W", value_delimiter = ',', default_value = "2,16,128")]
    contenders: Vec<usize>,
    /// Percentages of acquisitions that are given up in GIVEUPS, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "0,5,20,50", value_parser = clap::value_parser!(u32).range(0..=100))]
    give_ups: Vec<u32>,
    /// Numbers of held locks in M5 and MANY, and of members in BARRIER, one measurement each.
    #[arg(long, env = "BENCH_M5_N", value_delimiter = ',', default_value = "1000,10000")]
    held: Vec<usize>,
    /// Seconds for which they are held, or wait.
    #[arg(long, env = "BENCH_M5_SECS", default_value = "30", value_parser = seconds)]
    held_secs: Duration,
    /// Prints each result as a line of JSON, for the harness that runs the peers. Then REDIS_URL, ZK_ADDR and ETCD_URL name
    /// servers too, and no raw requests are measured.
    #[arg(long)]
    json: bool,
    /// This is the separate process of M5, BARRIER and MANY.
    #[arg(long, hide = true)]
    alone: bool,
}

impl BenchArgs {
    pub(super) fn run(self) -> Outcome<ExitCode> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.measure())
    }

    async fn measure(self) -> Outcome<ExitCode> {
        let mut targets = Vec::new();
        for backend in self.backends() {
            targets.push(target(&backend, self.json).await?);
        }
        if self.measures().contains(&Measure::Moving) {
            targets = with_other_sides(targets).await?;
        }
        let plan = Plan {
            time: self.secs,
            warm: self.warm,
            contenders: self.contenders.clone(),
            give_ups: self.give_ups.clone(),
            held: self.held.clone(),
            held_time: self.held_secs,
            raw: !self.json,
        };
        let bench = Bench { targets, plan };
        let jobs = bench.jobs(&self.measures(), &self.recipes());
        let (held, each): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.held().is_some());
        let rounds = self.rounds.unwrap_or(if self.json { 1 } else { 10 });
        let all: Vec<_> = in_turns(rounds, &each).chain(in_turns(self.held_rounds, &held)).collect();
        if all.is_empty() {
            return Err("nothing to measure: no chosen measure fits the chosen backends and recipes".into());
        }

        let progress = Progress::new(all.len(), self.alone);
        let mut summary = Summary::default();
        for (round, job) in all {
            let of = if job.held().is_some() { self.held_rounds } else { rounds };
            progress.show(bench.targets[job.target].name(), round, of, job);
            let lines = match job.held() {
                Some((measure, count)) if !self.alone => self.in_a_process(&bench, job, measure, count).await,
                _ => bench.play(job).await,
            };
            for line in lines {
                let line = Line { round: Some(round), ..line };
                if self.json {
                    self.print(&line)?;
                }
                summary.add([line]);
            }
            progress.bar.inc(1);
        }
        progress.bar.finish_and_clear();
        if !self.json {
            print!("{summary}");
        }
        Ok(if summary.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn print(&self, line: &Line) -> Outcome<()> {
        let mut line = line.clone();
        if !self.alone {
            // The harness combines the lines of one peer.
            line.peer = format!("{}-{}", line.peer, line.server);
        }
        writeln!(io::stdout().lock(), "{}", serde_json::to_string(&line)?)?;
        Ok(())
    }

    fn backends(&self) -> Vec<String> {
        if !self.backend.is_empty() {
            return self.backend.clone();
        }
        let compiled = backends::connectors().into_iter().map(|connector| connector.name().to_owned());
        let named = |backend: &String| backend.parse().is_ok_and(|kind| peers_url(kind).is_some());
        let harness = self.json && Kind::ALL.into_iter().any(|kind| peers_url(kind).is_some());
        compiled.filter(|backend| !harness || named(backend)).collect()
    }

    fn measures(&self) -> Vec<Measure> {
        match (&self.measures[..], self.json) {
            ([], false) => Measure::all().collect(),
            ([], true) => vec![Measure::Uncontended, Measure::Throughput, Measure::Handoff],
            (named, _) => named.to_vec(),
        }
    }

    fn recipes(&self) -> Vec<Recipe> {
        match (&self.recipes[..], self.json) {
            ([], false) => vec![Recipe::Mutex],
            ([], true) => Recipe::ALL.into(),
            (named, _) => named.to_vec(),
        }
    }

    /// A measurement in its own process contains no leftovers of others.
    async fn in_a_process(&self, bench: &Bench, job: &Job, measure: Measure, count: usize) -> Vec<Line> {
        let target = &bench.targets[job.target];
        let answer = async {
            let mut command = Command::new(env::current_exe()?);
            let mut pid = None;
            if let Some((url, server)) = target.server() {
                command.env(ALONE, url);
                pid = server;
            }
            let (name, seconds) = (target.name(), self.held_secs.as_secs_f64());
            let terms = format!("--backend {name} --measures {measure} --held {count} --held-secs {seconds}");
            command.args("bench --json --alone --rounds 1".split(' ')).args(terms.split(' '));
            if let (Ok(kind), Some(pid)) = (target.name().parse(), pid) {
                command.env(pid_variable(kind), pid.to_string());
            }
            let output =
                command.stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true).output().await?;
            let lines = String::from_utf8_lossy(&output.stdout);
            lines.lines().map(|line| Ok(serde_json::from_str(line)?)).collect::<Outcome<Vec<Line>>>()
        };
        match answer.await {
            Ok(lines) if !lines.is_empty() => lines,
            Ok(_) => vec![bench.failed(job, "the separate process of this measure printed no result")],
            Err(error) => vec![bench.failed(job, &error.to_string())],
        }
    }
}

fn in_turns(rounds: usize, jobs: &[Job]) -> impl Iterator<Item = (usize, &Job)> {
    (0..rounds).flat_map(move |round| jobs.iter().map(move |job| (round, job)))
}

/// For a process that measures alone. An argument would show the password of the URL.
const ALONE: &str = "LATCHWORK_BENCH_ALONE";

async fn target(backend: &str, json: bool) -> Outcome<Target> {
    let Some((kind, url)) = backends::server(backend)? else {
        return Ok(Target::memory(backends::connectors()));
    };
    let named = (url.map(str::to_owned))
        .or_else(|| env::var(ALONE).ok())
        .or_else(|| peers_url(kind).filter(|_| json));
    let (server, pid) = match named {
        Some(url) => {
            let pid = env::var(pid_variable(kind)).ok().and_then(|pid| pid.parse().ok());
            (Server::at(kind, url, Clocks::Default), pid)
        }
        // Ticks are part of the measurement.
        None => (Server::start(kind, Options::new().clocks(Clocks::Default)).await?, None),
    };
    eprintln!("{kind}: {} (from the {})", server.addr(), server.origin());
    on(server, pid).await
}

async fn on(server: Server, pid: Option<u32>) -> Outcome<Target> {
    let kind = server.kind();
    let target = Target::on(server, pid, backends::connectors()).await;
    Ok(target.map_err(|error| format!("{kind}: {error}"))?)
}

/// The other side of MOVE is a second server of the kind, or another namespace of a given server. Locks on
/// Redis move to ZooKeeper too if both are measured.
async fn with_other_sides(targets: Vec<Target>) -> Outcome<Vec<Target>> {
    let at = |target: &Target| target.server().map(|(url, pid)| (url.to_owned(), pid));
    let zookeeper = targets.iter().find(|target| target.name() == "zookeeper").and_then(at);
    let mut sided = Vec::new();
    for target in targets {
        let Ok(kind) = target.name().parse::<Kind>() else {
            sided.push(target.moving_to(Target::memory(backends::connectors())));
            continue;
        };
        let second = match at(&target).filter(|_| target.is_given()) {
            Some((url, pid)) => on(Server::at(kind, url, Clocks::Default), pid).await?,
            None => {
                on(Server::start(kind, Options::new().own().clocks(Clocks::Default)).await?, None).await?
            }
        };
        let mut target = target.moving_to(second);
        if let (Kind::Redis, Some((url, pid))) = (kind, &zookeeper) {
            let server = Server::at(Kind::Zookeeper, url.clone(), Clocks::Default);
            target = target.moving_to(on(server, *pid).await?);
        }
        sided.push(target);
    }
    Ok(sided)
}

fn peers_url(kind: Kind) -> Option<String> {
    let (variable, scheme) = match kind {
        Kind::Redis => ("REDIS_URL", "redis://"),
        Kind::Zookeeper => ("ZK_ADDR", ""),
        Kind::Etcd => ("ETCD_URL", "http://"),
    };
    let value = env::var(variable).ok().filter(|value| !value.is_empty())?;
    Some(format!("{kind}://{}", value.strip_prefix(scheme).unwrap_or(&value)))
}

fn pid_variable(kind: Kind) -> &'static str {
    match kind {
        Kind::Redis => "REDIS_PID",
        Kind::Zookeeper => "ZK_PID",
        Kind::Etcd => "ETCD_PID",
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|error| format!("{error}"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("expected a number of seconds above zero".to_owned()),
    }
}

struct Progress {
    bar: ProgressBar,
    silent: bool,
}

impl Progress {
    fn new(jobs: usize, silent: bool) -> Self {
        let bar = if silent { ProgressBar::hidden() } else { ProgressBar::new(jobs as u64) };
        if let Ok(style) =
            ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed} of {duration}  {msg}")
        {
            bar.set_style(style);
        }
        Self { bar, silent: silent || io::stderr().is_terminal() }
    }

    fn show(&self, backend: &str, round: usize, of: usize, job: &Job) {
        let text = format!("{backend} {job}, round {} of {of}", round + 1);
        if !self.silent {
            eprintln!("{text}");
        }
        self.bar.set_message(text);
    }
}
