//! The tables of the recipes over cells: counters, latches, values; and of elections.

use comfy_table::Table;

use super::figures::{filled, in_millis, median, new_table, none, spread, verdict};
use super::tables::BESIDE;
use super::{Key, Summary, handed_on};
use crate::contest::ELECTION;
use crate::line::Line;
use crate::quorum::peer;
use crate::raw::{PLAIN, SAME, TO_FIVE, TO_THREE};
use crate::recipe::Recipe;
use crate::stats::Spread;

/// What is timed alone: its measure, the parameter of its requests, and their budget. Each is one
/// round trip; on ZooKeeper the stat of the directory goes with the write of a value in the same
/// trip.
const ALONE: [(&str, &str, f64); 3] =
    [("COUNTER", "add", 1.0), ("LATCH_count", "count", 1.0), ("VALUE_write", "write", 1.0)];
/// A read of a value that is watched asks nobody.
const CACHED: &str = "cached read";

impl Summary {
    pub(super) fn over_cells(&self) -> Option<Table> {
        let mut table = new_table(&[
            "over a cell,\nalone",
            "what",
            "peer",
            "p50 µs\n[over rounds]",
            "p99 µs",
            "x the same\nsent raw",
            "x INCRBY",
            "server\nrequests",
        ]);
        for (measure, asked, budget) in ALONE {
            for key in self.keys(measure) {
                let beside = |raw| {
                    let is_ours = key.1.starts_with("latchwork");
                    is_ours.then(|| self.beside(measure, key, raw, |line| line.p50)).flatten()
                };
                let with_stat = key.0 == "zookeeper" && asked == "write";
                table.add_row([
                    key.0.to_owned(),
                    asked.to_owned(),
                    key.1.to_owned(),
                    spread(self.spread(measure, key, |line| line.p50), 1),
                    median(self.spread(measure, key, |line| line.p99), 1),
                    spread(beside(SAME), 2),
                    spread(beside(PLAIN), 2),
                    self.within((key.0, key.1, asked), if with_stat { budget + 1.0 } else { budget }),
                ]);
            }
        }
        for key in self.keys("M4").into_iter().filter(|key| key.2 == CACHED) {
            table.add_row([
                key.0.to_owned(),
                CACHED.to_owned(),
                key.1.to_owned(),
                none(),
                none(),
                none(),
                none(),
                self.within(key, 0.0),
            ]);
        }
        filled(table)
    }

    /// The server's requests, and whether they are within a budget. What is sent raw is not judged.
    fn within(&self, key: Key<'_>, budget: f64) -> String {
        let shown = self.requests(key);
        match self.spread("M4", key, |line| line.value) {
            Some(asked) if key.1.starts_with("latchwork") => {
                format!("{shown}\n{budget}: {}", verdict(asked.median <= budget + BESIDE))
            }
            _ => shown,
        }
    }

    pub(super) fn adds(&self) -> Option<Table> {
        let mut table = new_table(&["one counter", "peer", "clients", "adds/s\n[over rounds]"]);
        for key in self.keys("COUNTER_adds") {
            let adds = self.spread("COUNTER_adds", key, |line| line.value);
            table.add_row([key.0.to_owned(), key.1.to_owned(), key.2.to_owned(), spread(adds, 0)]);
        }
        filled(table)
    }

    pub(super) fn heard(&self) -> Option<Table> {
        let mut table = new_table(&[
            "until the last\nhas heard",
            "of",
            "peer",
            "who wait",
            "ms p50\n[over rounds]",
            "ms p99",
            "x the same\nsent raw",
        ]);
        for (measure, of) in [("LATCH", "a latch that opens"), ("VALUE", "a value that is written")] {
            for key in self.keys(measure) {
                let figure = |of| self.spread(measure, key, of).map(in_millis);
                let raw = (key.1 != SAME).then(|| self.beside(measure, key, SAME, |line| line.p50));
                table.add_row([
                    key.0.to_owned(),
                    of.to_owned(),
                    key.1.to_owned(),
                    key.2.to_owned(),
                    spread(figure(|line| line.p50), 2),
                    median(figure(|line| line.p99), 2),
                    spread(raw.flatten(), 2),
                ]);
            }
        }
        filled(table)
    }

    /// What another client notices while one opens, keeps and closes thousands of locks.
    pub(super) fn many(&self) -> Option<Table> {
        let mut table = new_table(&[
            "many by\none client",
            "phase",
            "s",
            "another's acquire,\np50 ms",
            "p99 ms",
            "max ms",
            "cores %: client,\nserver",
            "client's memory,\nbytes a lock",
            "in the end",
        ]);
        for key in self.keys("MANY") {
            let figure = |of| self.spread("MANY", key, of);
            let millis = |of: fn(&Line) -> Option<f64>| spread(figure(of).map(in_millis), 2);
            let share = |of: fn(&Line) -> Option<f64>| spread(figure(of), 1);
            let ends: Vec<_> = self.all("MANY", key).filter_map(|line| line.note.clone()).collect();
            table.add_row([
                key.0.to_owned(),
                key.2.to_owned(),
                spread(figure(|line| line.value), 1),
                millis(|line| line.p50),
                millis(|line| line.p99),
                millis(|line| line.max),
                format!("{}, {}", share(|line| line.client_cpu_pct), share(|line| line.server_cpu_pct)),
                spread(figure(|line| line.client_bytes_per_lock), 0),
                ends.join("\n"),
            ]);
        }
        filled(table)
    }

    pub(super) fn quorums(&self) -> Option<Table> {
        const QUORUM: &str = "QUORUM";
        let mut table = new_table(&[
            "a majority,\nuncontended",
            "peer",
            "p50 µs\n[over rounds]",
            "p99 µs",
            "x the same\nsent raw",
            "server\nrequests",
        ]);
        for key in self.keys(QUORUM) {
            let beside =
                [(peer(3), TO_THREE), (peer(5), TO_FIVE)].into_iter().find(|(ours, _)| *ours == key.1);
            let ratio = beside.and_then(|(_, raw)| self.beside(QUORUM, key, raw, |line| line.p50));
            table.add_row([
                key.0.to_owned(),
                key.1.to_owned(),
                spread(self.spread(QUORUM, key, |line| line.p50), 1),
                median(self.spread(QUORUM, key, |line| line.p99), 1),
                spread(ratio, 2),
                self.requests((key.0, key.1, "majority")),
            ]);
        }
        filled(table)
    }

    /// A hand-over beside a mutex' hand-off: an election is a mutex' queue, and an announcement.
    pub(super) fn elections(&self) -> Option<Table> {
        const GRANTS: &str = "ELECTION_grants";
        let mut table = new_table(&[
            "election",
            "peer",
            "candidates",
            "hand-overs/s\n[over rounds]",
            "x a mutex'\nhand-offs/s",
            "hand-over ms\np50/p99/max",
            "server\nrequests",
            "over-\nlaps",
        ]);
        for key in self.keys(GRANTS) {
            let handed = |line: &Line| {
                let mutex = (key.0, Recipe::Mutex.peer(), key.2);
                let beside = self.all("M3_grants", mutex).find(|other| other.round == line.round)?;
                Some(handed_on(line)? / handed_on(beside)?)
            };
            let ratio = Spread::of(self.all(GRANTS, key).filter_map(handed));
            let handover = |of| self.spread("ELECTION_handoff", key, of).map(in_millis);
            let times = [handover(|line| line.p50), handover(|line| line.p99), handover(|line| line.max)];
            let overlaps: u64 = self.all(GRANTS, key).filter_map(|line| line.overlaps).sum();
            table.add_row([
                key.0.to_owned(),
                key.1.to_owned(),
                key.2.to_owned(),
                spread(self.spread(GRANTS, key, handed_on), 0),
                spread(ratio, 2),
                times.map(|time| median(time, 2)).join("/"),
                self.requests((key.0, ELECTION, key.2)),
                overlaps.to_string(),
            ]);
        }
        filled(table)
    }
}
