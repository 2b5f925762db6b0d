//! The commands.

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

/// An error is a sentence.
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
    /// Shows every case: its name, the clause that it checks, and what it checks in a line.
    List {
        /// Shows the clock class: each clause that has a time in it, its cases, and the servers that play them in
        /// real time.
        #[arg(long)]
        clock: bool,
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Runs the cases against a backend.
    Run(run::RunArgs),
    /// Takes a lock, reports what it believes as lines of JSON, and obeys lines on its input:
    /// `look`, `release` (or its end).
    Hold(HoldArgs),
    /// Puts the reports of one run or several together: a table of contracts and backends, the slowest plays, and each
    /// case that was left out, excused or failed. A case that has failed in one report has failed. The exit code is 3
    /// if no case failed, but the failure of one is excused.
    Summary {
        /// Files that `run --json` has written, or folders of reports (LATCHWORK_REPORTS).
        #[arg(required = true, value_name = "FILE")]
        reports: Vec<PathBuf>,
        #[command(flatten)]
        chosen: Chosen,
        /// The backends that must have a result for every case, separated by commas.
        #[arg(long, value_delimiter = ',')]
        backends: Vec<String>,
        /// The backends, or topologies, that must have a result for their cases of tier 2 alone,
        /// separated by commas.
        #[arg(long, value_delimiter = ',')]
        parts: Vec<String>,
        /// The backends that were left out on purpose, separated by commas.
        #[arg(long, value_delimiter = ',')]
        left_out: Vec<String>,
        /// Writes the table of all cases, adapters and backends to this file.
        #[arg(long, value_name = "FILE")]
        matrix: Option<PathBuf>,
    },
    /// Measures what the recipes cost, beside the same requests sent raw: a table with the budgets
    /// at its end.
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
    /// Draws the hand-off figures of stored results as SVG, and says how the mutex' stand beside
    /// the raw ones.
    #[cfg(feature = "bench")]
    Picture(picture::PictureArgs),
    /// Starts servers, prints the lines that export their URLs, and keeps them until standard input
    /// ends.
    Serve {
        /// Which kinds of server, separated by commas.
        #[arg(long, value_delimiter = ',', default_values_t = Kind::ALL)]
        kinds: Vec<Kind>,
        /// With the clocks that servers have out of the box, and not fast ones.
        #[arg(long)]
        default_clocks: bool,
    },
}

#[derive(Debug, Args)]
struct Chosen {
    /// Only cases whose name or clause contains this, or fits it where it has a `*` or a `?`;
    /// several times: cases that one of them fits.
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
    /// Where to connect: redis://host, zookeeper://a,b,c/chroot, etcd://host or memory://.
    url: String,
    /// The mutex's key.
    key: String,
    /// The key is another program's name, used as it is.
    #[arg(long)]
    exact: bool,
    /// The lease's TTL in seconds, 1 to 3600, rather than the URL's.
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
        // A read of standard input cannot be called back: it must not keep the end waiting.
        runtime.shutdown_background();
        held?;
        Ok(ExitCode::SUCCESS)
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
