//! What is measured, and for how long.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One family of measurements. What the server is asked for (M4) is counted within M1 and M3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// One task, one key: a pair of acquire and release, beside the same requests sent raw.
    Uncontended,
    /// 64 tasks on 64 keys over one client.
    Throughput,
    /// Contenders with a client each on one key.
    Handoff,
    /// Readers and writers on one key.
    Mixes,
    /// Weighted permits of one semaphore.
    Permits,
    /// Contenders of which some give up.
    GiveUps,
    /// Taking again what is held.
    Reentry,
    /// Adds to a counter, alone beside the same requests sent raw, and by many clients.
    Counter,
    /// A latch that opens for many who wait, and its count-down alone.
    Latch,
    /// A value that is written under the eyes of many, and its write alone.
    Value,
    /// Candidates with a client each for one election, which lead and resign.
    Election,
    /// One lock on a majority of three and of five coordinators.
    Quorum,
    /// A lock of a client that takes part in a move, in each phase, beside that of a plain one.
    Moving,
    /// Thousands of locks held by one client.
    Held,
    /// As many, opened, kept and closed beside another client.
    Many,
}

impl Measure {
    /// Every measure, with its name in lines and on the command line.
    const NAMED: [(Measure, &'static str); 15] = [
        (Measure::Uncontended, "M1"),
        (Measure::Throughput, "M2"),
        (Measure::Handoff, "M3"),
        (Measure::Mixes, "RW"),
        (Measure::Permits, "PERMITS"),
        (Measure::GiveUps, "GIVEUPS"),
        (Measure::Reentry, "REENTRY"),
        (Measure::Counter, "COUNTER"),
        (Measure::Latch, "LATCH"),
        (Measure::Value, "VALUE"),
        (Measure::Election, "ELECTION"),
        (Measure::Quorum, "QUORUM"),
        (Measure::Moving, "MOVE"),
        (Measure::Held, "M5"),
        (Measure::Many, "MANY"),
    ];

    /// Every measure.
    pub fn all() -> impl Iterator<Item = Measure> {
        Self::NAMED.into_iter().map(|(measure, _)| measure)
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMED.iter().find(|(measure, _)| measure == self);
        f.write_str(named.map_or("", |(_, name)| name))
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::NAMED.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
        named.map(|(measure, _)| *measure).ok_or_else(|| {
            let names = Self::NAMED.map(|(_, name)| name).join(", ");
            format!("no measure {name:?}: expected {names} (M4 is counted within M1 and M3)")
        })
    }
}

/// The terms of a run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// How long each measurement lasts.
    pub time: Duration,
    /// How long each is played before it counts.
    pub warm: Duration,
    /// How many contenders there are, one measurement each.
    pub contenders: Vec<usize>,
    /// Of how many per cent of the acquisitions the caller gives up, one measurement each.
    pub give_ups: Vec<u32>,
    /// How many locks are held, one measurement each.
    pub held: Vec<usize>,
    /// How long they are held.
    pub held_time: Duration,
    /// Whether the same requests are sent raw beside ours.
    pub raw: bool,
}
