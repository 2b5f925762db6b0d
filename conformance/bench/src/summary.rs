mod cells;
mod figures;
mod moves;
mod tables;

use crate::line::Line;
use crate::raw::SAME_OF_THREE;
use crate::recipe::Recipe;
use crate::stats::Spread;
use crate::uncontended::MULTI;

/// The lines of all rounds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    lines: Vec<Line>,
}

type Key<'a> = (&'a str, &'a str, &'a str);

impl Summary {
    /// Adds the lines of a job.
    pub fn add(&mut self, lines: impl IntoIterator<Item = Line>) {
        self.lines.extend(lines);
    }

    /// Returns whether no hold overlapped and no job failed.
    pub fn is_good(&self) -> bool {
        !self.lines.is_empty() && !self.lines.iter().any(Line::is_bad)
    }

    /// By server, in the order of the lines.
    pub(super) fn keys(&self, measure: &str) -> Vec<Key<'_>> {
        let mut keys = Vec::new();
        for line in self.lines.iter().filter(|line| line.measure == measure) {
            let key = (line.server.as_str(), line.peer.as_str(), line.param.as_str());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.sort_by_key(|(server, ..)| self.lines.iter().position(|line| line.server == *server));
        keys
    }

    fn all<'a>(&'a self, measure: &'a str, key: Key<'a>) -> impl Iterator<Item = &'a Line> {
        let (server, peer, param) = key;
        self.lines.iter().filter(move |line| {
            line.measure == measure && line.server == server && line.peer == peer && line.param == param
        })
    }

    pub(super) fn spread(&self, measure: &str, key: Key<'_>, of: fn(&Line) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.all(measure, key).filter_map(of))
    }

    fn ratio(&self, key: Key<'_>, raw: &str) -> Option<Spread> {
        let ours = if raw == SAME_OF_THREE { MULTI } else { Recipe::Mutex.peer() };
        if key.1 == ours { self.beside("M1", key, raw) } else { None }
    }

    /// In the same round.
    fn beside(&self, measure: &str, key: Key<'_>, other: &str) -> Option<Spread> {
        self.divided((measure, key), (measure, (key.0, other, key.2)), |line| line.p50)
    }

    fn divided(
        &self,
        row: (&str, Key<'_>),
        by: (&str, Key<'_>),
        of: fn(&Line) -> Option<f64>,
    ) -> Option<Spread> {
        let ratio = |line: &Line| {
            let other = self.all(by.0, by.1).find(|other| other.round == line.round)?;
            Some(of(line)? / of(other)?)
        };
        Spread::of(self.all(row.0, row.1).filter_map(ratio))
    }

    /// In each round, for each name.
    fn asks_the_same(&self, key: Key<'_>, raw: &str) -> bool {
        let asked = |peer| self.all("M4", (key.0, peer, key.2));
        let mut ours = asked(key.1).peekable();
        ours.peek().is_some()
            && ours.all(|line| asked(raw).any(|other| other.round == line.round && line.asks_as(other)))
    }
}

pub(super) fn handed_on(line: &Line) -> Option<f64> {
    let n = line.n.filter(|n| *n > 0)? as f64;
    Some(line.value? * (1.0 - line.self_regrants? as f64 / n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::SAME;

    fn line(peer: &str, round: usize, p50: f64) -> Line {
        let line = Line::new("redis", peer, "M1", "1 task", "us");
        Line { p50: Some(p50), round: Some(round), ..line }
    }

    fn asked(peer: &str, round: usize, by_name: &[(&str, f64)]) -> Line {
        let line = Line::new("redis", peer, "M4", "uncontended", "server requests/acquisition");
        let detail = by_name.iter().map(|(name, figure)| ((*name).to_owned(), *figure)).collect();
        let sent = by_name.iter().map(|(_, figure)| figure).sum();
        Line { value: Some(sent), detail, round: Some(round), ..line }
    }

    fn rounds(raw_asks: &[(&str, f64)]) -> Summary {
        let (ours, alike) = ([("evalsha", 2.0)], [("evalsha", 2.0), ("ping", 0.01)]);
        let mut summary = Summary::default();
        for (round, p50, raw) in [(0, 10.0, 10.0), (1, 60.0, 50.0), (2, 130.0, 100.0)] {
            summary.add([line("latchwork-mutex", round, p50), asked("latchwork-mutex", round, &ours)]);
            summary.add([line("latchwork-rw-write", round, p50), asked("latchwork-rw-write", round, &ours)]);
            let raw_asks = if round == 2 { raw_asks } else { &alike };
            summary.add([line(SAME, round, raw), asked(SAME, round, raw_asks)]);
        }
        summary
    }

    #[test]
    fn a_ratio_is_taken_within_its_round_and_judged_by_the_median() {
        let summary = rounds(&[("evalsha", 2.01)]);
        let ratio = summary.ratio(("redis", "latchwork-mutex", "1 task"), SAME).unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (1.0, 1.2, 1.3));
        let shown = summary.to_string();
        assert!(shown.contains("1.20 [1.00..1.30]") && shown.contains("1.1: MISSED"), "{shown}");
        assert!(summary.is_good());
    }

    #[test]
    fn only_the_mutex_has_a_ratio() {
        let summary = rounds(&[("evalsha", 2.0)]);
        assert_eq!(summary.ratio(("redis", "latchwork-rw-write", "1 task"), SAME), None);
        assert_eq!(summary.ratio(("redis", SAME, "1 task"), SAME), None);
        assert_eq!(summary.to_string().matches("1.20").count(), 1);
    }

    #[test]
    fn against_other_requests_nothing_is_judged() {
        for other in [&[("evalsha", 3.0)][..], &[("evalsha", 1.0), ("del", 1.0)], &[]] {
            let shown = rounds(other).to_string();
            assert!(shown.contains("1.20 [1.00..1.30]") && shown.contains("not judged"), "{shown}");
            assert!(!shown.contains("MISSED"), "{shown}");
        }
    }

    #[test]
    fn summary_shows_hand_off_requests_with_budget_and_longest_wait() {
        for (server, peer, asked, shown) in [
            ("redis", "latchwork-mutex", 2.003, "2: met"),
            ("redis", "latchwork-mutex", 3.0, "2: MISSED"),
            ("zookeeper", "latchwork-mutex", 5.003, "5: met"),
            ("zookeeper", "latchwork-rw-write", 4.003, "4: met"),
            ("zookeeper", "latchwork-semaphore", 5.003, "5: met"),
            ("etcd", "latchwork-rw-write", 4.0, "3: MISSED"),
        ] {
            let line = |measure| Line::new(server, peer, measure, "W=16", "");
            let mut summary = Summary::default();
            // Sixteen turns take 8 ms.
            summary.add([
                Line { value: Some(2000.0), n: Some(100), ..line("M3_grants") },
                Line { p50: Some(8000.0), max: Some(12_000.0), ..line("M3_wait") },
                Line { value: Some(asked), ..line("M4") },
            ]);
            let printed = summary.to_string();
            assert!(
                printed.contains(shown) && printed.contains("8.0/12.0,"),
                "{server} {peer} in\n{printed}"
            );
            assert!(printed.contains(" 1.5 "), "no 1.5 turns of all in\n{printed}");
        }
    }

    #[test]
    fn summary_shows_cell_requests_with_their_budget() {
        for (server, measure, asked, requests, shown) in [
            ("redis", "COUNTER", "add", 1.01, "1: met"),
            ("redis", "COUNTER", "add", 2.0, "1: MISSED"),
            ("etcd", "LATCH_count", "count", 2.0, "1: MISSED"),
            ("etcd", "VALUE_write", "write", 2.0, "1: MISSED"),
            ("zookeeper", "VALUE_write", "write", 2.0, "2: met"),
        ] {
            let line = |peer, measure, param| Line::new(server, peer, measure, param, "");
            let timed = |peer, p50| Line { p50: Some(p50), round: Some(0), ..line(peer, measure, "1 task") };
            let mut summary = Summary::default();
            summary.add([timed("latchwork-counter", 30.0), timed(SAME, 20.0)]);
            summary.add([Line { value: Some(requests), ..line("latchwork-counter", "M4", asked) }]);
            let printed = summary.to_string();
            assert!(printed.contains(shown) && printed.matches("1.50").count() == 1, "{shown} in\n{printed}");
        }
    }

    #[test]
    fn cached_read_has_budget_zero_and_hand_over_mutex_ratio() {
        let line = |peer, measure, param| Line::new("redis", peer, measure, param, "");
        let mut summary = Summary::default();
        for (peer, measure, a_second) in
            [("latchwork-mutex", "M3_grants", 100.0), ("latchwork-election", "ELECTION_grants", 75.0)]
        {
            let line = Line { n: Some(100), self_regrants: Some(0), ..line(peer, measure, "W=16") };
            summary.add([Line { value: Some(a_second), round: Some(0), ..line }]);
        }
        summary.add([Line { value: Some(1.0), ..line("latchwork-value", "M4", "cached read") }]);
        let printed = summary.to_string();
        assert!(printed.contains("0: MISSED") && printed.contains("0.75"), "{printed}");
    }

    #[test]
    fn summary_compares_a_participant_with_clients_of_both_sides() {
        let param = "mutex to redis";
        for (server, phase, old, new, shown) in [
            ("redis", "latchwork-moving-old", 2.0, 0.0, ["2.00: met", "0.00: met"]),
            ("redis", "latchwork-moving-old", 3.0, 0.0, ["2.00: MISSED", "0.00: met"]),
            ("redis", "latchwork-moving-both-by-new", 3.0, 2.0, ["3.00: met", "2.00: met"]),
            ("redis", "latchwork-moving-both-by-old", 2.0, 3.0, ["3.00: MISSED", "2.00: MISSED"]),
            ("zookeeper", "latchwork-moving-both-by-old", 5.0, 2.0, ["5.00: met", "2.00: met"]),
            ("etcd", "latchwork-moving-new", 1.0, 2.0, ["0.00: MISSED", "2.00: met"]),
            ("etcd", "latchwork-moving-done", 0.0, 2.0, ["0.00: met", "2.00: met"]),
        ] {
            let mut summary = Summary::default();
            for (peer, p50, asked) in [
                ("latchwork-on-old", 100.0, [2.0, 0.0]),
                ("latchwork-on-new", 50.0, [0.0, 2.0]),
                (phase, 300.0, [old, new]),
            ] {
                let line = |measure, param: &str| Line::new(server, peer, measure, param, "");
                let asked = asked.into_iter().zip(crate::moving::asked_of(param));
                summary.add(asked.map(|(asked, param)| Line { value: Some(asked), ..line("M4", &param) }));
                summary.add([Line { p50: Some(p50), round: Some(0), ..line("MOVE", param) }]);
            }
            let printed = summary.to_string();
            assert!(shown.iter().all(|shown| printed.contains(shown)), "{shown:?} in\n{printed}");
            let ratio = if phase.contains("both") { "2.00" } else { "6.00" };
            let ratio = if phase.ends_with("old") && !phase.contains("both") { "3.00" } else { ratio };
            assert!(printed.contains(&format!(" {ratio} ")), "{ratio} in\n{printed}");
        }
    }

    #[test]
    fn half_of_the_grants_must_remain_despite_give_ups() {
        let granted = |param: &str, grants: f64| {
            let line = Line::new("etcd", "latchwork-mutex", "GIVEUPS_grants", param, "grants/s");
            Line { value: Some(grants), round: Some(0), ..line }
        };
        for (grants, shown) in [(250.0, "0.5: met"), (240.0, "0.5: MISSED")] {
            let mut summary = Summary::default();
            summary.add([granted("0 % W=32", 500.0), granted("20 % W=32", grants)]);
            let printed = summary.to_string();
            assert!(printed.contains(shown) && printed.matches("0.5: ").count() == 1, "{printed}");
        }
    }

    #[test]
    fn an_overlap_and_an_error_are_failures_that_are_shown() {
        let overlap = Line { overlaps: Some(1), ..Line::new("etcd", "p", "M3_grants", "W=2", "grants/s") };
        let error = Line { error: Some("no answer".to_owned()), ..line("p", 0, 1.0) };
        for (bad, shown) in [(overlap, "two holders at once"), (error, "no answer")] {
            let mut summary = Summary::default();
            summary.add([bad]);
            assert!(!summary.is_good() && summary.to_string().contains(shown));
        }
        assert!(!Summary::default().is_good());
    }
}
