use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use latchwork_conformance::hold_record::{HoldRecord, none_overlap};
use latchwork_core::Claim;

use super::contender::QuorumEvent;

#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    holds: [bool; 4],
    acquired: [usize; 4],
    records: Vec<HoldRecord>,
    lost: usize,
    failed: usize,
    // Of the last acquisition, and the longest gap; also without the delay of the machine, which counts
    // twice.
    last: Option<Instant>,
    longest: Duration,
    longest_in_time: Duration,
    // The largest delay since the last acquisition.
    overslept: Duration,
}

impl Seen {
    pub(crate) fn hear(&self, contender: usize, event: QuorumEvent) {
        self.with(|said| match event {
            QuorumEvent::Connected => {}
            QuorumEvent::Failed => said.failed += 1,
            QuorumEvent::Held => {
                said.holds[contender] = true;
                said.acquired[contender] += 1;
                let now = Instant::now();
                let gap = said.last.map_or(Duration::ZERO, |last| now - last);
                said.longest = gap.max(said.longest);
                let late = 2 * std::mem::take(&mut said.overslept);
                said.longest_in_time = gap.saturating_sub(late).max(said.longest_in_time);
                said.last = Some(now);
            }
            QuorumEvent::Ended { from, to } | QuorumEvent::Lost { from, to } => {
                said.holds[contender] = false;
                said.lost += usize::from(matches!(event, QuorumEvent::Lost { .. }));
                let (key, claim, token) = (0, Claim::Exclusive, None);
                said.records.push(HoldRecord { key, claim, token, from, to });
            }
        });
    }

    pub(crate) fn holds(&self, contender: usize) -> bool {
        self.with(|said| said.holds[contender])
    }

    pub(crate) fn overlap(&self) -> Option<String> {
        self.with(|said| none_overlap(&said.records, 1).err())
    }

    pub(crate) fn acquired(&self) -> [usize; 4] {
        self.with(|said| said.acquired)
    }

    pub(crate) fn longest_gap(&self) -> Duration {
        self.with(|said| said.longest_in_time)
    }

    pub(crate) fn overslept(&self, by: Duration) {
        self.with(|said| said.overslept = said.overslept.max(by));
    }

    pub(crate) fn print(&self, name: &str, took: Duration, restarts: usize) {
        let overlap = self.overlap();
        self.with(|said| {
            println!(
                "{name}: {took:.1?}, {restarts} restarts, 4 processes acquired {:?}, {} lost, {} in vain, \
                 longest time without an acquisition {:.1?}, overlap: {overlap:?}",
                said.acquired, said.lost, said.failed, said.longest,
            );
        });
    }

    fn with<T>(&self, what: impl FnOnce(&mut Said) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
