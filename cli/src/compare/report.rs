//! The data of `--json` and `--save`.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_bench::{Machine, Spread};
use serde::{Deserialize, Serialize};

use super::column::{Column, LeftOut, Origin};
use super::figures::{self, Better};
use super::group::Group;
use super::guarantees::{self, Guarantee, Promised};
use super::plan::Plan;
use super::run::Played;
use super::unit::Unit;

/// The version of this data. It changes if a field is removed or gets another meaning.
pub(super) const SCHEMA: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) schema: u32,
    pub(super) latchwork: String,
    /// UTC, of the end.
    pub(super) made: String,
    pub(super) took_s: f64,
    pub(super) quick: bool,
    pub(super) rounds: usize,
    pub(super) machine: Machine,
    pub(super) coordinators: Vec<Column>,
    pub(super) guarantees: Vec<Guarantee>,
    pub(super) figures: Vec<Figure>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Figure {
    pub(super) id: String,
    pub(super) group: Group,
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) better: Better,
    /// The best of the servers, on which ratios are based.
    pub(super) best: Option<String>,
    /// By the coordinator's name.
    pub(super) values: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Value {
    pub(super) spread: Spread,
    pub(super) rounds: BTreeMap<usize, f64>,
    /// How many times worse than the best in the same round.
    pub(super) ratio: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) change: Option<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) before: f64,
    pub(super) ratio: f64,
    pub(super) better: bool,
}

impl Report {
    pub(super) fn new(
        mut coordinators: Vec<Column>,
        promised: &Promised,
        played: &[Played],
        plan: &Plan,
        took: Duration,
    ) -> Self {
        for one in played {
            if let Err(why) = &one.outcome {
                let failed = LeftOut { what: one.trial.to_string(), why: why.clone() };
                let column = &mut coordinators[one.coordinator];
                if !column.failed.contains(&failed) {
                    column.failed.push(failed);
                }
            }
        }
        let guarantees = guarantees::all(promised);
        let figures = figures::ALL.iter().filter_map(|spec| figure(spec, &coordinators, played)).collect();
        let now = std::time::SystemTime::now();
        Self {
            schema: SCHEMA,
            latchwork: env!("CARGO_PKG_VERSION").to_owned(),
            made: humantime::format_rfc3339_seconds(now).to_string(),
            took_s: took.as_secs_f64(),
            quick: plan.quick,
            rounds: plan.rounds,
            machine: Machine::here(),
            coordinators,
            guarantees,
            figures,
        }
    }

    pub(super) fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    /// The machine was too slow for the planned time.
    pub(super) fn is_cut_short(&self) -> bool {
        let each_round =
            |figure: &&Figure| matches!(figure.group, Group::Alone | Group::HandOff | Group::Throughput);
        let mut values = self.figures.iter().filter(each_round).flat_map(|figure| figure.values.values());
        !self.has_failed() && values.any(|value| value.rounds.len() < self.rounds)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.coordinators.iter().any(|column| !column.failed.is_empty())
    }
}

fn figure(spec: &figures::Spec, coordinators: &[Column], played: &[Played]) -> Option<Figure> {
    let mut by_place: BTreeMap<usize, BTreeMap<usize, Option<f64>>> = BTreeMap::new();
    for one in played {
        let Ok(lines) = &one.outcome else { continue };
        if let Some(line) = lines.iter().find(|line| spec.fits(line)) {
            by_place.entry(one.coordinator).or_default().insert(one.round, spec.read(line));
        }
    }
    let mut values = BTreeMap::new();
    for (place, rounds) in by_place {
        // Otherwise the figure would show only the lucky rounds.
        let rounds = rounds.into_iter().map(|(round, figure)| Some((round, figure?)));
        let Some(rounds) = rounds.collect::<Option<BTreeMap<_, _>>>() else { continue };
        let Some(spread) = Spread::of(rounds.values().copied()) else { continue };
        values.insert(coordinators[place].name.clone(), Value { spread, rounds, ratio: None, change: None });
    }
    let best = best(spec.better, coordinators, &values).filter(|_| spec.has_ratio());
    if let Some(best) = best.as_ref().and_then(|name| values.get(name)).map(|value| value.rounds.clone()) {
        for value in values.values_mut() {
            let ratios = value.rounds.iter().filter_map(|(round, figure)| {
                let (worse, better) = match spec.better {
                    Better::Lower => (*figure, *best.get(round)?),
                    Better::Higher => (*best.get(round)?, *figure),
                };
                (better > 0.0).then(|| worse / better)
            });
            value.ratio = Spread::of(ratios);
        }
    }
    let (id, title) = (spec.id.to_owned(), spec.title.to_owned());
    let figure = Figure { id, group: spec.group, title, unit: spec.unit, better: spec.better, best, values };
    (!figure.values.is_empty()).then_some(figure)
}

/// Memory counts only in a run without a server.
fn best(better: Better, coordinators: &[Column], values: &BTreeMap<String, Value>) -> Option<String> {
    let servers = coordinators.iter().any(|column| column.origin != Origin::Process);
    let names = coordinators.iter().filter(|column| !servers || column.origin != Origin::Process);
    let medians = names.filter_map(|column| Some((&column.name, values.get(&column.name)?.spread.median)));
    let by = |one: &(&String, f64), other: &(&String, f64)| one.1.total_cmp(&other.1);
    let best = match better {
        Better::Lower => medians.min_by(by),
        Better::Higher => medians.max_by(by),
    };
    best.map(|(name, _)| name.clone())
}

#[cfg(test)]
pub(crate) mod tests {
    use latchwork_bench::{Line, Trial};

    use super::*;

    fn column(kind: &str) -> Column {
        let origin = if kind == "memory" { Origin::Process } else { Origin::Started };
        Column {
            name: kind.to_owned(),
            kind: kind.to_owned(),
            origin,
            version: Some("7.0 <b>".to_owned()),
            url: format!("{kind}://127.0.0.1:1"),
            ttl_s: 10.0,
            left_out: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// These medians, and two rounds 1 % higher and lower.
    pub(crate) fn report(medians: &[(&str, f64)]) -> Report {
        let plan = Plan::new(true, Some(3), &[]).unwrap();
        let mut played = Vec::new();
        for (coordinator, (_, median)) in medians.iter().enumerate() {
            for (round, factor) in [1.0, 0.99, 1.01].into_iter().enumerate() {
                let p50 = Some(median * factor);
                let line =
                    Line { measure: "M1".to_owned(), param: "1 task".to_owned(), p50, ..Line::default() };
                played.push(Played { coordinator, trial: Trial::Alone, round, outcome: Ok(vec![line]) });
            }
        }
        let columns: Vec<_> = medians.iter().map(|(kind, _)| column(kind)).collect();
        let promised = medians
            .iter()
            .map(|(kind, _)| {
                let yes = if *kind == "redis" { "no" } else { "yes" };
                let said = [("survives_failover", yes.to_owned()), ("clean_try", "yes".to_owned())];
                ((*kind).to_owned(), said.into())
            })
            .collect();
        Report::new(columns, &promised, &played, &plan, Duration::from_secs(1))
    }

    #[test]
    fn ratios_are_within_a_round_and_to_the_best_server() {
        let report = report(&[("memory", 2.0), ("redis", 100.0), ("etcd", 250.0)]);
        let figure = report.figure("alone.p50").unwrap();
        assert_eq!(figure.best.as_deref(), Some("redis"), "memory is not a server");
        let ratio = |name: &str| figure.values[name].ratio.unwrap();
        assert!((ratio("etcd").median - 2.5).abs() < 1e-9 && (ratio("etcd").max - 2.5).abs() < 1e-9);
        assert!((ratio("redis").median - 1.0).abs() < 1e-9);
        assert!((ratio("memory").median - 0.02).abs() < 1e-9);
        let spread = figure.values["etcd"].spread;
        assert!(spread.min < 250.0 && spread.max > 250.0);
    }

    #[test]
    fn a_figure_that_one_round_could_not_give_is_left_out() {
        let spec = figures::ALL.iter().find(|spec| spec.id == "alone.p999").unwrap();
        let of = |rounds: &[Option<f64>]| {
            let played: Vec<_> = (0..)
                .zip(rounds)
                .map(|(round, p999)| {
                    let line = Line { p999: *p999, measure: "M1".to_owned(), ..Line::default() };
                    let line = Line { param: "1 task".to_owned(), ..line };
                    Played { coordinator: 0, trial: Trial::Alone, round, outcome: Ok(vec![line]) }
                })
                .collect();
            figure(spec, &[column("redis")], &played).is_some()
        };
        assert!(!report(&[("redis", 1.0)]).is_cut_short());
        let mut short = report(&[("redis", 1.0)]);
        short.rounds += 1;
        assert!(short.is_cut_short());
        assert!(of(&[Some(1.0), Some(2.0)]));
        assert!(!of(&[Some(1.0), None]));
    }

    #[test]
    fn the_json_is_read_back_and_has_its_number() {
        let report = report(&[("redis", 100.0), ("etcd", 250.0)]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["figures"][0]["id"], "alone.p50");
        assert_eq!(json["figures"][0]["unit"], "us");
        assert_eq!(json["figures"][0]["values"]["etcd"]["spread"]["median"], 250.0);
        let again: Report = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), json);
    }
}
