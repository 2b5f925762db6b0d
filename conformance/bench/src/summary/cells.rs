use comfy_table::Table;

use super::figures::{in_millis, median, none, spread, table};
use super::{Summary, handed_on};
use crate::contest::ELECTION;
use crate::line::Line;
use crate::quorum::peer;
use crate::raw::{PLAIN, SAME, TO_FIVE, TO_THREE};
use crate::recipe::Recipe;

/// Measure, parameter, and the budget of one round trip. On ZooKeeper the stat of the directory is in the
/// trip of the write.
const ALONE: [(&str, &str, f64); 3] =
    [("COUNTER", "add", 1.0), ("LATCH_count", "count", 1.0), ("VALUE_write", "write", 1.0)];
const CACHED: &str = "cached read";

impl Summary {
    pub(super) fn over_cells(&self) -> Option<Table> {
        let alone = ALONE.into_iter().flat_map(|(measure, asked, budget)| {
            self.keys(measure).into_iter().map(move |key| {
                let beside = |raw| {
                    let is_ours = key.1.starts_with("latchwork");
                    spread(is_ours.then(|| self.beside(measure, key, raw)).flatten(), 2)
                };
                let with_stat = key.0 == "zookeeper" && asked == "write";
                let budget = if with_stat { budget + 1.0 } else { budget };
                [
                    ("over a cell,\nalone", key.0.to_owned()),
                    ("what", asked.to_owned()),
                    ("peer", key.1.to_owned()),
                    ("p50 µs\n[over rounds]", spread(self.spread(measure, key, |line| line.p50), 1)),
                    ("p99 µs", median(self.spread(measure, key, |line| line.p99), 1)),
                    ("x the same\nsent raw", beside(SAME)),
                    ("x INCRBY", beside(PLAIN)),
                    ("server\nrequests", self.requests_within((key.0, key.1, asked), budget)),
                ]
            })
        });
        let cached = self.keys("M4").into_iter().filter(|key| key.2 == CACHED).map(|key| {
            [
                ("over a cell,\nalone", key.0.to_owned()),
                ("what", CACHED.to_owned()),
                ("peer", key.1.to_owned()),
                ("p50 µs\n[over rounds]", none()),
                ("p99 µs", none()),
                ("x the same\nsent raw", none()),
                ("x INCRBY", none()),
                ("server\nrequests", self.requests_within(key, 0.0)),
            ]
        });
        table(alone.chain(cached))
    }

    pub(super) fn adds(&self) -> Option<Table> {
        table(self.keys("COUNTER_adds").into_iter().map(|key| {
            [
                ("one counter", key.0.to_owned()),
                ("peer", key.1.to_owned()),
                ("clients", key.2.to_owned()),
                ("adds/s\n[over rounds]", spread(self.spread("COUNTER_adds", key, |line| line.value), 0)),
            ]
        }))
    }

    pub(super) fn heard(&self) -> Option<Table> {
        let events = [("LATCH", "a latch that opens"), ("VALUE", "a value that is written")];
        table(events.into_iter().flat_map(|(measure, of)| {
            self.keys(measure).into_iter().map(move |key| {
                let figure = |of| self.spread(measure, key, of).map(in_millis);
                let raw = (key.1 != SAME).then(|| self.beside(measure, key, SAME)).flatten();
                [
                    ("until the last\nhas heard", key.0.to_owned()),
                    ("of", of.to_owned()),
                    ("peer", key.1.to_owned()),
                    ("who wait", key.2.to_owned()),
                    ("ms p50\n[over rounds]", spread(figure(|line| line.p50), 2)),
                    ("ms p99", median(figure(|line| line.p99), 2)),
                    ("x the same\nsent raw", spread(raw, 2)),
                ]
            })
        }))
    }

    pub(super) fn many(&self) -> Option<Table> {
        table(self.keys("MANY").into_iter().map(|key| {
            let figure = |of| self.spread("MANY", key, of);
            let millis = |of: fn(&Line) -> Option<f64>| spread(figure(of).map(in_millis), 2);
            let share = |of: fn(&Line) -> Option<f64>| spread(figure(of), 1);
            let shares =
                format!("{}, {}", share(|line| line.client_cpu_pct), share(|line| line.server_cpu_pct));
            let ends: Vec<_> = self.all("MANY", key).filter_map(|line| line.note.clone()).collect();
            [
                ("many by\none client", key.0.to_owned()),
                ("phase", key.2.to_owned()),
                ("s", spread(figure(|line| line.value), 1)),
                ("another's acquire,\np50 ms", millis(|line| line.p50)),
                ("p99 ms", millis(|line| line.p99)),
                ("max ms", millis(|line| line.max)),
                ("cores %: client,\nserver", shares),
                ("client's memory,\nbytes a lock", spread(figure(|line| line.client_bytes_per_lock), 0)),
                ("in the end", ends.join("\n")),
            ]
        }))
    }

    pub(super) fn barriers(&self) -> Option<Table> {
        table(self.keys("BARRIER").into_iter().map(|key| {
            let figure = |of| self.spread("BARRIER", key, of);
            [
                ("a barrier", key.0.to_owned()),
                ("until all pass", key.2.to_owned()),
                ("s\n[over rounds]", spread(figure(|line| line.value), 2)),
                ("waiting, core %:\nclients", spread(figure(|line| line.client_cpu_pct), 1)),
                ("server", spread(figure(|line| line.server_cpu_pct), 1)),
            ]
        }))
    }

    pub(super) fn quorums(&self) -> Option<Table> {
        const QUORUM: &str = "QUORUM";
        table(self.keys(QUORUM).into_iter().map(|key| {
            let beside =
                [(peer(3), TO_THREE), (peer(5), TO_FIVE)].into_iter().find(|(ours, _)| *ours == key.1);
            let ratio = beside.and_then(|(_, raw)| self.beside(QUORUM, key, raw));
            [
                ("a majority,\nuncontended", key.0.to_owned()),
                ("peer", key.1.to_owned()),
                ("p50 µs\n[over rounds]", spread(self.spread(QUORUM, key, |line| line.p50), 1)),
                ("p99 µs", median(self.spread(QUORUM, key, |line| line.p99), 1)),
                ("x the same\nsent raw", spread(ratio, 2)),
                ("server\nrequests", self.requests((key.0, key.1, "majority"))),
            ]
        }))
    }

    /// An election is a queue of a mutex with an announcement.
    pub(super) fn elections(&self) -> Option<Table> {
        const GRANTS: &str = "ELECTION_grants";
        table(self.keys(GRANTS).into_iter().map(|key| {
            let mutex = (key.0, Recipe::Mutex.peer(), key.2);
            let ratio = self.divided((GRANTS, key), ("M3_grants", mutex), handed_on);
            [
                ("election", key.0.to_owned()),
                ("peer", key.1.to_owned()),
                ("candidates", key.2.to_owned()),
                ("hand-overs/s\n[over rounds]", spread(self.spread(GRANTS, key, handed_on), 0)),
                ("x a mutex'\nhand-offs/s", spread(ratio, 2)),
                ("hand-over ms\np50/p99/max", self.times("ELECTION_handoff", key)),
                ("server\nrequests", self.requests((key.0, ELECTION, key.2))),
                ("over-\nlaps", self.overlaps(GRANTS, key)),
            ]
        }))
    }
}
