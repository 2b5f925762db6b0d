//! Tests every panel of the dashboard and every alert on Debian's Prometheus, which scrapes two services that
//! contend on a Redis, through an outage, and a third one that moves its locks. An ignored test has eight
//! services and twenty failovers instead, and draws the page with chromium.

mod files;
mod prometheus;
mod run;

use std::time::Duration;

use files::{dashboard, names_in, rules};
use latchwork::telemetry::METRICS;
use prometheus::promtool;
use run::Run;

#[test]
fn promtool_accepts_the_alerts_and_their_tests() {
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts.test.yml"],
        ["check", "config", "prometheus.yml"],
    ] {
        let (success, said) = promtool(&arguments);
        assert!(success, "promtool {arguments:?}: {said}");
    }
}

#[test]
fn promtool_refuses_alerts_whose_threshold_is_never_met() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = files::text("alerts.yml").replace("> 0\n", "> 1000\n");
    std::fs::write(folder.path().join("alerts.yml"), rules).expect("written");
    let tests = folder.path().join("alerts.test.yml");
    std::fs::write(&tests, files::text("alerts.test.yml")).expect("written");
    let (success, said) = promtool(&["test", "rules", tests.to_str().expect("a path")]);
    assert!(!success && said.contains("LatchworkHoldsLost"), "{said}");
}

#[test]
fn each_alert_has_a_test() {
    let tests = files::text("alerts.test.yml");
    let alerts = rules();
    assert!(alerts.len() > 8, "{alerts:?}");
    for (alert, _) in alerts {
        let named = format!("alertname: {alert}\n");
        let fires =
            tests.split(&named).skip(1).filter(|test| test.trim_start().starts_with("exp_alerts:")).count();
        assert!(fires > 0, "no test in which {alert} fires");
    }
}

#[test]
fn the_guide_has_each_alert() {
    let page = files::text("../../src/guide/on_call.md");
    let listed: Vec<_> = page
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `Latchwork")?.split_once('`')?.0))
        .map(|name| format!("Latchwork{name}"))
        .collect();
    assert_eq!(listed, rules().into_iter().map(|(alert, _)| alert).collect::<Vec<_>>());
}

#[test]
fn queries_name_metrics_that_there_are_and_the_dashboard_has_all() {
    let panels: Vec<_> = dashboard().into_iter().flat_map(|panel| panel.queries).collect();
    let alerts: Vec<_> = rules().into_iter().map(|(_, expression)| expression).collect();
    for name in panels.iter().chain(&alerts).flat_map(|query| names_in(query)) {
        let metric =
            ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        assert!(METRICS.iter().any(|known| known.name == metric), "the metric {metric} does not exist");
    }
    for metric in METRICS {
        assert!(panels.iter().any(|query| query.contains(metric.name)), "no panel shows {}", metric.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_returns_data() {
    let run = Run::through_an_outage().await;
    for panel in dashboard() {
        for query in &panel.queries {
            let values = run.prometheus.values(query).await;
            println!("{}: {} values, up to {}", panel.title, values.len(), most(&values));
            assert!(!values.is_empty(), "{}: no data for {query}", panel.title);
        }
    }
    // The control: no data differ from zeros.
    assert!(run.prometheus.values("latchwork_no_such_metric").await.is_empty());
    for (query, least) in [
        ("sum(latchwork_holders)", 1.0),
        ("sum(latchwork_waiters)", 1.0),
        ("sum(latchwork_clients)", 2.0),
        ("sum(latchwork_clients_suspended)", 1.0),
        // The outage was in phase *both*.
        ("sum(latchwork_move_participants{phase=\"both-by-old\"})", 1.0),
        ("sum(latchwork_move_participants{phase=\"away\"})", 1.0),
        ("sum(latchwork_move_losses_total)", 1.0),
        ("sum(latchwork_move_participants{phase=\"done\"})", 1.0),
        ("sum(latchwork_move_steps_total)", 4.0),
        ("sum(latchwork_move_epoch)", 1.0),
        ("sum(latchwork_losses_total{reason=\"expired\"})", 1.0),
        ("sum(latchwork_reconnects_total)", 1.0),
        ("sum(latchwork_acquisitions_total{outcome=\"acquired\"})", 50.0),
        (
            "sum(latchwork_wait_seconds_count) - on() sum(latchwork_acquisitions_total{outcome=\"acquired\"}) + 1",
            1.0,
        ),
    ] {
        let values = run.prometheus.values(query).await;
        assert!(most(&values) >= least, "{query}: {} at the most", most(&values));
    }
    run.end().await;
}

/// `LATCHWORK_PICTURE=FILE cargo test -p metrics_endpoint -- --ignored`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "draws the guide's picture into LATCHWORK_PICTURE, in ten minutes"]
async fn failovers_are_drawn() {
    let picture = std::env::var_os("LATCHWORK_PICTURE").expect("LATCHWORK_PICTURE names the file");
    let run = Run::through_failovers(8, 20, Duration::from_secs(30)).await;
    run.prometheus.draw(picture.as_ref()).await;
    run.end().await;
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}
