//! A contender: a process that holds again and again, and says for how long it certainly did.

use std::fmt;
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use latchwork_conformance::hold_record::monotonic;
use latchwork_core::ErrorKind;
use latchwork_core::recipes::{QuorumGuard, QuorumLock};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::sleep;

use super::TTL;
use super::clients::Clients;

const VARIABLE: &str = "LATCHWORK_QUORUM_CONTENDER";
/// The test that a contender is, and how the harness runs it.
const TEST: [&str; 5] =
    ["faults::quorum::contender", "--exact", "--nocapture", "--quiet", "--test-threads=2"];
/// How often a holder looks at its own hold.
const LOOK: Duration = Duration::from_millis(2);

/// How a contender contends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It waits, and holds for long: the one that is to be caught.
    HoldsLong,
    Waits,
    /// It does not wait.
    Tries,
}

const WAYS: [(Way, &str); 3] = [(Way::HoldsLong, "holds-long"), (Way::Waits, "waits"), (Way::Tries, "tries")];

/// What a contender is to do, until the end of its input.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) way: Way,
    /// Whether servers that may have forgotten are left out.
    pub(crate) guarded: bool,
    pub(crate) urls: Vec<String>,
}

impl Order {
    /// What this process was started for, if it is a contender.
    pub(crate) fn given() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let (way, rest) = text.split_once(' ').expect("a way");
        let (guarded, urls) = rest.split_once(' ').expect("whether it is guarded");
        let way = WAYS.iter().find(|(_, name)| *name == way).expect("one of the ways").0;
        Some(Self {
            way,
            guarded: guarded.parse().expect("true or false"),
            urls: urls.split(' ').map(str::to_owned).collect(),
        })
    }

    /// This program again, as this contender.
    pub(crate) fn command(&self) -> Command {
        let way = WAYS.iter().find(|(way, _)| *way == self.way).expect("it has a name").1;
        let mut command = Command::new(std::env::current_exe().expect("the own executable is known"));
        command.args(TEST).env(VARIABLE, format!("{way} {} {}", self.guarded, self.urls.join(" ")));
        command.kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

/// What a contender says, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Connected,
    /// It holds.
    Held,
    /// It certainly held between these instants, and was not lost.
    Ended {
        from: u64,
        to: u64,
    },
    /// It certainly held between these instants, and was lost.
    Lost {
        from: u64,
        to: u64,
    },
    /// An acquisition failed.
    Failed,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("connected"),
            Self::Held => f.write_str("held"),
            Self::Ended { from, to } => write!(f, "ended {from} {to}"),
            Self::Lost { from, to } => write!(f, "lost {from} {to}"),
            Self::Failed => f.write_str("failed"),
        }
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<_> = line.split(' ').collect();
        let number = |word: &str| word.parse().map_err(|_| format!("{line:?} has no number"));
        Ok(match words[..] {
            ["connected"] => Self::Connected,
            ["held"] => Self::Held,
            ["ended", from, to] => Self::Ended { from: number(from)?, to: number(to)? },
            ["lost", from, to] => Self::Lost { from: number(from)?, to: number(to)? },
            ["failed"] => Self::Failed,
            _ => return Err(format!("{line:?} is no event")),
        })
    }
}

fn say(event: Event) {
    // println! flushes at the line's end: stdout is line-buffered.
    println!("{event}");
}

/// The contender's side.
pub(crate) async fn contend(order: Order) {
    let clients = Clients::connect(&order.urls).await;
    let lock = clients.lock(order.guarded);
    say(Event::Connected);
    let over = tokio::spawn(async {
        let mut rest = Vec::new();
        tokio::io::stdin().read_to_end(&mut rest).await.expect("its input ends");
    });
    while !over.is_finished() {
        once(&lock, &order).await;
    }
}

async fn once(lock: &QuorumLock, order: &Order) {
    let acquired = match order.way {
        Way::Tries => lock.try_acquire().await,
        Way::Waits | Way::HoldsLong => lock.acquire().within(TTL * 2).await.map(Some),
    };
    match acquired {
        Ok(Some(guard)) => {
            let work = match order.way {
                // Of the control, which must catch it: until its lease has run out, so that others have all
                // that time to come in, however slowly servers come back.
                Way::HoldsLong if !order.guarded => TTL * 2,
                Way::HoldsLong => TTL / 2,
                Way::Waits | Way::Tries => Duration::from_millis(10),
            };
            work_under(&guard, work).await;
            // Its release may fail where a server does not answer.
            let _answer = tokio::time::timeout(TTL, guard.release()).await;
        }
        Ok(None) => sleep(Duration::from_millis(15)).await,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{error}");
            say(Event::Failed);
        }
    }
}

/// Works, and says for how long it certainly held: an instant counts if the hold stood at a look that
/// came after it.
async fn work_under(guard: &QuorumGuard, work: Duration) {
    let from = monotonic();
    if !guard.is_held() {
        return;
    }
    say(Event::Held);
    let end = from + u64::try_from(work.as_nanos()).expect("short");
    let mut to = from;
    while to < end {
        sleep(LOOK).await;
        let now = monotonic();
        if !guard.is_held() {
            return say(Event::Lost { from, to });
        }
        to = now;
    }
    say(Event::Ended { from, to });
}
