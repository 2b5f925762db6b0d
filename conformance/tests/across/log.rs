//! A place in the sources without a listener at its first use stays silent, so tests with a listener run in
//! separate processes.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use latchwork_conformance::log::Log;
use latchwork_conformance::own_process;
use latchwork_conformance::recorder::Recorder;
use latchwork_core::seen::{EVENTS, METRICS, SPANS};
use latchwork_core::{Config, Move, MoveConfig, connect, memory};

use crate::complete::places::{read, sources};

const TABLES: [&str; 3] = ["observing", "observing_moves", "metrics"];
const ON_CALL: [&str; 5] = ["on_call", "outages", "on_call_servers", "rolling_upgrades", "during_a_move"];

fn pages(names: &[&str]) -> String {
    names.iter().map(|name| read(&format!("src/guide/{name}.md"))).collect()
}

fn rows(prefix: &str) -> Vec<Vec<String>> {
    let text = pages(&TABLES);
    let rows = text.lines().filter(|line| line.starts_with(&format!("| `{prefix}")));
    rows.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn assert_in_guide(expected: &BTreeSet<Vec<String>>, found: &BTreeSet<Vec<String>>) {
    let missing: Vec<_> = expected.difference(found).collect();
    let stale: Vec<_> = found.difference(expected).collect();
    assert!(missing.is_empty() && stale.is_empty(), "not in the guide: {missing:#?}\nonly there: {stale:#?}");
}

#[test]
fn the_guide_has_the_events_and_spans_as_they_are() {
    let mut expected: Vec<Vec<String>> = Vec::new();
    for event in EVENTS {
        let level = event.level.as_str().to_lowercase();
        expected.push(vec![quoted([event.name]), level, event.message.to_owned(), quoted(event.fields())]);
    }
    for span in SPANS {
        expected.push(vec![
            quoted([span.name]),
            "debug".to_owned(),
            "span".to_owned(),
            quoted(span.fields()),
        ]);
    }
    let mut found = rows("latchwork.");
    for row in &mut found {
        let when = row.pop().expect("a last cell");
        assert!(!when.is_empty(), "{row:?} says when");
    }
    assert_in_guide(&expected.into_iter().collect(), &found.into_iter().collect());
}

#[test]
fn the_guide_has_the_metrics_as_they_are() {
    let expected: BTreeSet<_> = METRICS
        .iter()
        .map(|metric| {
            let kind = metric.kind.as_str().to_owned();
            vec![quoted([metric.name]), kind, quoted(metric.labels.iter().copied()), metric.help.to_owned()]
        })
        .collect();
    let found: BTreeSet<_> = rows("latchwork_").into_iter().collect();
    assert_in_guide(&expected, &found);
}

#[test]
fn the_page_on_call_names_what_there_is() {
    let text = pages(&ON_CALL);
    let names = text
        .split(['`', ' ', '|'])
        .filter(|word| word.starts_with("latchwork_") || word.starts_with("latchwork."));
    let names: BTreeSet<_> = names.map(|word| word.trim_end_matches([';', ',', '.'])).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let known = METRICS.iter().any(|metric| metric.name == name)
            || EVENTS.iter().any(|event| event.name == name)
            || SPANS.iter().any(|span| span.name == name);
        assert!(known, "{name} does not exist");
    }
}

#[tokio::test]
async fn the_life_of_a_hold_is_logged_as_the_vocabulary_has_it() {
    if !own_process!() {
        return;
    }
    let log = Log::listen();
    let config: Config = "memory://".parse().expect("a good URL");
    let client = connect(&[memory::connector()], &config).await.expect("connected");
    let mutex = client.mutex("a").expect("a good key");
    let hold = mutex.acquire().await.expect("free");
    // Otherwise the store could answer too late, and the acquisition would have another end, or none.
    let error = mutex.acquire().within(Duration::from_millis(500)).await.expect_err("held");
    let late = log.nth("latchwork.not_acquired", 1).await;
    assert!(
        late.field("key") == "a" && late.field("outcome") == "timeout" && !late.field("error").is_empty(),
        "{late:?} {error}"
    );
    hold.release().await.expect("released");
    let short = mutex.acquire().max_hold(Duration::from_millis(500)).await.expect("free");
    // At the loss, although no call uses the guard.
    let lost = log.nth("latchwork.hold.lost", 1).await;
    assert_eq!(
        (lost.field("key"), lost.field("token")),
        ("a", short.token().to_string().as_str()),
        "{lost:?}"
    );
    drop(short);
    let last = mutex.acquire().await.expect("free");
    client.close().await.expect("closed");
    drop(last);

    let seen = log.lines();
    for name in [
        "latchwork.connected",
        "latchwork.acquire",
        "latchwork.acquired",
        "latchwork.not_acquired",
        "latchwork.hold",
        "latchwork.released",
        "latchwork.hold.lost",
        "latchwork.hold.closed",
        "latchwork.layout.stamped",
    ] {
        assert!(seen.iter().any(|line| line.name == name), "{name}: {seen:#?}");
    }
    let strange: Vec<_> =
        seen.iter().filter(|line| line.name.starts_with("latchwork.") && !line.is_known()).collect();
    assert!(strange.is_empty(), "{strange:#?}");
    assert_eq!(log.count("latchwork.hold.lost"), 1, "said once");
    assert!(log.undocumented().is_empty(), "{:#?}", log.undocumented());
}

#[tokio::test]
async fn registered_metrics_match_the_table() {
    if !own_process!() {
        return;
    }
    let recorder = Recorder::new();
    let used = async {
        let config: Config = "memory://".parse().expect("a good URL");
        let client = connect(&[memory::connector()], &config).await.expect("connected");
        drop(client.mutex("a").expect("a good key").acquire().await.expect("free"));
        client.close().await.expect("closed");
        let sides = sides("described");
        let part = connect(&[memory::connector()], &Config::of_move(sides.clone())).await.expect("a member");
        let operator = Move::connect(&[memory::connector()], &sides).await.expect("connected");
        operator.close().await.expect("closed");
        part.close().await.expect("closed");
    };
    recorder.scope(used).await;
    let described = recorder.described();
    let names: Vec<_> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    assert!(names.iter().all(|name| described.contains_key(name)) && described.len() == names.len());
    for metric in METRICS {
        let (kind, unit, help) = &described[metric.name];
        let expected =
            if metric.name.ends_with("_seconds") { metrics::Unit::Seconds } else { metrics::Unit::Count };
        assert_eq!((*kind, unit.as_ref(), help.as_str()), (metric.kind, Some(&expected), metric.help));
    }
    let series = recorder.series();
    for found in &series {
        let metric = METRICS.iter().find(|metric| metric.name == found.name);
        let metric = metric.unwrap_or_else(|| panic!("no table has {found:?}"));
        let labels: Vec<_> = found.labels.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((metric.kind, metric.labels), (found.kind, labels.as_slice()), "{found:?}");
    }
    let counted: BTreeSet<_> = series.iter().map(|found| found.name.as_str()).collect();
    let without: Vec<_> =
        METRICS.iter().map(|metric| metric.name).filter(|name| !counted.contains(name)).collect();
    assert_eq!(without, ["latchwork_clients_disconnected", "latchwork_reconnects_total"]);
}

fn sides(name: &str) -> MoveConfig {
    let at = |side: &str| Config::from_url(&format!("memory://{name}-{side}")).expect("a good URL");
    MoveConfig::new(at("old"), at("new"), name)
}

#[tokio::test]
async fn a_move_is_counted_from_its_beginning_to_its_end() {
    if !own_process!() {
        return;
    }
    let (recorder, log) = (Recorder::new(), Log::listen());
    let sides = sides("counted");
    let opened = async {
        let part = connect(&[memory::connector()], &Config::of_move(sides.clone())).await.expect("a member");
        (part, Move::connect(&[memory::connector()], &sides).await.expect("connected"))
    };
    let (part, operator) = recorder.scope(opened).await;
    let of =
        |metric: &str, labels: &[(&str, &str)]| recorder.sum(&format!("latchwork_move_{metric}"), labels);
    let in_phase = |phase: &str| of("participants", &[("backend", "moving"), ("phase", phase)]);
    assert_eq!((in_phase("old"), in_phase("away"), of("participants", &[])), (1.0, 0.0, 1.0));
    assert_eq!(of("acknowledged_timestamp_seconds", &[]), 0.0);

    let mut seen = Vec::new();
    for (phase, epoch, side) in
        [("both-by-old", 0, "old"), ("both-by-new", 1, "new"), ("new", 1, "new"), ("done", 1, "new")]
    {
        let mutex = part.mutex(phase).expect("a good key");
        let taken = operator.advance(|told| seen.push((told.to_string(), of("waits_for", &[]))));
        assert_eq!(taken.await.expect("a step").as_str(), phase);
        // The member has also acknowledged the first phase, which is not the result of a step.
        let reached = log.nth("latchwork.move.reached", log.count("latchwork.move.phase") + 1).await;
        assert_eq!((reached.field("phase"), reached.field("epoch")), (phase, &*epoch.to_string()));
        assert_eq!((in_phase(phase), of("participants", &[])), (1.0, 1.0), "{phase}");
        assert_eq!((of("epoch", &[]), of("participants_late", &[])), (f64::from(epoch), 0.0), "{phase}");
        assert_eq!((of("steps_total", &[("phase", phase)]), of("waits_for", &[])), (1.0, 0.0), "{phase}");
        // The hold ends on the side that gives the tokens.
        let hold = mutex.acquire().await.expect("free");
        let before = of("losses_total", &[("backend", "memory"), ("side", side)]);
        assert!(mutex.force_release(hold.token().as_u64()).await.expect("asked"), "{phase}");
        hold.lost().await;
        let lost = log.nth("latchwork.move.lost", log.count("latchwork.move.phase")).await;
        assert_eq!((lost.field("key"), lost.field("side"), lost.field("backend")), (phase, side, "memory"));
        assert_eq!(of("losses_total", &[("side", side)]), before + 1.0, "{phase}");
    }
    assert!(of("acknowledged_timestamp_seconds", &[]) > 1.7e9);
    // The count is 1 in each report of the wait.
    let waited: Vec<_> = seen.iter().filter(|(told, _)| told.contains("waits for 1")).collect();
    assert!(!waited.is_empty() && waited.iter().all(|(_, figure)| *figure == 1.0), "{seen:?}");
    operator.close().await.expect("closed");
    part.close().await.expect("closed");
    drop((part, operator));
    assert_eq!(
        (of("participants", &[]), of("participants_late", &[]), of("waits_for", &[])),
        (0.0, 0.0, 0.0)
    );
    assert!(log.undocumented().is_empty(), "{:#?}", log.undocumented());
}

/// Some backend also uses each event for backends.
#[test]
fn only_the_vocabulary_logs_at_info_or_above() {
    let folders = ["core/src", "backend-redis/src", "backend-zk/src", "backend-etcd/src"];
    let sources: Vec<_> = folders.into_iter().flat_map(sources).collect();
    assert!(sources.len() > 100, "{} sources", sources.len());
    let vocabulary = Path::new("core").join("src").join("seen");
    for (path, text) in
        sources.iter().filter(|(path, _)| !path.to_string_lossy().contains(&*vocabulary.to_string_lossy()))
    {
        for loud in ["tracing::info!", "tracing::warn!", "tracing::error!", "tracing::event!", "_span!("] {
            assert!(!text.contains(loud), "{}: {loud}: name it in core/src/seen/event.rs", path.display());
        }
    }
    for function in ["advice", "clock_set", "forgot", "intruder", "publish_refused", "replaced"] {
        let call = format!("seen::{function}(");
        assert!(sources.iter().any(|(_, text)| text.contains(&call)), "no source calls {call}");
    }
}
