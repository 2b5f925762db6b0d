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

/// Other programs use a given server too.
const GIVEN_AT_ONCE: usize = 16;
/// All servers grant it, also ZooKeeper with its default ticks.
const SHORT_TTL: Duration = Duration::from_secs(4);
/// Few renewals, because a server counts pings and renewals as requests.
pub(super) const LONG_TTL: Duration = Duration::from_secs(30);
/// In addition to the trial's own waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// A trial of a coordinator with a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// One task on one key.
    Alone,
    /// Tasks on as many keys, over one client.
    Tasks(usize),
    /// Contenders on one key, each with a client.
    Contest(usize),
    /// `Alone` over a link with this round-trip time.
    Link(Duration),
    /// Bytes of an acquisition, and clients that a release wakes.
    Wire,
    /// A holder's process is killed while another client waits.
    Crash,
    /// The server is killed and started again while one client holds.
    Restart,
    /// One client holds locks.
    Held(usize),
}

/// The terms of trials.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The time of a measurement.
    pub time: Duration,
    /// The warm-up before it.
    pub warm: Duration,
    /// The time for which many locks are held.
    pub held_time: Duration,
    /// A program, with arguments, that prints `held` and holds until its input ends. It gets the URL as `LATCHWORK_URL`, and
    /// further arguments: namespace, TTL in milliseconds, key.
    pub holder: Vec<OsString>,
}

impl Trial {
    /// Returns the reason if this trial cannot run on this coordinator.
    pub fn unfit(self, target: &Target) -> Option<&'static str> {
        let (memory, given) = (target.addr().is_none(), target.is_given());
        match self {
            Trial::Link(_) | Trial::Wire if memory => Some("the store of this process has no network link"),
            Trial::Link(_) | Trial::Wire if target.names_its_servers() => {
                Some("other servers name its addresses, so a client would connect without the proxy")
            }
            Trial::Restart | Trial::Held(_) if memory => Some("the store of this process has no server"),
            Trial::Restart if given => Some("a given server is never stopped"),
            Trial::Held(_) if given => Some("the process of a given server cannot be read"),
            Trial::Tasks(many) | Trial::Contest(many) if given && many > GIVEN_AT_ONCE => {
                Some("a given server gets at most 16 requests at once")
            }
            _ => None,
        }
    }

    /// Returns whether the trial only waits, and so may run on several coordinators at once.
    pub fn waits(self) -> bool {
        matches!(self, Trial::Crash | Trial::Restart)
    }

    /// Returns the approximate duration on an idle machine with two cores.
    pub fn takes(self, terms: &Terms) -> Duration {
        let played = terms.warm + terms.time;
        let ms = Duration::from_millis;
        match self {
            Trial::Alone => played + ms(250),
            Trial::Tasks(_) => played + ms(50),
            Trial::Contest(contenders) => {
                let each = ms(5) * u32::try_from(contenders).unwrap_or(1000);
                self.warm(terms) + self.time(terms) + ms(80) + each
            }
            // A few round trips to connect, and the least number of pairs.
            Trial::Link(delay) => terms.time.max(delay * 2 * link::LEAST) + delay * 14,
            Trial::Wire => ms(1000),
            // ZooKeeper has ticks of 2 s.
            Trial::Crash => SHORT_TTL + ms(3000),
            Trial::Restart => ms(5000),
            Trial::Held(_) => terms.held_time + ms(800),
        }
    }

    /// Many contenders need longer, so that each has a turn.
    fn time(self, terms: &Terms) -> Duration {
        terms.time * if self.is_crowd() { 2 } else { 1 }
    }

    fn warm(self, terms: &Terms) -> Duration {
        terms.warm * if self.is_crowd() { 3 } else { 1 }
    }

    fn is_crowd(self) -> bool {
        matches!(self, Trial::Contest(contenders) if contenders > GIVEN_AT_ONCE)
    }

    /// Plays the trial, and returns its lines.
    ///
    /// # Errors
    /// An error of the server, the library or this machine, or an overlap of holds.
    ///
    /// # Cancel safety
    /// Contenders may continue until the runtime ends. Their leases run out.
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
            Some(overlaps) => {
                Err(format!("{overlaps} holds overlapped, although only one client may hold at a time")
                    .into())
            }
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
