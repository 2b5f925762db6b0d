use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::job::{Job, Patience, Recipe};
use crate::failure::Failure;

const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
struct Running {
    /// The longest time to hold; the command gets SIGTERM a grace before the end, SIGKILL at the end
    #[arg(long, value_name = "TIME", value_parser = time)]
    max_hold: Option<Duration>,
    /// The time between SIGTERM and SIGKILL [default: 2s, or half of --max-hold if that is less]
    #[arg(long, value_name = "TIME", value_parser = time)]
    grace: Option<Duration>,
    /// The label of this holder in listings [default: host, process and a number]
    #[arg(long, value_name = "TEXT")]
    owner_label: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct Waiting {
    /// Do not wait: exit 120 if other clients hold or wait
    #[arg(long = "try", conflicts_with = "within")]
    tries: bool,
    /// The longest time to wait (30s, 5m), then exit 120 [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = time)]
    within: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct LockOrder {
    /// The lock's key: any text of 1 to 255 bytes
    key: String,
    /// Hold the read/write lock KEY as a reader, at the same time as other readers
    #[arg(long, conflicts_with_all = ["permits", "of"])]
    shared: bool,
    /// Hold the read/write lock KEY as the writer, alone (without --shared and --exclusive KEY is a
    /// mutex, a separate lock that readers and writers ignore)
    #[arg(long, conflicts_with_all = ["shared", "permits", "of"])]
    exclusive: bool,
    /// Hold this number of permits of a semaphore
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
    /// The number of permits
    #[arg(long, value_name = "N", default_value_t = 1)]
    permits: u32,
    /// The semaphore's limit; the first client stores it, and another limit is then refused
    /// [default: the stored limit]
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
    /// The least time to keep the lock, even if the job ends sooner: more than the clocks of the hosts
    /// differ, less than the time between two runs
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    min_hold: Duration,
    #[command(flatten)]
    running: Running,
}

#[derive(Debug, Args)]
pub(crate) struct ElectOrder {
    /// The election's key: any text of 1 to 255 bytes
    key: String,
    /// The data that other clients see of the leader, such as its address
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
                "--grace is not shorter than --max-hold: the command would get SIGTERM at once",
            )
            .next("make --grace shorter"));
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
            return Err(
                Failure::usage("--max-hold is shorter than --min-hold").next("make --max-hold longer")
            );
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
