use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use latchwork_bench::Target;
use tokio::runtime::Runtime;
use tokio::signal::unix::Signal;

use super::column::Column;
use super::guarantees::Promised;
use super::plan::{Family, Plan};
use super::report::Report;
use super::run::play;
use super::sources::{self, Source};
use super::{baseline, page, table};
use crate::exit::{self, Ended};
use crate::failure::{Failure, Outcome, warn};
use crate::settings::Common;
use crate::terminal::{interrupts, was_read};

/// For tasks to end after Ctrl-C.
const ENDS: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct CompareOrder {
    /// URLs of coordinators, or kinds of servers to start here: memory, redis, zookeeper, etcd [default:
    /// memory, and each kind whose program is on this machine]
    #[arg(value_name = "URL")]
    coordinators: Vec<String>,
    /// Ends in under a minute: two short rounds
    #[arg(long)]
    quick: bool,
    /// The number of rounds [default: 7, with --quick 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Measures only these groups, separated by commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    only: Vec<Family>,
    /// Prints the run as JSON, and writes no page unless --page names one
    #[arg(long)]
    json: bool,
    /// The page to write [default: latchwork-compare.html]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Writes no page
    #[arg(long, conflicts_with = "page")]
    no_page: bool,
    /// Saves the run in a file, for --baseline and --from
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Marks changes since a saved run that are larger than the noise
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Shows a saved run again, and measures nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["coordinators", "quick", "rounds", "only", "save"])]
    from: Option<PathBuf>,
    /// Do not ask before a server given by URL is measured
    #[arg(long)]
    yes: bool,
}

impl CompareOrder {
    pub(crate) fn run(&self, common: &Common) -> Outcome {
        if common.names_one() {
            let next = "call `latchwork compare URL…`, or name a kind such as redis, which is started here";
            return Err(Failure::usage("compare takes its coordinators as arguments").next(next));
        }
        let baseline = self.baseline.as_deref().map(baseline::read).transpose()?;
        let report = match &self.from {
            Some(file) => Some(baseline::read(file)?),
            None => self.measure(baseline.as_ref())?,
        };
        let Some(mut report) = report else {
            return Ok(Ended::By(signal_hook::consts::SIGINT));
        };
        if let Some(baseline) = &baseline {
            let kinds: Vec<_> = report.coordinators.iter().map(|column| column.kind.as_str()).collect();
            baseline::check(baseline, &kinds)?;
            baseline::mark(&mut report, baseline);
        }
        self.show(&report)?;
        match report.has_failed() {
            true => Err(Failure::new(exit::COORDINATOR, "a trial failed")
                .next("read its line in the report above, and check that server")),
            false => Ok(Ended::WELL),
        }
    }

    /// `None` after Ctrl-C.
    fn measure(&self, baseline: Option<&Report>) -> Result<Option<Report>, Failure> {
        let begun = Instant::now();
        let sources = sources::chosen(&self.coordinators)?;
        let plan = Plan::new(self.quick, self.rounds.map(usize::from), &self.only)?;
        let memory = sources.iter().filter(|source| matches!(source, Source::Memory)).count();
        sources::ask(&sources, self.yes, plan.budget(sources.len() - memory, memory))?;
        measured(&sources, &plan, baseline, begun)
    }

    fn show(&self, report: &Report) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(report)
            .map_err(|error| Failure::machine("the JSON cannot be generated", error))?;
        if let Some(path) = &self.save {
            write(path, &json)?;
        }
        let text = if self.json { json + "\n" } else { table::text(report, width()) };
        was_read(anstream::stdout().write_all(text.as_bytes()))?;
        let usual = Path::new("latchwork-compare.html");
        let unnamed = (!self.json && !self.no_page).then_some(usual);
        if let Some(path) = self.page.as_deref().or(unnamed) {
            write(path, &page::html(report)?)?;
            say(&format!("page: {}", path.display()));
        }
        say(&format!("measured in {:.0} s", report.took_s));
        Ok(())
    }
}

/// `None` after Ctrl-C. Always stops started servers, and deletes the keys on given ones.
fn measured(
    sources: &[Source],
    plan: &Plan,
    baseline: Option<&Report>,
    begun: Instant,
) -> Result<Option<Report>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::machine("the run cannot begin", error))?;
    let mut interrupts = {
        let _inside = runtime.enter();
        interrupts()?
    };
    let opened = or_interrupted(&runtime, &mut interrupts, sources::open(sources)).transpose()?;
    let Some(targets) = opened else {
        interrupted();
        return Ok(None);
    };
    let run = async {
        let (columns, promised) = look(&targets, plan).await?;
        if let Some(baseline) = baseline {
            let kinds: Vec<_> = columns.iter().map(|column| column.kind.as_str()).collect();
            baseline::check(baseline, &kinds)?;
        }
        let played = play(&targets, plan, begun).await;
        Ok::<_, Failure>(Report::new(columns, &promised, &played, plan, begun.elapsed()))
    };
    let report = or_interrupted(&runtime, &mut interrupts, run);
    if report.is_none() {
        interrupted();
    }
    // Running contenders would write deleted keys again.
    runtime.shutdown_timeout(ENDS);
    let cleaned = clean(&targets);
    let report = report.transpose()?;
    cleaned?;
    Ok(report)
}

fn or_interrupted<T>(runtime: &Runtime, interrupts: &mut Signal, work: impl Future<Output = T>) -> Option<T> {
    runtime.block_on(async {
        tokio::select! {
            done = work => Some(done),
            _ = interrupts.recv() => None,
        }
    })
}

fn interrupted() {
    warn(
        "interrupted: stopping the servers that this run started, and deleting this run's own namespace on each given server",
    );
}

async fn look(targets: &[Target], plan: &Plan) -> Result<(Vec<Column>, Promised), Failure> {
    let (mut columns, mut all) = (Vec::new(), Promised::new());
    for (target, name) in targets.iter().zip(names(targets)) {
        let (column, promised) = Column::of(target, name.clone(), plan).await.map_err(|error| {
            Failure::new(exit::COORDINATOR, format!("{name}: {error}"))
                .next("check the address, and check that the server runs, or leave this server out")
        })?;
        columns.push(column);
        all.insert(name, promised);
    }
    Ok((columns, all))
}

/// The kind; if several have it, with the address, and if that is the same (two databases of one Redis), with
/// a number.
fn names(targets: &[Target]) -> Vec<String> {
    let mut times = BTreeMap::<String, usize>::new();
    let name = |target: &Target| {
        let kind = target.name();
        let name = match targets.iter().filter(|other| other.name() == kind).count() {
            1 => kind.to_owned(),
            _ => format!("{kind} {}", target.config().hosts.join(",")),
        };
        let time = times.entry(name.clone()).or_default();
        *time += 1;
        if *time == 1 { name } else { format!("{name} ({time})") }
    };
    targets.iter().map(name).collect()
}

fn clean(targets: &[Target]) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::machine("the given servers cannot be cleaned up", error))?;
    let mut left = false;
    for target in targets.iter().filter(|target| target.is_given()) {
        let (name, namespace) = (target.name(), &target.config().namespace);
        match runtime.block_on(target.clean()) {
            Ok(_) => say(&format!("{name}: the namespace {namespace} is deleted")),
            Err(error) => {
                left = true;
                warn(format!("{name}: the namespace {namespace} was not deleted: {error}"));
            }
        }
    }
    match left {
        true => Err(Failure::new(exit::COORDINATOR, "not every given server was cleaned up")
            .next("delete the namespaces that the warnings name")),
        false => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())).next("name another file"))
}

fn width() -> Option<u16> {
    if !io::stdout().is_terminal() {
        return None;
    }
    // A terminal of unknown size reports 0.
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

fn say(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinators_with_one_address_have_different_names() {
        let memory = || Target::memory(Vec::new());
        assert_eq!(names(&[memory()]), ["memory"]);
        let two = names(&[memory(), memory()]);
        assert_eq!(two[1], format!("{} (2)", two[0]));
    }
}
