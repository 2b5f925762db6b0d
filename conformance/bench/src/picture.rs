use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::Result;
use crate::line::Line;
use crate::recipe::Recipe;
use crate::summary::{Summary, handed_on};

const GRANTS: &str = "M3_grants";
/// Without a queue, so the releaser can acquire the lock again at once.
const POLLING: &[&str] = &["distributed-lock", "redis-py-lock", "redsync", "rslock"];
const CONTENDERS: [(usize, RGBColor); 3] =
    [(2, RGBColor(42, 120, 142)), (16, RGBColor(122, 81, 149)), (128, RGBColor(239, 86, 117))];
const SERVERS: [&str; 3] = ["redis", "zookeeper", "etcd"];
const OURS: RGBColor = RGBColor(232, 240, 250);
const WIDTH: u32 = 900;
const ROW: u32 = 20;
const FRAME: u32 = 84;

/// Relative to the best raw peer.
const RAW_BUDGET: f64 = 0.5;

struct Row {
    peer: String,
    by_contenders: BTreeMap<usize, f64>,
}

/// Draws the hand-offs of `lines` as SVG, without grants to the contender that held last.
///
/// # Errors
/// If there is no such line, or the file cannot be written.
pub fn hand_offs(lines: &[Line], file: &Path) -> Result<()> {
    let servers: Vec<_> = SERVERS
        .into_iter()
        .map(|server| (server, rows(lines, server)))
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    if servers.is_empty() {
        return Err(
            "the results have no line with hand-offs (M3_grants): run `bench --json` with the measure M3"
                .into(),
        );
    }
    let heights: Vec<_> =
        servers.iter().map(|(_, rows)| FRAME + ROW * u32::try_from(rows.len()).unwrap_or(0)).collect();
    let root = SVGBackend::new(file, (WIDTH, heights.iter().sum())).into_drawing_area();
    root.fill(&WHITE)?;
    let mut rest = root.clone();
    for ((server, rows), height) in servers.iter().zip(heights) {
        let (panel, below) = rest.split_vertically(height);
        draw(&panel, server, rows)?;
        rest = below;
    }
    root.present()?;
    Ok(())
}

/// Compares the mutex' hand-offs with the best raw peer, in a line for each server and number of contenders.
pub fn beside_raw(lines: &[Line]) -> Vec<String> {
    let mut told = Vec::new();
    for server in SERVERS {
        let rows = rows(lines, server);
        for (contenders, _) in CONTENDERS {
            let of = |row: &Row| row.by_contenders.get(&contenders).copied();
            let ours = rows.iter().find(|row| row.peer == Recipe::Mutex.peer()).and_then(of);
            let raw = rows.iter().filter(|row| row.peer.starts_with("raw-"));
            let best =
                raw.filter_map(|row| Some((of(row)?, &row.peer))).max_by(|one, two| one.0.total_cmp(&two.0));
            let Some((ours, (best, peer))) = ours.zip(best) else { continue };
            let ratio = ours / best;
            let word = if ratio >= RAW_BUDGET { "met" } else { "MISSED" };
            told.push(format!(
                "{server} W={contenders}: {ours:.0} hand-offs/s, {ratio:.2} x {peer} ({RAW_BUDGET}: {word})"
            ));
        }
    }
    told
}

fn rows(lines: &[Line], server: &str) -> Vec<Row> {
    let mut summary = Summary::default();
    summary.add(lines.iter().filter(|line| line.server == server).cloned());
    let mut rows = BTreeMap::<_, BTreeMap<_, _>>::new();
    for key in summary.keys(GRANTS) {
        let by_contenders = rows.entry(key.1).or_default();
        let of_key = CONTENDERS.iter().find(|(contenders, _)| key.2 == format!("W={contenders}"));
        if let Some(((contenders, _), rounds)) = of_key.zip(summary.spread(GRANTS, key, handed_on)) {
            by_contenders.insert(*contenders, rounds.median);
        }
    }
    let of_server = format!("-{server}");
    let row = |(peer, by_contenders): (&str, _)| {
        let name = if peer.starts_with("latchwork-") { peer.trim_end_matches(&of_server) } else { peer };
        Row { peer: name.to_owned(), by_contenders }
    };
    let mut rows: Vec<_> = rows.into_iter().map(row).collect();
    let key = |row: &Row| row.by_contenders.get(&16).copied().unwrap_or(0.0);
    rows.sort_by(|one, other| key(one).partial_cmp(&key(other)).unwrap_or(Ordering::Equal));
    rows
}

fn draw(panel: &DrawingArea<SVGBackend<'_>, Shift>, server: &str, rows: &[Row]) -> Result<()> {
    let text = ("sans-serif", 14).into_font().color(&BLACK);
    let small = ("sans-serif", 12).into_font().color(&BLACK);
    panel.draw_text(
        &format!("{server}: hand-offs a second, to another contender (logarithmic)"),
        &("sans-serif", 16).into_font().color(&BLACK),
        (16, 12),
    )?;
    for (place, (contenders, colour)) in (0..).zip(CONTENDERS) {
        let x = 560 + place * 110;
        panel.draw(&Circle::new((x, 22), 5, colour.filled()))?;
        panel.draw_text(&format!("{contenders} contend"), &small, (x + 10, 16))?;
    }
    let most =
        rows.iter().flat_map(|row| row.by_contenders.values()).fold(10.0, |most: f64, one| most.max(*one));
    // The last row of a segmented axis counts.
    let last = i32::try_from(rows.len())? - 1;
    let mut chart = ChartBuilder::on(panel)
        .margin_top(36)
        .margin_right(24)
        .margin_bottom(8)
        .x_label_area_size(28)
        .y_label_area_size(220)
        .build_cartesian_2d((1.0..most * 1.3).log_scale(), (0..last).into_segmented())?;
    for (place, row) in (0..).zip(rows) {
        if row.peer.starts_with("latchwork") {
            let corners = [(1.0, SegmentValue::Exact(place)), (most * 1.3, SegmentValue::Exact(place + 1))];
            chart.draw_series([Rectangle::new(corners, OURS.filled())])?;
        }
    }
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .y_labels(rows.len())
        .label_style(text)
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|place| match place {
            SegmentValue::CenterOf(place) => {
                let row = usize::try_from(*place).ok().and_then(|place| rows.get(place));
                row.map_or(String::new(), |row| label(&row.peer))
            }
            _ => String::new(),
        })
        .draw()?;
    for (place, row) in (0..).zip(rows) {
        for (contenders, colour) in CONTENDERS {
            let Some(&value) = row.by_contenders.get(&contenders) else { continue };
            let at = (value.max(1.0), SegmentValue::CenterOf(place));
            let style = match POLLING.contains(&row.peer.as_str()) {
                true => colour.stroke_width(2),
                false => colour.filled(),
            };
            chart.draw_series([Circle::new(at, 5, style)])?;
        }
    }
    Ok(())
}

fn label(peer: &str) -> String {
    match peer {
        _ if POLLING.contains(&peer) => format!("{peer} (polls, no turn)"),
        _ if peer.starts_with("raw-") => format!("{peer} (no lock)"),
        _ => peer.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(peer: &str, param: &str, value: f64, again: u64) -> Line {
        Line {
            value: Some(value),
            n: Some(100),
            self_regrants: Some(again),
            ..Line::new("redis", peer, "M3_grants", param, "grants/s")
        }
    }

    #[test]
    fn hand_offs_are_grants_to_another_and_the_median_of_the_rounds() {
        let lines = [
            line("rslock", "W=16", 1000.0, 90),
            line("latchwork-mutex-redis", "W=16", 500.0, 0),
            line("latchwork-mutex-redis", "W=16", 700.0, 0),
            line("latchwork-mutex-redis", "W=16", 900.0, 0),
        ];
        let rows = rows(&lines, "redis");
        let told: Vec<_> = rows.iter().map(|row| (row.peer.as_str(), row.by_contenders[&16])).collect();
        assert_eq!(told.iter().map(|(peer, _)| *peer).collect::<Vec<_>>(), ["rslock", "latchwork-mutex"]);
        assert!((told[0].1 - 100.0).abs() < 1e-9 && (told[1].1 - 700.0).abs() < 1e-9, "{told:?}");
    }

    #[test]
    fn mutex_is_compared_with_best_raw_peer_per_contender_count() {
        let lines = [
            line("latchwork-mutex-redis", "W=2", 500.0, 0),
            line("latchwork-mutex-redis", "W=16", 400.0, 0),
            line("raw-redis", "W=2", 1000.0, 0),
            line("raw-redis", "W=16", 1000.0, 0),
            line("raw-slower", "W=16", 500.0, 0),
            line("rslock", "W=128", 500.0, 0),
        ];
        let expected = [
            "redis W=2: 500 hand-offs/s, 0.50 x raw-redis (0.5: met)",
            "redis W=16: 400 hand-offs/s, 0.40 x raw-redis (0.5: MISSED)",
        ];
        assert_eq!(beside_raw(&lines), expected);
    }

    #[test]
    fn every_peer_is_named_in_the_picture() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("picture.svg");
        let lines = [line("rslock", "W=2", 10.0, 90), line("latchwork-mutex-redis", "W=128", 500.0, 0)];
        hand_offs(&lines, &file).expect("drawn");
        let picture = std::fs::read_to_string(&file).expect("written");
        for name in ["latchwork-mutex", "rslock (polls, no turn)", "redis: hand-offs"] {
            assert!(picture.contains(name), "{name}");
        }
        assert!(hand_offs(&[], &file).is_err(), "nothing to draw");
    }
}
