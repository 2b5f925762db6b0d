use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

use super::advice::{self, times};
use super::figures::Better;
use super::group::Group;
use super::report::{Figure, Report, Value};

pub(super) fn text(report: &Report, width: Option<u16>) -> String {
    let answers = advice::of(report);
    let mut text = String::new();
    if !answers.is_empty() {
        let mut table = table(["need", "fits", "because"].map(str::to_owned).into(), width);
        for answer in answers {
            let names =
                if answer.names.is_empty() { "none of these".to_owned() } else { answer.names.join(", ") };
            table.add_row([answer.question.to_owned(), names, answer.because]);
        }
        text += &format!("{table}\n\n");
    }
    text += &format!("{}\n\n{}\n", figures(report, width), promises(report, width));
    for column in &report.coordinators {
        for failed in &column.failed {
            text += &format!("\n{}: FAILED: {}: {}", column.name, failed.what, failed.why);
        }
    }
    for column in &report.coordinators {
        for left in &column.left_out {
            text += &format!("\n{}: not measured: {}: {}", column.name, left.what, left.why);
        }
    }
    if report.is_cut_short() {
        text += "\nThis machine was too slow for all rounds: some figures are from one round.";
    }
    text.trim_end().to_owned() + "\n"
}

fn table(head: Vec<String>, width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table.set_header(head);
    table
}

fn figures(report: &Report, width: Option<u16>) -> Table {
    let mut head = vec!["ratio to the best (1 is best), and median".to_owned()];
    head.extend(report.coordinators.iter().map(|column| match &column.version {
        Some(version) => format!("{} {version}", column.name),
        None => column.name.clone(),
    }));
    let mut table = table(head, width);
    for group in Group::ALL {
        let of_group: Vec<_> = report.figures.iter().filter(|figure| figure.group == group).collect();
        if of_group.is_empty() {
            continue;
        }
        table.add_row([format!("- {}", group.title())]);
        for figure in of_group {
            let cells = report.coordinators.iter().map(|column| {
                figure.values.get(&column.name).map_or_else(|| "–".to_owned(), |value| cell(figure, value))
            });
            table.add_row([figure.title.clone()].into_iter().chain(cells));
        }
    }
    table
}

fn cell(figure: &Figure, value: &Value) -> String {
    let ratio = value.ratio.map(|ratio| format!("{} ", times(ratio.median))).unwrap_or_default();
    format!("{ratio}({}){}", figure.unit.shown(value.spread.median), mark(value, figure.better))
}

pub(super) fn mark(value: &Value, better: Better) -> String {
    let Some(change) = value.change else { return String::new() };
    let rose = change.better == (better == Better::Higher);
    let arrow = if rose { '▲' } else { '▼' };
    let word = if change.better { "better" } else { "worse" };
    match change.before == 0.0 {
        true => format!(" {arrow} {word}, baseline 0"),
        false => format!(" {arrow} {word}, {} times the baseline", times(change.ratio)),
    }
}

fn promises(report: &Report, width: Option<u16>) -> Table {
    let head = ["promise".to_owned()]
        .into_iter()
        .chain(report.coordinators.iter().map(|column| column.name.clone()));
    let mut table = table(head.collect(), width);
    for guarantee in &report.guarantees {
        let cells = report
            .coordinators
            .iter()
            .map(|column| guarantee.values.get(&column.name).cloned().unwrap_or_default());
        table.add_row([guarantee.title.clone()].into_iter().chain(cells));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::baseline;
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn ratios_come_before_figures_and_changes_are_marked() {
        let then = report(&[("redis", 100.0), ("etcd", 250.0)]);
        let mut now = report(&[("redis", 50.0), ("etcd", 250.0)]);
        baseline::mark(&mut now, &then);
        let text = text(&now, None);
        assert!(text.contains("1.00 (50.0 µs) ▼ better, 0.50 times the baseline"), "{text}");
        assert!(text.contains("5.00 (250 µs)"), "{text}");
        assert!(text.contains("survives the loss"), "{text}");
    }
}
