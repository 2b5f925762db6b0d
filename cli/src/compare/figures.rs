use latchwork_bench::Line;
use serde::{Deserialize, Serialize};

use super::group::Group;
use super::unit::Unit;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Better {
    Lower,
    Higher,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) id: &'static str,
    pub(super) group: Group,
    pub(super) title: &'static str,
    pub(super) unit: Unit,
    pub(super) better: Better,
    measure: &'static str,
    param: &'static str,
    of: fn(&Line) -> Option<f64>,
}

impl Spec {
    pub(super) fn fits(&self, line: &Line) -> bool {
        line.measure == self.measure && line.param == self.param
    }

    pub(super) fn read(&self, line: &Line) -> Option<f64> {
        (self.of)(line).filter(|figure| figure.is_finite() && self.fits(line))
    }

    /// A yes or no has no ratio, fairness is already one, and the memory of a process and small shares of its
    /// time are too coarse.
    pub(super) fn has_ratio(&self) -> bool {
        self.group != Group::Fairness && !matches!(self.unit, Unit::Yes | Unit::Kibibytes | Unit::Percent)
    }
}

fn value(line: &Line) -> Option<f64> {
    line.value
}

fn detail(line: &Line, name: &str) -> Option<f64> {
    line.detail.get(name).copied()
}

pub(super) const ALL: [Spec; 35] = {
    use Better::{Higher, Lower};
    use Unit::{Bytes, Count, Kibibytes, Micros, Millis, PerSecond, Percent, Seconds, Ttls, Yes};

    const fn spec(
        id: &'static str,
        (group, title): (Group, &'static str),
        (unit, better): (Unit, Better),
        (measure, param): (&'static str, &'static str),
        of: fn(&Line) -> Option<f64>,
    ) -> Spec {
        Spec { id, group, title, unit, better, measure, param, of }
    }
    const P50: fn(&Line) -> Option<f64> = |line| line.p50;
    const P99: fn(&Line) -> Option<f64> = |line| line.p99;
    const US: (Unit, Better) = (Micros, Lower);
    const RATE: (Unit, Better) = (PerSecond, Higher);
    const LEAST: (Unit, Better) = (Count, Lower);

    [
        spec("alone.p50", (Group::Alone, "median"), US, ("M1", "1 task"), P50),
        spec("alone.p99", (Group::Alone, "p99"), US, ("M1", "1 task"), P99),
        spec("alone.p999", (Group::Alone, "p99.9"), US, ("M1", "1 task"), |line| line.p999),
        spec("handoff.2", (Group::HandOff, "hand-off, 2 contenders"), US, ("M3_handoff", "W=2"), P50),
        spec("handoff.16", (Group::HandOff, "hand-off, 16 contenders"), US, ("M3_handoff", "W=16"), P50),
        spec("handoff.128", (Group::HandOff, "hand-off, 128 contenders"), US, ("M3_handoff", "W=128"), P50),
        spec(
            "grants.2",
            (Group::HandOff, "grants a second, 2 contenders"),
            RATE,
            ("M3_grants", "W=2"),
            value,
        ),
        spec(
            "grants.16",
            (Group::HandOff, "grants a second, 16 contenders"),
            RATE,
            ("M3_grants", "W=16"),
            value,
        ),
        spec(
            "grants.128",
            (Group::HandOff, "grants a second, 128 contenders"),
            RATE,
            ("M3_grants", "W=128"),
            value,
        ),
        spec("wait.2", (Group::Wait, "p99 of the wait, 2 contenders"), US, ("M3_wait", "W=2"), P99),
        spec("wait.16", (Group::Wait, "p99 of the wait, 16 contenders"), US, ("M3_wait", "W=16"), P99),
        spec("wait.128", (Group::Wait, "p99 of the wait, 128 contenders"), US, ("M3_wait", "W=128"), P99),
        spec("throughput.1", (Group::Throughput, "pairs a second, 1 task"), RATE, ("M2", "1 tasks"), value),
        spec("throughput.8", (Group::Throughput, "pairs a second, 8 tasks"), RATE, ("M2", "8 tasks"), value),
        spec(
            "throughput.64",
            (Group::Throughput, "pairs a second, 64 tasks"),
            RATE,
            ("M2", "64 tasks"),
            value,
        ),
        spec(
            "fair.2",
            (Group::Fairness, "most / fewest grants, 2 contenders"),
            LEAST,
            ("M3_fair", "W=2"),
            value,
        ),
        spec(
            "fair.16",
            (Group::Fairness, "most / fewest grants, 16 contenders"),
            LEAST,
            ("M3_fair", "W=16"),
            value,
        ),
        spec(
            "fair.128",
            (Group::Fairness, "most / fewest grants, 128 contenders"),
            LEAST,
            ("M3_fair", "W=128"),
            value,
        ),
        spec(
            "crash.wait",
            (Group::Recovery, "the next holds after a holder's SIGKILL"),
            (Seconds, Lower),
            ("CRASH", ""),
            value,
        ),
        spec("crash.ttl", (Group::Recovery, "the same, in TTLs"), (Ttls, Lower), ("CRASH", ""), |line| {
            Some(line.value? / detail(line, "ttl")?)
        }),
        spec(
            "restart.back",
            (Group::Recovery, "a client holds again after the server's SIGKILL and start"),
            (Seconds, Lower),
            ("RESTART", ""),
            value,
        ),
        spec(
            "restart.serves",
            (Group::Recovery, "of which the server's own start"),
            (Seconds, Lower),
            ("RESTART", ""),
            |line| detail(line, "serves"),
        ),
        spec(
            "restart.kept",
            (Group::Recovery, "a hold from before the restart still exists"),
            (Yes, Higher),
            ("RESTART", ""),
            |line| detail(line, "kept"),
        ),
        spec("link.1", (Group::Link, "acquire and release, 1 ms there and back"), US, ("LINK", "1 ms"), P50),
        spec(
            "link.10",
            (Group::Link, "acquire and release, 10 ms there and back"),
            US,
            ("LINK", "10 ms"),
            P50,
        ),
        spec(
            "link.50",
            (Group::Link, "acquire and release, 50 ms there and back"),
            US,
            ("LINK", "50 ms"),
            P50,
        ),
        spec(
            "wakes",
            (Group::Wire, "clients woken by a release"),
            LEAST,
            ("WAKES", "16 in the queue"),
            value,
        ),
        spec("requests.alone", (Group::Wire, "requests, alone"), LEAST, ("M4", "uncontended"), value),
        spec("requests.16", (Group::Wire, "requests, 16 contenders"), LEAST, ("M4", "W=16"), value),
        spec(
            "bytes.sent",
            (Group::Wire, "bytes to the server, alone"),
            (Bytes, Lower),
            ("BYTES", "uncontended"),
            |line| detail(line, "sent"),
        ),
        spec(
            "bytes.received",
            (Group::Wire, "bytes from the server, alone"),
            (Bytes, Lower),
            ("BYTES", "uncontended"),
            |line| detail(line, "received"),
        ),
        spec(
            "bytes.all",
            (Group::Wire, "bytes in all, alone"),
            (Bytes, Lower),
            ("BYTES", "uncontended"),
            value,
        ),
        spec(
            "held.cpu",
            (Group::Server, "processor time to open and close"),
            (Millis, Lower),
            ("HELD", "1000 held"),
            |line| detail(line, "cpu_ms"),
        ),
        spec("held.keep", (Group::Server, "to keep them"), (Percent, Lower), ("HELD", "1000 held"), |line| {
            detail(line, "keep_pct")
        }),
        spec("held.memory", (Group::Server, "memory"), (Kibibytes, Lower), ("HELD", "1000 held"), |line| {
            detail(line, "memory_kib")
        }),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_names_are_unique_and_groups_describe_their_method() {
        let mut names: Vec<_> = ALL.iter().map(|spec| spec.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for group in Group::ALL {
            assert!(ALL.iter().any(|spec| spec.group == group) && group.how().len() > 50);
        }
    }
}
