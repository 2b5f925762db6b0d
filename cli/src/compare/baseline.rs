//! A figure has changed since a saved run if both conditions hold:
//! - every round of one run is above every round of the other;
//! - the medians differ by a tenth if both runs have at least three rounds, by a quarter if one has two, by half if one has one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::figures::Better;
use super::report::{Change, Figure, Report, SCHEMA, Value};
use super::unit::Unit;
use crate::failure::{Failure, warn};

pub(super) fn read(path: &Path) -> Result<Report, Failure> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{shown}: {error}")).next("check the file's name"))?;
    let again = "save a new run with `latchwork compare --save FILE`";
    let broken = |error: serde_json::Error| {
        Failure::usage(format!("{shown} is not a saved run of `latchwork compare`: {error}")).next(again)
    };
    let json: serde_json::Value = serde_json::from_str(&text).map_err(broken)?;
    match json.get("schema").and_then(serde_json::Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => serde_json::from_value(json).map_err(broken),
        Some(schema) => Err(Failure::usage(format!(
            "{shown} has the schema {schema}, but this program reads schema {SCHEMA}"
        ))
        .next(again)),
        None => Err(Failure::usage(format!("{shown} is not a saved run of `latchwork compare`")).next(again)),
    }
}

pub(super) fn check(baseline: &Report, kinds: &[&str]) -> Result<(), Failure> {
    let then: BTreeSet<_> = baseline.coordinators.iter().map(|column| column.kind.as_str()).collect();
    let now: BTreeSet<_> = kinds.iter().copied().collect();
    let named = |kinds: &BTreeSet<&str>| kinds.iter().copied().collect::<Vec<_>>().join(", ");
    match then == now {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "the baseline is of {}, and this run of {}",
            named(&then),
            named(&now)
        ))
        .next("compare the same kinds of coordinators, or save a baseline of these")),
    }
}

pub(super) fn mark(report: &mut Report, baseline: &Report) {
    if report.machine != baseline.machine {
        warn("the baseline was measured on another machine, which can be the reason for changes");
    }
    if report.quick != baseline.quick {
        warn("only one of the two runs is a quick run, with shorter measurements");
    }
    for figure in &mut report.figures {
        let Some(then) = baseline.figure(&figure.id) else { continue };
        let (unit, better) = (figure.unit, figure.better);
        for (name, value) in &mut figure.values {
            value.change = then.values.get(name).and_then(|then| change(unit, better, then, value));
        }
    }
}

pub(super) fn changes(report: &Report) -> impl Iterator<Item = (&Figure, &str, Change)> {
    report.figures.iter().flat_map(|figure| {
        let values = figure.values.iter();
        values.filter_map(move |(name, value)| Some((figure, name.as_str(), value.change?)))
    })
}

fn change(unit: Unit, better: Better, then: &Value, now: &Value) -> Option<Change> {
    let meet = now.spread.min <= then.spread.max && then.spread.min <= now.spread.max;
    let ratio = now.spread.median / then.spread.median;
    let noise = match then.rounds.len().min(now.rounds.len()) {
        _ if unit == Unit::Yes => 0.0,
        0 | 1 => 0.5,
        2 => 0.25,
        _ => 0.1,
    };
    // A ratio to zero does not exist.
    let differs =
        if then.spread.median == 0.0 { now.spread.median != 0.0 } else { (ratio - 1.0).abs() > noise };
    (!meet && differs).then(|| Change {
        before: then.spread.median,
        ratio: if ratio.is_finite() { ratio } else { 0.0 },
        better: (now.spread.median < then.spread.median) == (better == Better::Lower),
    })
}

#[cfg(test)]
mod tests {
    use latchwork_bench::Spread;

    use super::super::report::tests::report;
    use super::*;

    fn value(figures: &[f64]) -> Value {
        let spread = Spread::of(figures.iter().copied()).unwrap();
        Value { spread, rounds: figures.iter().copied().enumerate().collect(), ratio: None, change: None }
    }

    #[test]
    fn a_change_is_beyond_both_spreads_and_more_than_noise() {
        let changed = |then: &[f64], now: &[f64]| {
            change(Unit::Micros, Better::Lower, &value(then), &value(now)).map(|change| change.better)
        };
        assert_eq!(changed(&[98.0, 100.0, 102.0], &[118.0, 120.0, 122.0]), Some(false));
        assert_eq!(changed(&[118.0, 120.0, 122.0], &[98.0, 100.0, 102.0]), Some(true));
        assert_eq!(changed(&[98.0, 100.0, 119.0], &[118.0, 120.0, 122.0]), None, "the spreads overlap");
        assert_eq!(changed(&[98.0, 100.0, 102.0], &[107.0, 108.0, 109.0]), None, "less than a tenth");
        assert_eq!(changed(&[98.0, 100.0], &[118.0, 120.0]), None, "two rounds: less than a quarter");
        assert_eq!(changed(&[100.0], &[140.0]), None, "one round: less than half");
        assert_eq!(changed(&[100.0], &[160.0]), Some(false));
        assert_eq!(changed(&[0.0], &[3.0]), Some(false), "from zero");
    }

    #[test]
    fn an_answer_that_is_another_has_changed() {
        let changed = |then: f64, now: f64| {
            change(Unit::Yes, Better::Higher, &value(&[then]), &value(&[now])).map(|change| change.better)
        };
        assert_eq!(changed(1.0, 0.0), Some(false));
        assert_eq!(changed(0.0, 1.0), Some(true));
        assert_eq!(changed(1.0, 1.0), None);
    }

    #[test]
    fn only_changed_figures_are_marked() {
        let then = report(&[("redis", 100.0), ("etcd", 250.0)]);
        let mut now = report(&[("redis", 150.0), ("etcd", 252.0)]);
        mark(&mut now, &then);
        let told: Vec<_> =
            changes(&now).map(|(figure, name, change)| (figure.id.as_str(), name, change.better)).collect();
        assert_eq!(told, [("alone.p50", "redis", false)]);
    }

    #[test]
    fn a_baseline_of_another_shape_or_of_other_coordinators_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("saved.json");
        for (text, says) in [
            (r#"{"schema": 2}"#, "has the schema 2"),
            (r#"{"other": 1}"#, "is not a saved run"),
            (r#"{"schema": 1}"#, "is not a saved run"),
            ("x", "is not a saved run"),
        ] {
            fs::write(&file, text).unwrap();
            let (what, next) = read(&file).unwrap_err().into_parts();
            assert!(what.contains(says) && next.is_some(), "{text}: {what}");
        }
        let saved = report(&[("redis", 100.0)]);
        fs::write(&file, serde_json::to_string(&saved).unwrap()).unwrap();
        let saved = read(&file).unwrap();
        assert!(check(&saved, &["redis"]).is_ok());
        let (what, _) = check(&saved, &["redis", "etcd"]).unwrap_err().into_parts();
        assert!(what.contains("of redis, and this run of etcd, redis"), "{what}");
    }
}
