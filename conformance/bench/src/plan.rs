use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A family of measurements. The server's requests (M4) are counted within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// M1: one task on one key, compared with the same requests sent raw.
    Uncontended,
    /// M2: 64 tasks on 64 keys over one client.
    Throughput,
    /// M3: contenders on one key, each with a client.
    Handoff,
    /// Readers and writers on one key.
    Mixes,
    /// Weighted permits of one semaphore.
    Permits,
    /// Contenders, some of which give up.
    GiveUps,
    /// An owner acquires its lock again.
    Reentry,
    /// Adds to a counter by one client, and by many.
    Counter,
    /// A latch opens for many waiters.
    Latch,
    /// A value is written for many watches.
    Value,
    /// Candidates lead and resign.
    Election,
    /// One lock on a majority of three and of five coordinators.
    Quorum,
    /// A lock of a client that takes part in a move, in each phase.
    Moving,
    /// M5: thousands of locks held by one client.
    Held,
    /// The same number of members, which pass one barrier.
    Barrier,
    /// The same number of locks, opened, kept and closed while another client works.
    Many,
}

impl Measure {
    const NAMED: [(Measure, &'static str); 16] = [
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
        (Measure::Barrier, "BARRIER"),
        (Measure::Many, "MANY"),
    ];

    /// Returns all measures.
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
            format!("unknown measure {name:?}: expected {names} (M4 is counted within M1 and M3)")
        })
    }
}

/// The terms of a run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The time of each measurement.
    pub time: Duration,
    /// The warm-up before each measurement.
    pub warm: Duration,
    /// The numbers of contenders.
    pub contenders: Vec<usize>,
    /// The percentages of give-ups.
    pub give_ups: Vec<u32>,
    /// The numbers of held locks, and of members of a barrier.
    pub held: Vec<usize>,
    /// The time for which locks are held.
    pub held_time: Duration,
    /// Whether the requests are also sent raw.
    pub raw: bool,
}
