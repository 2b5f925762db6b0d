//! The orders of a client process, and its events.

use std::io;

use latchwork_core::registry::LAYOUT;
use latchwork_core::{Address, Config, Coordinator, LostReason, Name, Result, Secret, Token};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::adapter::Adapter;
use crate::exclusive::{Guard, Lock};
use crate::hold_record::HoldRecord;
use crate::moves::{Added, Grant, Operates, Traffic};

/// The environment variable that makes an executable of the suite a contender.
pub const VARIABLE: &str = "LATCHWORK_CONTENDER";

/// The environment variable that names the suite's program of a build that works with the next layout: the newer
/// build of a rolling upgrade. Without it this executable says that it is that build.
const NEWER_BUILD: &str = "LATCHWORK_NEWER_BUILD";

/// Where a contender finds the password of its login, which no configuration shows.
const PASSWORD: &str = "LATCHWORK_CONTENDER_PASSWORD";

/// The test that is a contender in a program of the standard test harness, and how the harness runs it: alone,
/// and with its output on standard output. A program whose `main` calls [`contender_main`](crate::contender_main)
/// does not look at its arguments.
const TEST: [&str; 5] = ["contender", "--exact", "--nocapture", "--quiet", "--test-threads=2"];

/// What a contender is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Where to connect.
    pub config: Config,
    /// The mutex's key.
    pub key: String,
    /// Whether the key is another program's name, used as it is: of a mutex, or of what a soak
    /// contends for.
    #[serde(default)]
    pub exact: bool,
    /// With what it contends. Where others are to hold beside it, the process that started it has
    /// seen to that.
    #[serde(default)]
    pub adapter: Adapter,
    /// Whether it reports a loss as soon as it hears of it. The suite asks it to look instead, and
    /// that look must be the first thing that it does after it was stopped.
    #[serde(default = "yes")]
    pub reports_loss: bool,
    /// Not one hold, but as many as go into a time.
    #[serde(default)]
    pub soak: Option<Soak>,
    /// Work that ends by itself, while it holds.
    #[serde(default)]
    pub early: Option<Early>,
    /// Not a hold: numbers in a cell.
    #[serde(default)]
    pub counts: Option<Counts>,
    /// Not one hold, but one after the other, until it is told to release.
    #[serde(default)]
    pub turns: bool,
    /// It is a build that works with layouts up to this one.
    #[serde(default)]
    pub layout: Option<u32>,
    /// Instead of a lock, it takes the lead in the election of the key, with this data.
    #[serde(default)]
    pub leads_as: Option<String>,
    /// Not one hold, but all keys of a load that moves, until it is told to release.
    #[serde(default)]
    pub traffic: Option<Traffic>,
    /// Not a hold: it is the operator of the move that its configuration names.
    #[serde(default)]
    pub operates: Option<Operates>,
}

impl Order {
    /// An order to hold, and no more.
    pub fn to_hold(config: &Config, key: &str, adapter: Adapter) -> Self {
        Self {
            config: config.clone(),
            key: key.to_owned(),
            exact: false,
            adapter,
            reports_loss: false,
            soak: None,
            early: None,
            leads_as: None,
            counts: None,
            turns: false,
            layout: None,
            traffic: None,
            operates: None,
        }
    }

    /// The order that this process was started with, if it was.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn from_environment() -> Option<serde_json::Result<Self>> {
        let order = std::env::var(VARIABLE).ok()?;
        Some(serde_json::from_str(&order).map(|mut order: Self| {
            order.config.password = std::env::var(PASSWORD).ok().map(Secret::new);
            order
        }))
    }

    /// Its key, as the name of a recipe.
    pub(crate) fn name(&self) -> Name {
        if self.exact { Address::exact(self.key.as_str()) } else { Name::from(self.key.as_str()) }
    }

    /// Takes what it contends for.
    pub(crate) async fn acquire(&self, coordinator: &Coordinator) -> Result<Guard> {
        match &self.leads_as {
            Some(data) => {
                coordinator.election(self.name())?.campaign(data.as_bytes()).await.map(Guard::fenced)
            }
            None => self.lock(coordinator)?.acquire().await,
        }
    }

    /// What it takes for a mutex.
    pub(crate) fn lock(&self, coordinator: &Coordinator) -> Result<Lock> {
        match self.exact {
            true => Ok(Lock::Mutex(coordinator.mutex(self.name())?)),
            false => self.adapter.lock(coordinator, &self.key, None),
        }
    }

    /// Where it connects, and as which build.
    pub(crate) fn config(&self) -> Config {
        let config = self.config.clone();
        self.layout.into_iter().fold(config, Config::as_of_layout)
    }

    /// This executable again, as the contender that this order makes of it: its `main` calls
    /// [`contender_main`](crate::contender_main) first, or its test `contender` calls
    /// [`contender_test`](crate::contender_test). Or, where the order is for the next layout and there is
    /// such a build, that build, as it is.
    ///
    /// # Errors
    /// When the operating system does not say which executable this is.
    pub fn command(&self) -> io::Result<Command> {
        let newer = std::env::var_os(NEWER_BUILD).filter(|_| self.layout == Some(LAYOUT + 1));
        let (program, order) = match newer {
            Some(newer) => (newer.into(), Self { layout: None, ..self.clone() }),
            None => (std::env::current_exe()?, self.clone()),
        };
        let mut command = Command::new(program);
        command.args(TEST).env(VARIABLE, serde_json::to_string(&order)?).kill_on_drop(true);
        if let Some(password) = &self.config.password {
            command.env(PASSWORD, password.expose());
        }
        Ok(command)
    }
}

impl Event {
    /// Reads a line of a contender. `None` for the lines that the test harness prints before its test begins.
    ///
    /// # Errors
    /// When the line is no event.
    pub fn of_line(line: &str) -> Option<serde_json::Result<Self>> {
        let of_harness = line.is_empty() || line == "running 1 test";
        (!of_harness).then(|| serde_json::from_str(line))
    }
}

fn yes() -> bool {
    true
}

/// What a contender says, one JSON line each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It holds.
    Held {
        /// With this token.
        token: Token,
        /// After so many milliseconds.
        waited_ms: u64,
    },
    /// What it saw when it was ordered to look.
    Looked {
        /// `is_held()`.
        is_held: bool,
        /// Why `check()` failed.
        check: Option<String>,
        /// Whether `lost()` was ready at its first poll.
        lost_at_first_poll: bool,
    },
    /// It has counted, or was given an id: this one.
    Counted {
        /// What the counter or the generator answered.
        number: i64,
    },
    /// It held, in a soak.
    HoldRecord(HoldRecord),
    /// It is connected, and contends from now on.
    Begun,
    /// It holds from now on, in a load that moves.
    Begins(Grant),
    /// It held to the end of its work, in a load that moves.
    Granted(Grant),
    /// It held up to this time at the least, and has lost it, in a load that moves.
    HeldUntil(Grant),
    /// It has added to a counter, in a load that moves.
    Added(Added),
    /// An add of it may have been made or not.
    InDoubt {
        /// Why nobody knows.
        why: String,
    },
    /// A request of it has failed, as it may while servers fail.
    Failed {
        /// How.
        why: String,
    },
    /// It lost what it held.
    Lost {
        /// Why.
        reason: LostReason,
    },
    /// It has released and closed.
    Released,
}

/// Holds one after the other, by several tasks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Soak {
    /// So many tasks contend.
    pub tasks: usize,
    /// For so long, or where it [outlasts](Self::outlasts) failures: at most, until a line of its input.
    pub seconds: u64,
    /// What they contend for.
    #[serde(default)]
    pub kind: SoakKind,
    /// Instead of that, random pairs out of so many mutexes, in random order, each pair as one
    /// (`MultiLock`).
    #[serde(default)]
    pub pairs_of: Option<usize>,
    /// Whether it goes on where a request fails or a hold is lost: servers fail beside it. Each hold
    /// lasts longer then.
    #[serde(default)]
    pub outlasts: bool,
}

/// What the tasks of a soak contend for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoakKind {
    /// What the order's adapter takes for a mutex.
    #[default]
    Exclusive,
    /// A read/write lock: one time in four they write, and half of those writers read on in the
    /// same place (`downgrade`).
    ReadWrite,
    /// The permits of a semaphore, in all weights by turns.
    Permits {
        /// The semaphore's limit.
        limit: u32,
    },
}

/// Changes a number in a cell, and says each answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    /// Adds 1 to a counter so often.
    Adds(u64),
    /// Takes ids out of blocks of this size, until it is killed.
    Ids(u32),
}

/// Work that ends early. It goes on to its end at any order.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Early {
    /// By what.
    pub by: Way,
    /// Whether it runs under [`Coordinator::close_after`], as `latchwork::with` runs it. Else
    /// nobody closes.
    pub closes: bool,
}

/// A way out that nobody has planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// An early `?`.
    Error,
    /// A panic.
    Panic,
}

impl Way {
    /// With what a program ends whose `main` lets it through.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Error => 1,
            Self::Panic => 101,
        }
    }
}

pub(crate) fn say(event: &Event) {
    // println! flushes at the line's end: stdout is line-buffered.
    println!("{}", serde_json::to_string(event).expect("an event is JSON"));
}
