//! The tables, with figures and budgets.
//!
//! These budgets were exceeded, each for the given reason:
//! - Hand-offs on Redis, 0.46 to 0.57 of raw (0.5): a hand-off runs two scripts of about 15 commands.
//! - Requests of a mutex hand-off on ZooKeeper, 5.1 to 5.4 (5) with 16 and 128 contenders: a join lists the queue if the order of
//!   the contenders has changed.
//! - Uncontended on Redis, up to 1.58 (1.5) times the simple lock, which has no queue, no rising token and no waiters to wake.
//! - Uncontended on Redis, up to 1.14 (1.1) times raw: each request takes about 8 µs for timeouts, the lease and the guard.

use std::fmt;

use comfy_table::Table;

use super::figures::{in_millis, judged, median, none, spread, table, verdict};
use super::{Key, Summary, handed_on};
use crate::line::Line;
use crate::raw::{LISTED, PLAIN, SAME, SAME_OF_THREE};
use crate::recipe::Recipe;
use crate::uncontended::MULTI;

/// Relative to the same requests sent raw.
const SAME_BUDGET: f64 = 1.10;
/// On Redis, relative to a plain `SET NX PX` and compare-and-delete.
const PLAIN_BUDGET: f64 = 1.5;
/// The requests of a hand-off. On Redis: a join and a leave, and none by the winner. On ZooKeeper: a create
/// and a delete, a watch of each waiter, and one look of the winner; or for a mutex, instead of the look,
/// each waiter's watches on its own node and on the release. On etcd: a join and a leave, and one look of the
/// winner; watches use an open stream.
const HANDOFF_BUDGETS: [(&str, f64); 3] = [("redis", 2.0), ("zookeeper", 4.0), ("etcd", 3.0)];
/// For renewals, repeated looks, and requests in progress at the count.
pub(super) const BESIDE: f64 = 0.1;
/// Relative to grants without give-ups.
const GIVE_UPS_BUDGET: f64 = 0.5;
const GIVE_UPS: &str = "GIVEUPS_grants";
/// Microseconds.
const REENTRY_BUDGET: f64 = 1.0;
/// Bytes of a held lock in the client.
const MEMORY_BUDGET: f64 = 1024.0;
/// On Redis, for 10,000 held locks, in percent of a core.
const RENEWAL_BUDGET: f64 = 1.0;

impl Summary {
    fn uncontended(&self) -> Option<Table> {
        let alone = self.keys("M1").into_iter().map(|key| {
            let other = match key.0 {
                "zookeeper" => spread(self.ratio(key, LISTED), 2),
                _ => judged(self.ratio(key, PLAIN), 2, PLAIN_BUDGET, ""),
            };
            [
                ("uncontended", key.0.to_owned()),
                ("peer", key.1.to_owned()),
                ("p50 µs\n[over rounds]", spread(self.spread("M1", key, |line| line.p50), 1)),
                ("p99 µs", median(self.spread("M1", key, |line| line.p99), 1)),
                ("x the same\nsent raw", self.beside_the_same(key)),
                ("x raw-plain,\nx raw-listed", other),
                ("server\nrequests", self.requests((key.0, key.1, "uncontended"))),
            ]
        });
        let again = self.keys("REENTRY").into_iter().map(|key| {
            let times = self.spread("REENTRY", key, |line| line.p50);
            [
                ("uncontended", key.0.to_owned()),
                ("peer", format!("{}\n(again)", key.1)),
                ("p50 µs\n[over rounds]", judged(times, 3, REENTRY_BUDGET, " µs")),
                ("p99 µs", median(self.spread("REENTRY", key, |line| line.p99), 3)),
                ("x the same\nsent raw", none()),
                ("x raw-plain,\nx raw-listed", none()),
                ("server\nrequests", self.requests(key)),
            ]
        });
        table(alone.chain(again))
    }

    /// The budget is for equal requests.
    fn beside_the_same(&self, key: Key<'_>) -> String {
        let raw = if key.1 == MULTI { SAME_OF_THREE } else { SAME };
        let ratio = self.ratio(key, raw);
        if ratio.is_none() || self.asks_the_same((key.0, key.1, "uncontended"), raw) {
            return judged(ratio, 2, SAME_BUDGET, "");
        }
        format!("{}\nother requests:\nnot judged", spread(ratio, 2))
    }

    /// etcd's messages include messages on open streams.
    pub(super) fn requests(&self, key: Key<'_>) -> String {
        let figure = |of| self.spread("M4", key, of);
        let sent = median(figure(|line| line.value), 2);
        match (figure(|line| line.in_script), figure(|line| line.msgs)) {
            (Some(in_script), _) => {
                let busy = median(figure(|line| line.server_us), 0);
                format!("{sent}\n(+{:.1} in scripts,\n{busy} µs)", in_script.median)
            }
            (_, Some(messages)) => format!("{sent}\n({:.1} messages)", messages.median),
            _ => sent,
        }
    }

    pub(super) fn requests_within(&self, key: Key<'_>, budget: f64) -> String {
        let shown = self.requests(key);
        match self.spread("M4", key, |line| line.value) {
            Some(asked) if key.1.starts_with("latchwork") => {
                format!("{shown}\n{budget}: {}", verdict(asked.median <= budget + BESIDE))
            }
            _ => shown,
        }
    }

    /// Milliseconds.
    pub(super) fn times(&self, measure: &str, key: Key<'_>) -> String {
        let times = [|line: &Line| line.p50, |line: &Line| line.p99, |line: &Line| line.max];
        times.map(|of| median(self.spread(measure, key, of).map(in_millis), 2)).join("/")
    }

    pub(super) fn overlaps(&self, measure: &str, key: Key<'_>) -> String {
        self.all(measure, key).filter_map(|line| line.overlaps).sum::<u64>().to_string()
    }

    fn throughput(&self) -> Option<Table> {
        table(self.keys("M2").into_iter().map(|key| {
            [
                ("64 tasks, 64 keys", key.0.to_owned()),
                ("peer", key.1.to_owned()),
                ("pairs/s\n[over rounds]", spread(self.spread("M2", key, |line| line.value), 0)),
            ]
        }))
    }

    fn contended(&self) -> Option<Table> {
        let rows = ["M3", "RW", "PERMITS"].into_iter().flat_map(|measure| {
            let keys = self.keys(&format!("{measure}_grants"));
            keys.into_iter().map(move |key| self.contest(measure, key))
        });
        table(rows)
    }

    fn contest(&self, measure: &str, key: Key<'_>) -> [(&'static str, String); 10] {
        let named = |what: &str| format!("{measure}_{what}");
        let grants = named("grants");
        // Without exclusion there is no hand-off.
        let (handed, times, requests) = match measure {
            "M3" => (
                self.spread(&grants, key, handed_on),
                self.times(&named("handoff"), key),
                self.winners_requests(key),
            ),
            _ => (None, none(), self.requests(key)),
        };
        [
            ("one key", key.0.to_owned()),
            ("peer", key.1.to_owned()),
            ("contenders", key.2.to_owned()),
            ("grants/s\n[over rounds]", spread(self.spread(&grants, key, |line| line.value), 0)),
            ("handed\non/s", median(handed, 0)),
            ("hand-off ms\np50/p99/max", times),
            ("wait ms p50/max,\nmax in turns of all", self.waits(measure, key)),
            ("max/min", median(self.spread(&named("fair"), key, |line| line.value), 1)),
            ("server\nrequests", requests),
            ("over-\nlaps", self.overlaps(&grants, key)),
        ]
    }

    fn winners_requests(&self, key: Key<'_>) -> String {
        let Some((_, budget)) = HANDOFF_BUDGETS.iter().find(|(server, _)| *server == key.0) else {
            return self.requests(key);
        };
        // A holder of permits marks its admission if a waiter follows. On Redis the server does it.
        let marks = key.1 == Recipe::Semaphore.peer() && key.0 != "redis";
        let watches = key.1 == Recipe::Mutex.peer() && key.0 == "zookeeper";
        self.requests_within(key, budget + f64::from(u8::from(marks || watches)))
    }

    /// The longest wait in turns of all contenders shows the effect of the queue.
    fn waits(&self, measure: &str, key: Key<'_>) -> String {
        let (wait, grants) = (format!("{measure}_wait"), format!("{measure}_grants"));
        let figure = |of| self.spread(&wait, key, of).map(in_millis);
        let (middle, longest) = (figure(|line| line.p50), figure(|line| line.max));
        let shown = [middle, longest].map(|time| median(time, 1)).join("/");
        let contenders = key.2.rsplit_once("W=").and_then(|(_, contenders)| contenders.parse::<f64>().ok());
        let a_second = self.spread(&grants, key, |line| line.value);
        match (longest, contenders, a_second) {
            (Some(longest), Some(contenders), Some(a_second)) => {
                format!("{shown},\n{:.1}", longest.median / 1e3 * a_second.median / contenders)
            }
            _ => shown,
        }
    }

    fn give_ups(&self) -> Option<Table> {
        table(self.keys(GIVE_UPS).into_iter().map(|key| {
            let free = self.spread("GIVEUPS_free", key, |line| line.value);
            [
                ("some give up", key.0.to_owned()),
                ("peer", key.1.to_owned()),
                ("of the\nacquisitions", key.2.to_owned()),
                ("grants/s\n[over rounds]", spread(self.spread(GIVE_UPS, key, |line| line.value), 0)),
                ("x that with\nno give-ups", self.beside_no_give_ups(key)),
                ("free while one waits,\n% of the time", median(free, 0)),
                ("free ms\np50/p99/max", self.times("GIVEUPS_free", key)),
                ("server\nrequests", self.requests(key)),
                ("over-\nlaps", self.overlaps(GIVE_UPS, key)),
            ]
        }))
    }

    fn beside_no_give_ups(&self, key: Key<'_>) -> String {
        let Some((_, contenders)) = key.2.split_once(" % ") else { return none() };
        let none_given_up = format!("0 % {contenders}");
        let beside = (key.0, key.1, none_given_up.as_str());
        match self.divided((GIVE_UPS, key), (GIVE_UPS, beside), |line| line.value) {
            Some(ratio) if key.2 != none_given_up => {
                let word = verdict(ratio.median >= GIVE_UPS_BUDGET);
                format!("{}\n{GIVE_UPS_BUDGET}: {word}", spread(Some(ratio), 2))
            }
            _ => none(),
        }
    }

    fn held(&self) -> Option<Table> {
        table(self.keys("M5").into_iter().map(|key| {
            let figure = |of| self.spread("M5", key, of);
            let share = figure(|line| line.client_cpu_pct);
            // Other servers renew one lease for all locks.
            let share =
                if key.0 == "redis" { judged(share, 2, RENEWAL_BUDGET, " %") } else { spread(share, 2) };
            let memory = judged(figure(|line| line.client_bytes_per_lock), 0, MEMORY_BUDGET, "");
            [
                ("held by\none client", key.0.to_owned()),
                ("locks", key.2.to_owned()),
                ("acquired\nin s", spread(figure(|line| line.acquire_all_s), 2)),
                ("commands/s", spread(figure(|line| line.value), 1)),
                ("server's\ncore %", spread(figure(|line| line.server_cpu_pct), 2)),
                ("client's\ncore %", share),
                ("client's memory,\nbytes a lock", memory),
            ]
        }))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = [
            self.uncontended(),
            self.throughput(),
            self.contended(),
            self.give_ups(),
            self.over_cells(),
            self.adds(),
            self.heard(),
            self.elections(),
            self.quorums(),
            self.moves(),
            self.held(),
            self.barriers(),
            self.many(),
        ];
        for table in tables.into_iter().flatten() {
            writeln!(f, "{table}\n")?;
        }
        writeln!(
            f,
            "Figures are medians over rounds, with [lowest..highest]. A ratio compares two peers that take turns in one round."
        )?;
        writeln!(
            f,
            "`picture` compares hand-offs a second with the raw peers of the peers' harness, which runs this program with --json."
        )?;
        if cfg!(debug_assertions) {
            writeln!(
                f,
                "This is a debug build: do not compare its figures with the budgets. Build it with --release."
            )?;
        }
        for line in self.lines.iter().filter(|line| line.is_bad()) {
            let why = line.error.clone().unwrap_or_else(|| "two holders at once".to_owned());
            writeln!(f, "FAILED {} {} {} {}: {why}", line.server, line.peer, line.measure, line.param)?;
        }
        Ok(())
    }
}
