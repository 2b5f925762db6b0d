//! What coordinators are compared by: the same trial on each of them.

mod cleanup;
mod crash;
mod held;
mod link;
mod restart;
mod wire;

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use crate::contest::{Contest, Play};
use crate::line::Line;
use crate::plan::Plan;
use crate::recipe::Recipe;
use crate::target::Target;
use crate::{Result, throughput, uncontended};

/// More requests than this at once are not sent to a server that was given: others use it too.
const GIVEN_AT_ONCE: usize = 16;
/// The TTL of a holder that is killed: what ZooKeeper grants with its default ticks, and so all can.
const SHORT_TTL: Duration = Duration::from_secs(4);
/// The TTL where none should end and little be renewed: a server counts pings and renewals as requests.
pub(super) const LONG_TTL: Duration = Duration::from_secs(30);
/// What a trial may take beyond its own waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// One trial of a coordinator, with a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// One task, one key: the time of acquire and release, and the requests.
    Alone,
    /// So many tasks on as many keys, over one client.
    Tasks(usize),
    /// So many contenders with a client each on one key.
    Contest(usize),
    /// As `Alone`, behind a link with so long a way there and back.
    Link(Duration),
    /// Bytes of an acquisition, and how many clients hear of a release.
    Wire,
    /// A holder's process is killed while another client waits.
    Crash,
    /// The server is killed and started again while one client holds and another goes on.
    Restart,
    /// So many locks are held by one client.
    Held(usize),
}

/// The terms of trials.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How long a measurement lasts.
    pub time: Duration,
    /// How long it is played before it counts.
    pub warm: Duration,
    /// How long many locks are held.
    pub held_time: Duration,
    /// A program that holds a lock until its input ends, and says `held` when it does. It gets the URL
    /// as `LATCHWORK_URL`, and after these arguments the namespace, the TTL in milliseconds and the key.
    pub holder: Vec<OsString>,
}

impl Trial {
    /// Why this trial is not for this coordinator.
    pub fn unfit(self, target: &Target) -> Option<&'static str> {
        let (memory, given) = (target.addr().is_none(), target.is_given());
        match self {
            Trial::Link(_) | Trial::Wire if memory => Some("there is no wire inside a process"),
            Trial::Link(_) | Trial::Wire if target.names_its_servers() => {
                Some("its servers are named by others, and a client would go past the proxy")
            }
            Trial::Restart | Trial::Held(_) if memory => Some("there is no server"),
            Trial::Restart if given => Some("a server that was given is never stopped"),
            Trial::Held(_) if given => Some("its process is not ours to look at"),
            Trial::Tasks(many) | Trial::Contest(many) if given && many > GIVEN_AT_ONCE => {
                Some("a server that was given gets no more than 16 requests at once")
            }
            _ => None,
        }
    }

    /// Whether it only waits, so that several coordinators may be tried at once.
    pub fn waits(self) -> bool {
        matches!(self, Trial::Crash | Trial::Restart)
    }

    /// About how long it takes, on an idle machine of two cores.
    pub fn takes(self, terms: &Terms) -> Duration {
        let played = terms.warm + terms.time;
        let ms = Duration::from_millis;
        match self {
            Trial::Alone => played + ms(250),
            Trial::Tasks(_) => played + ms(50),
            // To connect them and to close.
            Trial::Contest(contenders) => {
                let each = ms(5) * u32::try_from(contenders).unwrap_or(1000);
                self.warm(terms) + self.time(terms) + ms(80) + each
            }
            // A few trips to connect, and at least so many pairs.
            Trial::Link(delay) => terms.time.max(delay * 2 * link::LEAST) + delay * 14,
            Trial::Wire => ms(1000),
            // ZooKeeper counts in ticks of 2 s.
            Trial::Crash => SHORT_TTL + ms(3000),
            Trial::Restart => ms(5000),
            Trial::Held(_) => terms.held_time + ms(800),
        }
    }

    /// A crowd needs longer, so that each has its turn.
    fn time(self, terms: &Terms) -> Duration {
        terms.time * if self.is_crowd() { 2 } else { 1 }
    }

    fn warm(self, terms: &Terms) -> Duration {
        terms.warm * if self.is_crowd() { 3 } else { 1 }
    }

    fn is_crowd(self) -> bool {
        matches!(self, Trial::Contest(contenders) if contenders > GIVEN_AT_ONCE)
    }

    /// Plays it.
    ///
    /// # Errors
    /// What the server, the library or this machine says; an overlap is one.
    ///
    /// # Cancel safety
    /// Cancelled, contenders may go on until the runtime ends, and leases that they leave run out.
    pub async fn play(self, target: &Target, terms: &Terms) -> Result<Vec<Line>> {
        let plan = Plan {
            time: self.time(terms),
            warm: self.warm(terms),
            held_time: terms.held_time,
            ..Plan::default()
        };
        let playing = async {
            match self {
                Trial::Alone => uncontended::measure(target, Recipe::Mutex, false, &plan).await,
                Trial::Tasks(count) => throughput::measure(target, Recipe::Mutex, count, &plan).await,
                Trial::Contest(contenders) => {
                    Contest { play: Play::Handoff(Recipe::Mutex), contenders }.measure(target, &plan).await
                }
                Trial::Link(delay) => link::measure(target, delay, &plan).await,
                Trial::Wire => wire::measure(target).await,
                Trial::Crash => crash::measure(target, terms).await,
                Trial::Restart => restart::measure(target).await,
                Trial::Held(count) => held::measure(target, count, &plan).await,
            }
        };
        let long = PATIENCE + self.takes(terms);
        let lines = tokio::time::timeout(long, playing).await;
        let lines = lines.map_err(|_| format!("{self} has not ended within {long:?}"))??;
        match lines.iter().find_map(|line| line.overlaps.filter(|overlaps| *overlaps > 0)) {
            Some(overlaps) => Err(format!("{overlaps} held at once what one alone may hold").into()),
            None => Ok(lines),
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trial::Alone => f.write_str("alone"),
            Trial::Tasks(1) => f.write_str("throughput, 1 task"),
            Trial::Tasks(count) => write!(f, "throughput, {count} tasks"),
            Trial::Contest(contenders) => write!(f, "hand-off, {contenders} contenders"),
            Trial::Link(delay) => write!(f, "a link of {} ms", delay.as_millis()),
            Trial::Wire => f.write_str("bytes and wake-ups"),
            Trial::Crash => f.write_str("a holder is killed"),
            Trial::Restart => f.write_str("the server is killed and started"),
            Trial::Held(count) => write!(f, "{count} held"),
        }
    }
}
