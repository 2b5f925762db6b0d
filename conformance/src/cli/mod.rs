pub(crate) mod backends;
#[cfg(feature = "bench")]
mod bench;
mod list;
#[cfg(feature = "bench")]
mod picture;
mod run;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use latchwork_conformance::Adapter;
use latchwork_conformance::child::{Contested, Hold, Role};
use latchwork_conformance::selection::{Pattern, Selection};
use latchwork_conformance::summary::Expected;
use latchwork_core::Config;
use latchwork_servers::{Clocks, Kind, Options, serve};

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Checks that a backend keeps Latchwork's contracts.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the cases: the clause, the name, and a line about the behavior.
    List {
        /// Lists the clock class: each clause with a time, its cases, and the servers that play them in real time.
        #[arg(long)]
        clock: bool,
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Runs the cases against a backend.
    Run(run::RunArgs),
    /// Acquires a lock, reports its state as lines of JSON, and obeys the lines `look` and `release` on its input. The end of
    /// the input releases too.
    Hold(HoldArgs),
    /// Combines the reports of one or more runs: a table of contracts and backends, the slowest cases, and each case that was
    /// left out, excused or failed. A failure in one report counts. The exit code is 3 if no case failed but a failure
    /// is excused.
    Summary {
        /// Files from `run --json`, or folders of reports (LATCHWORK_REPORTS).
        #[arg(required = true, value_name = "FILE")]
        reports: Vec<PathBuf>,
        #[command(flatten)]
        chosen: Chosen,
        /// The backends that must have a result for every case, separated by commas.
        #[arg(long, value_delimiter = ',')]
        backends: Vec<String>,
        /// The backends or topologies that must have a result only for their cases of tier 2, separated by commas.
        #[arg(long, value_delimiter = ',')]
        parts: Vec<String>,
        /// The backends without a run, on purpose, separated by commas.
        #[arg(long, value_delimiter = ',')]
        left_out: Vec<String>,
        /// Writes the table of all cases, adapters and backends to this file.
        #[arg(long, value_name = "FILE")]
        matrix: Option<PathBuf>,
    },
    /// Measures the cost of the recipes and of the same requests sent raw, and prints tables with budgets.
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
    /// Draws the hand-off figures of stored results as SVG, and compares the mutex with raw requests.
    #[cfg(feature = "bench")]
    Picture(picture::PictureArgs),
    /// Starts servers, prints shell lines that export their URLs, and stops them when standard input ends.
    Serve {
        /// The kinds of server, separated by commas.
        #[arg(long, value_delimiter = ',', default_values_t = Kind::ALL)]
        kinds: Vec<Kind>,
        /// Keeps the servers' default clocks instead of fast ones.
        #[arg(long)]
        default_clocks: bool,
    },
}

#[derive(Debug, Args)]
struct Chosen {
    /// Only cases whose name or clause contains this text. A pattern with `*` or `?` must match the whole name or clause. Repeat
    /// the option to choose more cases.
    #[arg(long, alias = "filter", value_name = "PATTERN")]
    cases: Vec<Pattern>,
}

impl Chosen {
    fn selection(self) -> Outcome<Selection> {
        Selection::new(self.cases).map_err(|error| format!("--cases: {error}").into())
    }
}

#[derive(Debug, Args)]
struct HoldArgs {
    /// The server: redis://host, zookeeper://a,b,c/chroot, etcd://host or memory://.
    url: String,
    /// The key of the mutex.
    key: String,
    /// Uses the key as an exact name on the server, for a lock that other programs share.
    #[arg(long)]
    exact: bool,
    /// The lease's TTL in seconds, 1 to 3600. It overrides the TTL of the URL.
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u64>,
}

impl Cli {
    pub(crate) fn run(self) -> Outcome<ExitCode> {
        match self.command {
            Command::List { clock: true, chosen } => Ok(list::clock(&chosen.selection()?)),
            Command::List { clock: false, chosen } => Ok(list::list(&chosen.selection()?)),
            Command::Run(run) => run.run(),
            Command::Hold(hold) => hold.run(),
            Command::Summary { reports, chosen, backends, parts, left_out, matrix } => {
                let expected = Expected { backends, parts, cases: chosen.selection()?, left_out };
                summary::summary(&reports, expected, matrix.as_deref())
            }
            #[cfg(feature = "bench")]
            Command::Bench(bench) => bench.run(),
            #[cfg(feature = "bench")]
            Command::Picture(picture) => picture.run().map(|()| ExitCode::SUCCESS),
            Command::Serve { kinds, default_clocks } => {
                let clocks = if default_clocks { Clocks::Default } else { Clocks::Fast };
                runtime()?.block_on(serve(&kinds, Options::new().clocks(clocks)))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl HoldArgs {
    fn run(self) -> Outcome<ExitCode> {
        let mut config = Config::from_url(&self.url)?;
        if let Some(seconds) = self.ttl {
            config.ttl = Duration::from_secs(seconds);
        }
        backends::check_compiled(&config.backend)?;
        let contested = match self.exact {
            true => Contested::exact(self.key),
            false => Contested::new(self.key, Adapter::Mutex),
        };
        let hold = Hold { contested, leads_as: None, reports_loss: true };
        let runtime = runtime()?;
        let held = runtime.block_on(hold.work(&backends::connectors(), &config));
        runtime.shutdown_background();
        held?;
        Ok(ExitCode::SUCCESS)
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
