//! What the subcommands that run a command take, and the job that they come to.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::job::{Job, Patience, Recipe};
use crate::failure::Failure;

/// How long a command has to end, unless that is said.
const GRACE: Duration = Duration::from_secs(2);

/// Options of all that run a command.
#[derive(Debug, Args)]
struct Running {
    /// The most the hold may last; the command gets SIGTERM a grace before, SIGKILL at its end
    #[arg(long, value_name = "TIME", value_parser = time)]
    max_hold: Option<Duration>,
    /// How long before it must be gone the command gets SIGTERM [default: 2s, or half of --max-hold]
    #[arg(long, value_name = "TIME", value_parser = time)]
    grace: Option<Duration>,
    /// What others see as the holder [default: host, process and a number]
    #[arg(long, value_name = "TEXT")]
    owner_label: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct Waiting {
    /// Do not wait: exit 120 if others hold or wait
    #[arg(long = "try", conflicts_with = "within")]
    tries: bool,
    /// The longest to wait (30s, 5m): then exit 120 [default: as long as others hold]
    #[arg(long, value_name = "TIME", value_parser = time)]
    within: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct LockOrder {
    /// The lock's key: any text of 1 to 255 bytes
    key: String,
    /// Beside other readers: as a reader of the read/write lock KEY
    #[arg(long, conflicts_with_all = ["permits", "of"])]
    shared: bool,
    /// Alone, beside no reader: as the writer of the read/write lock KEY (without either option the
    /// lock is a mutex, which excludes other mutexes only)
    #[arg(long, conflicts_with_all = ["shared", "permits", "of"])]
    exclusive: bool,
    /// So many permits of a semaphore
    #[arg(long, value_name = "N", requires = "of")]
    permits: Option<u32>,
    /// The semaphore's limit
    #[arg(long, value_name = "LIMIT")]
    of: Option<u32>,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    running: Running,
}

#[derive(Debug, Args)]
pub(crate) struct SemaphoreOrder {
    /// The semaphore's key: any text of 1 to 255 bytes
    key: String,
    /// So many permits
    #[arg(long, value_name = "N", default_value_t = 1)]
    permits: u32,
    /// The semaphore's limit; the first to use it stores it, and another limit is then refused
    /// [default: the stored one]
    #[arg(long, value_name = "LIMIT")]
    of: Option<u32>,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    running: Running,
}

#[derive(Debug, Args)]
pub(crate) struct CronOrder {
    /// The job's key: any text of 1 to 255 bytes
    key: String,
    /// The job stays taken so long, however soon it ends: more than the hosts' clocks differ, less
    /// than the time from one run to the next
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    min_hold: Duration,
    #[command(flatten)]
    running: Running,
}

#[derive(Debug, Args)]
pub(crate) struct ElectOrder {
    /// The election's key: any text of 1 to 255 bytes
    key: String,
    /// What others see of the leader, such as its address
    #[arg(long, value_name = "TEXT", default_value = "")]
    data: String,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    running: Running,
}

pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error} (30s, 5m, 1h30m)"))?;
    if time.is_zero() { Err("must not be zero".to_owned()) } else { Ok(time) }
}

impl Waiting {
    fn patience(&self) -> Patience {
        match (self.tries, self.within) {
            (true, _) => Patience::Try,
            (false, within) => Patience::Wait { within },
        }
    }
}

impl Running {
    fn job(self, key: String, recipe: Recipe, patience: Patience) -> Result<Job, Failure> {
        let Self { max_hold, grace, owner_label, command } = self;
        if let (Some(grace), Some(most)) = (grace, max_hold)
            && grace >= most
        {
            return Err(Failure::usage(
                "--grace is as long as --max-hold: the command would be ended at once",
            )
            .next("make it shorter"));
        }
        let grace = grace.unwrap_or_else(|| max_hold.map_or(GRACE, |most| GRACE.min(most / 2)));
        Ok(Job { key, recipe, patience, max_hold, grace, owner_label, command })
    }
}

impl LockOrder {
    pub(crate) fn into_job(self) -> Result<Job, Failure> {
        let recipe = match (self.of, self.shared, self.exclusive) {
            (Some(limit), ..) => Recipe::Semaphore { permits: self.permits.unwrap_or(1), limit: Some(limit) },
            (None, true, _) => Recipe::Reader,
            (None, false, true) => Recipe::Writer,
            (None, false, false) => Recipe::Mutex,
        };
        self.running.job(self.key, recipe, self.waiting.patience())
    }
}

impl SemaphoreOrder {
    pub(crate) fn into_job(self) -> Result<Job, Failure> {
        let recipe = Recipe::Semaphore { permits: self.permits, limit: self.of };
        self.running.job(self.key, recipe, self.waiting.patience())
    }
}

impl CronOrder {
    pub(crate) fn into_job(self) -> Result<Job, Failure> {
        if self.running.max_hold.is_some_and(|most| most < self.min_hold) {
            return Err(Failure::usage("--max-hold is shorter than --min-hold").next("make it longer"));
        }
        let recipe = Recipe::Cron { min_hold: self.min_hold };
        self.running.job(self.key, recipe, Patience::Try)
    }
}

impl ElectOrder {
    pub(crate) fn into_job(self) -> Result<Job, Failure> {
        self.running.job(self.key, Recipe::Election { data: self.data }, self.waiting.patience())
    }
}
