//! The page loads nothing.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};
use serde::Serialize;

use super::advice::{self, times};
use super::baseline;
use super::charts::{self, Point, Series};
use super::column::Origin;
use super::figures::Better;
use super::group::Group;
use super::report::{Figure, Report};
use super::table::mark;
use super::unit::{Unit, at_axis};
use crate::failure::Failure;

const RATIOS: [(&str, &str); 9] = [
    ("alone.p50", "free lock, median"),
    ("alone.p99", "free lock, p99"),
    ("grants.2", "grants, 2 contend"),
    ("grants.16", "grants, 16 contend"),
    ("grants.128", "grants, 128 contend"),
    ("throughput.64", "64 tasks, 64 locks"),
    ("link.50", "link of 50 ms"),
    ("crash.wait", "holder killed"),
    ("restart.back", "server killed"),
];

#[derive(Debug, Serialize)]
struct View<'a> {
    style: &'static str,
    report: &'a Report,
    made: String,
    took: String,
    memory: String,
    answers: Vec<advice::Answer>,
    ratios: Option<Chart>,
    ratio_rows: Vec<Row>,
    sections: Vec<Section>,
    has_started: bool,
    has_changes: bool,
    is_cut_short: bool,
}

#[derive(Debug, Serialize)]
struct Section {
    id: String,
    title: &'static str,
    how: &'static str,
    charts: Vec<Chart>,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Chart {
    title: String,
    svg: String,
}

#[derive(Debug, Serialize)]
struct Row {
    title: String,
    cells: Vec<Cell>,
}

#[derive(Debug, Default, Serialize)]
struct Cell {
    best: bool,
    ratio: String,
    figure: String,
    spread: String,
    mark: String,
    good: bool,
}

pub(super) fn html(report: &Report) -> Result<String, Failure> {
    render(report).map_err(|error| Failure::machine("the HTML page cannot be generated", error))
}

fn render(report: &Report) -> Result<String, Box<dyn std::error::Error>> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    // The extension of the name makes the template escape all values.
    environment.add_template("page.html", include_str!("page.html"))?;
    let sections = Group::ALL.iter().filter_map(|group| section(report, *group).transpose());
    let has_started = report.coordinators.iter().any(|column| column.origin == Origin::Started);
    let view = View {
        style: include_str!("page.css"),
        report,
        made: report.made.replace('T', " ").replace('Z', " UTC"),
        took: format!("{:.0} s", report.took_s),
        memory: format!("{:.0} GiB", report.machine.memory as f64 / f64::from(1 << 30)),
        answers: advice::of(report),
        ratios: ratios(report)?,
        ratio_rows: RATIOS
            .iter()
            .filter_map(|(id, title)| Some(row(report, report.figure(id)?, title)))
            .collect(),
        sections: sections.collect::<Result<Vec<_>, _>>()?,
        has_started,
        is_cut_short: report.is_cut_short(),
        has_changes: baseline::changes(report).next().is_some(),
    };
    Ok(environment.get_template("page.html")?.render(Value::from(Serde(view)))?)
}

fn section(report: &Report, group: Group) -> Result<Option<Section>, Box<dyn std::error::Error>> {
    let figures: Vec<_> = report.figures.iter().filter(|figure| figure.group == group).collect();
    if figures.is_empty() {
        return Ok(None);
    }
    let rows = figures.iter().map(|figure| row(report, figure, &figure.title)).collect();
    let id = serde_json::to_value(group)?.as_str().unwrap_or_default().to_owned();
    Ok(Some(Section { id, title: group.title(), how: group.how(), charts: charts_of(report, group)?, rows }))
}

fn row(report: &Report, figure: &Figure, title: &str) -> Row {
    let cell = |name: &str| {
        let Some(value) = figure.values.get(name) else {
            return Cell { figure: "–".to_owned(), ..Cell::default() };
        };
        let (spread, unit) = (value.spread, figure.unit);
        Cell {
            best: figure.best.as_deref() == Some(name),
            ratio: value.ratio.map(|ratio| times(ratio.median)).unwrap_or_default(),
            figure: unit.shown(spread.median),
            spread: match value.rounds.len() {
                1 => String::new(),
                rounds => {
                    format!("{} to {}, {rounds} rounds", unit.shown(spread.min), unit.shown(spread.max))
                }
            },
            mark: mark(value, figure.better).trim().to_owned(),
            good: value.change.is_some_and(|change| change.better),
        }
    };
    let cells = report.coordinators.iter().map(|column| cell(&column.name)).collect();
    Row { title: title.to_owned(), cells }
}

fn ratios(report: &Report) -> Result<Option<Chart>, Box<dyn std::error::Error>> {
    let shown: Vec<_> = RATIOS.iter().filter(|(id, _)| report.figure(id).is_some()).collect();
    let labels: Vec<_> = shown.iter().map(|(_, label)| *label).collect();
    let of = |name: &str, id: &str| -> Option<Point> {
        let ratio = report.figure(id)?.values.get(name)?.ratio?;
        Some((ratio.median, ratio.min, ratio.max))
    };
    // Memory would stretch the scale.
    let servers =
        report.coordinators.iter().enumerate().filter(|(_, column)| column.origin != Origin::Process);
    let series: Vec<_> = servers
        .map(|(place, column)| Series {
            place,
            points: shown.iter().map(|(id, _)| of(&column.name, id)).collect(),
        })
        .collect();
    if series.len() < 2 || labels.is_empty() {
        return Ok(None);
    }
    let svg = charts::dots(&labels, &series, &|ratio| at_axis(&(times(ratio) + " ×")))?;
    Ok(Some(Chart {
        title: "How many times worse than the best server (1 is the best; logarithmic)".to_owned(),
        svg,
    }))
}

type Curve = (&'static str, &'static [(&'static str, &'static str)]);

fn charts_of(report: &Report, group: Group) -> Result<Vec<Chart>, Box<dyn std::error::Error>> {
    let curves: &[Curve] = match group {
        Group::Alone => {
            &[("Time of a pair", &[("alone.p50", "median"), ("alone.p99", "p99"), ("alone.p999", "p99.9")])]
        }
        Group::HandOff => &[
            (
                "Grants a second, by contenders",
                &[("grants.2", "2"), ("grants.16", "16"), ("grants.128", "128")],
            ),
            (
                "Time of a hand-off, by contenders",
                &[("handoff.2", "2"), ("handoff.16", "16"), ("handoff.128", "128")],
            ),
        ],
        Group::Wait => &[(
            "The 99th percentile of waits, by contenders",
            &[("wait.2", "2"), ("wait.16", "16"), ("wait.128", "128")],
        )],
        Group::Throughput => &[(
            "Pairs a second, by tasks",
            &[("throughput.1", "1"), ("throughput.8", "8"), ("throughput.64", "64")],
        )],
        Group::Link => &[(
            "Time of a pair, by the round trip of the link",
            &[("alone.p50", "none"), ("link.1", "1 ms"), ("link.10", "10 ms"), ("link.50", "50 ms")],
        )],
        Group::Fairness | Group::Recovery | Group::Wire | Group::Server => &[],
    };
    let mut charts = Vec::new();
    for (title, figures) in curves {
        let figures: Vec<_> =
            figures.iter().filter_map(|(id, label)| Some((report.figure(id)?, *label))).collect();
        let Some((first, _)) = figures.first() else { continue };
        let unit: Unit = first.unit;
        let labels: Vec<_> = figures.iter().map(|(_, label)| *label).collect();
        let of = |name: &str, figure: &Figure| -> Option<Point> {
            let spread = figure.values.get(name)?.spread;
            Some((spread.median, spread.min, spread.max))
        };
        let series: Vec<_> = report
            .coordinators
            .iter()
            .enumerate()
            .filter(|(_, column)| group != Group::Link || column.origin != Origin::Process)
            .map(|(place, column)| Series {
                place,
                points: figures.iter().map(|(figure, _)| of(&column.name, figure)).collect(),
            })
            .collect();
        let better = if first.better == Better::Lower { "lower is better" } else { "higher is better" };
        let svg = charts::lines(&labels, &series, &|figure| at_axis(&unit.shown(figure)))?;
        charts.push(Chart { title: format!("{title} ({better}; logarithmic)"), svg });
    }
    Ok(charts)
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn server_text_is_escaped_on_the_page() {
        let page = html(&report(&[("redis", 100.0), ("etcd", 250.0)])).unwrap();
        assert!(page.contains("7.0 &lt;b&gt;") && !page.contains("7.0 <b>"), "{page}");
    }

    #[test]
    fn answers_come_first_and_each_section_says_how_it_was_measured() {
        let page = html(&report(&[("memory", 1.0), ("redis", 100.0), ("etcd", 250.0)])).unwrap();
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"));
        assert!(place("A free lock in the shortest time") < place("How they compare"));
        assert!(place("How they compare") < place("What each promises"));
        assert!(place("What each promises") < place(Group::Alone.how().split('.').next().unwrap()));
        assert!(place("2.50 ×") < place("How it was measured."), "ratios are before the details");
    }

    #[test]
    fn page_marks_changes_since_the_baseline() {
        let then = report(&[("redis", 100.0), ("etcd", 250.0)]);
        let mut now = report(&[("redis", 300.0), ("etcd", 250.0)]);
        assert!(!html(&now).unwrap().contains("since the baseline"));
        baseline::mark(&mut now, &then);
        let page = html(&now).unwrap();
        assert!(
            page.contains("▲ worse, 3.00 times the baseline") && page.contains("since the baseline"),
            "{page}"
        );
    }
}
