//! The figures: what each is called, how it is measured, and where it is in the bench's lines.

use latchwork_bench::Line;
use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Better {
    Lower,
    Higher,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unit {
    #[serde(rename = "us")]
    Micros,
    #[serde(rename = "ms")]
    Millis,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "1/s")]
    PerSecond,
    #[serde(rename = "bytes")]
    Bytes,
    #[serde(rename = "KiB")]
    Kibibytes,
    #[serde(rename = "% of a core")]
    Percent,
    #[serde(rename = "TTL")]
    Ttls,
    /// A plain number.
    #[serde(rename = "")]
    Count,
    /// 1 for yes, 0 for no.
    #[serde(rename = "yes")]
    Yes,
}

/// Figures that are shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Group {
    Alone,
    HandOff,
    Wait,
    Throughput,
    Fairness,
    Recovery,
    Link,
    Wire,
    Server,
}

/// One figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    /// Its name in the JSON.
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
    /// The figure, if this line has it.
    pub(super) fn read(&self, line: &Line) -> Option<f64> {
        let fits = line.measure == self.measure && line.param == self.param;
        fits.then(|| (self.of)(line)).flatten().filter(|figure| figure.is_finite())
    }
}

impl Group {
    pub(super) const ALL: [Group; 9] = [
        Group::Alone,
        Group::HandOff,
        Group::Wait,
        Group::Throughput,
        Group::Fairness,
        Group::Recovery,
        Group::Link,
        Group::Wire,
        Group::Server,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Group::Alone => "A free lock: acquire and release",
            Group::HandOff => "One lock from contender to contender",
            Group::Wait => "How long the unlucky wait",
            Group::Throughput => "Many tasks, each on a lock of its own",
            Group::Fairness => "Fairness",
            Group::Recovery => "When a holder or the server dies",
            Group::Link => "Behind a slow link",
            Group::Wire => "What goes over the wire",
            Group::Server => "What a thousand held locks cost the server",
        }
    }

    pub(super) const fn how(self) -> &'static str {
        match self {
            Group::Alone => {
                "One task acquires and releases one mutex again and again over one connection; each pair is confirmed \
                 by the server and timed. p99.9 is shown from 1,000 pairs a round on: below that it would be the worst \
                 one or two."
            }
            Group::HandOff => {
                "So many contenders, each on a connection of its own, want one mutex; each releases at once and asks \
                 again at once. Timed is from just before a release until another's acquire returns (the median), and \
                 grants are counted. All contenders are in this process, so 128 are bound by its processor too."
            }
            Group::Wait => {
                "In the same contests: from the call of acquire until it returns, the worst hundredth. It grows with \
                 the queue, since everybody waits a turn."
            }
            Group::Throughput => {
                "So many tasks over one connection, each acquiring and releasing a mutex of its own; finished pairs \
                 are counted."
            }
            Group::Fairness => {
                "In the same contests: the grants of the contender that got most, divided by those of the one that got \
                 fewest. 1 is perfectly fair; without a figure one got none in the time."
            }
            Group::Recovery => {
                "A process of its own holds a mutex (TTL 4 s) and is killed by SIGKILL while another client waits for \
                 it: timed until that one holds. It may be less than a TTL, since the lease was last renewed before \
                 the kill. In memory the holder's client falls silent instead. Then the server itself is killed and \
                 started again on the same data: timed from the kill until a client that was connected holds a lock, \
                 and looked whether a hold from before is still there. A Redis that is started here keeps nothing on \
                 disk."
            }
            Group::Link => {
                "The same pair of acquire and release through a proxy of this program that delays each way by half of \
                 the time that is named. Figures close to twice the link's time mean one round trip each. The proxy \
                 slows this client's way only, not the server."
            }
            Group::Wire => {
                "Bytes are counted by a proxy in the way, both ways, for an acquire and release alone. Woken clients: \
                 16 in one queue, each through a proxy of its own; of how many the connection had traffic after one \
                 release, the releaser left out. 1 is the least: nobody wakes in vain. Requests are what the server \
                 itself counts."
            }
            Group::Server => {
                "One client opens 1,000 mutexes, keeps them, and closes. The server's process is looked at from \
                 outside: processor time to open and close, its share of a core in between, and growth of its \
                 resident memory, which a virtual machine rounds to what it has at hand."
            }
        }
    }
}

fn value(line: &Line) -> Option<f64> {
    line.value
}

fn detail(line: &Line, name: &str) -> Option<f64> {
    line.detail.get(name).copied()
}

/// All of them, in the order in which they are shown.
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
            (Group::Recovery, "a hold from before is still there"),
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

impl Unit {
    /// A figure for people: three digits, and a unit of fitting size.
    pub(super) fn shown(self, figure: f64) -> String {
        match self {
            Unit::Micros if figure >= 1e6 => format!("{} s", digits(figure / 1e6)),
            Unit::Micros if figure >= 1e3 => format!("{} ms", digits(figure / 1e3)),
            Unit::Micros => format!("{} µs", digits(figure)),
            Unit::Millis => format!("{} ms", digits(figure)),
            Unit::Seconds => format!("{} s", digits(figure)),
            Unit::PerSecond => format!("{}/s", digits(figure)),
            Unit::Bytes => format!("{} B", digits(figure)),
            Unit::Kibibytes if figure >= 1024.0 => format!("{} MiB", digits(figure / 1024.0)),
            Unit::Kibibytes => format!("{} KiB", digits(figure)),
            Unit::Percent => format!("{} %", digits(figure)),
            Unit::Ttls => format!("{} TTL", digits(figure)),
            Unit::Count => digits(figure),
            Unit::Yes if figure >= 1.0 => "yes".to_owned(),
            Unit::Yes if figure <= 0.0 => "no".to_owned(),
            Unit::Yes => "at times".to_owned(),
        }
    }
}

/// Three digits that count, thousands apart.
fn digits(figure: f64) -> String {
    let size = figure.abs();
    if size < 0.0005 {
        return "0".to_owned();
    }
    let decimals = match size {
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{figure:.decimals$}");
    if size < 10_000.0 {
        return text;
    }
    let mut apart = String::new();
    for (place, digit) in text.chars().enumerate() {
        if place > 0 && (text.len() - place).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_fitting_unit() {
        for (unit, figure, shown) in [
            (Unit::Micros, 121.4, "121 µs"),
            (Unit::Micros, 1234.0, "1.23 ms"),
            (Unit::PerSecond, 123_456.0, "123,456/s"),
            (Unit::PerSecond, 9876.0, "9876/s"),
            (Unit::Kibibytes, 2048.0, "2.00 MiB"),
            (Unit::Yes, 1.0, "yes"),
            (Unit::Count, 0.0, "0"),
            (Unit::Ttls, 0.84, "0.840 TTL"),
        ] {
            assert_eq!(unit.shown(figure), shown);
        }
    }

    #[test]
    fn each_figure_has_a_name_of_its_own_and_its_group_says_how_it_is_measured() {
        let mut names: Vec<_> = ALL.iter().map(|spec| spec.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for group in Group::ALL {
            assert!(ALL.iter().any(|spec| spec.group == group) && group.how().len() > 50);
        }
    }
}
