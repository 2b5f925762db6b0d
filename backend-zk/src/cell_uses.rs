//! The uses of idle cells that this client has reported (CELL-IDLE).
//!
//! A use is a node with a TTL, below the cell. Its name has the cell's time to idle and a random number, so
//! it is unique. It lives a quarter longer than that time, so further uses within a quarter need no node.

use std::collections::HashMap;
use std::time::Duration;

use latchwork_core::backend::NodeId;
use latchwork_core::{Clock, Moment, TimeToIdle};
use parking_lot::Mutex;

const PREFIX: &str = "used-";
/// Beyond it, cells with old uses are forgotten.
const ROOM: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) name: String,
    pub(crate) time: TimeToIdle,
}

impl Use {
    pub(crate) fn new(time: TimeToIdle) -> Self {
        let time = whole(time);
        Self { name: format!("{PREFIX}{}-{}", time.get().as_millis(), NodeId::random()), time }
    }

    pub(crate) fn is_of(&self, time: TimeToIdle) -> bool {
        self.time == whole(time)
    }

    /// `None`: not a use.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (millis, id) = name.strip_prefix(PREFIX)?.split_once('-')?;
        NodeId::parse(id)?;
        let time = TimeToIdle::new(Duration::from_millis(millis.parse().ok()?)).ok()?;
        Some(Self { name: name.to_owned(), time })
    }

    pub(crate) fn lives(&self) -> Duration {
        let millis = (self.time.get() + self.time.unreported()).as_nanos().div_ceil(1_000_000);
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }
}

fn whole(time: TimeToIdle) -> TimeToIdle {
    let millis = u64::try_from(time.get().as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    TimeToIdle::new(Duration::from_millis(millis)).unwrap_or(time)
}

#[derive(Debug)]
pub(crate) struct CellUses {
    clock: Clock,
    reported: Mutex<HashMap<String, (Use, Moment)>>,
}

impl CellUses {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, reported: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// It may have expired.
    pub(crate) fn last(&self, cell: &str) -> Option<Use> {
        self.reported.lock().get(cell).map(|(last, _)| last.clone())
    }

    pub(crate) fn counting(&self, cell: &str) -> Option<Use> {
        let reported = self.reported.lock();
        let (last, sent) = reported.get(cell)?;
        (self.clock.now() < *sent + last.time.unreported()).then(|| last.clone())
    }

    pub(crate) fn note(&self, cell: &str, reported: Use, sent: Moment) {
        let mut all = self.reported.lock();
        if all.len() >= ROOM {
            let now = self.clock.now();
            all.retain(|_, (last, sent)| now < *sent + last.time.unreported());
        }
        all.insert(cell.to_owned(), (reported, sent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_time_and_nothing_else_is_one() {
        let time = TimeToIdle::new(Duration::from_micros(2_500_100)).unwrap();
        let made = Use::new(time);
        assert!(made.name.starts_with("used-2501-") && made.lives() >= time.get() * 5 / 4);
        let read = Use::parse(&made.name).expect("the name is a use");
        assert!(made.is_of(time) && read.is_of(time));
        assert_eq!(read, made);
        for other in
            ["latchwork", "used-", "used-3000-x", "used-0-00000000000000000000000000000000", "used--1"]
        {
            assert_eq!(Use::parse(other), None, "{other}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn cell_use_counts_for_a_quarter_of_idle_time() {
        let uses = CellUses::new(Clock::tokio());
        let made = Use::new(TimeToIdle::new(Duration::from_secs(4)).unwrap());
        assert_eq!((uses.last("/c"), uses.counting("/c")), (None, None));
        uses.note("/c", made.clone(), uses.now());
        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(uses.counting("/c"), Some(made.clone()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!((uses.last("/c"), uses.counting("/c")), (Some(made), None));
    }
}
