use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;

use crate::stats::Spread;

pub(super) fn in_millis(Spread { median, min, max }: Spread) -> Spread {
    Spread { median: median / 1e3, min: min / 1e3, max: max / 1e3 }
}

pub(super) fn table<const COLUMNS: usize>(
    rows: impl IntoIterator<Item = [(&'static str, String); COLUMNS]>,
) -> Option<Table> {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    for row in rows {
        table.set_header(row.iter().map(|(heading, _)| *heading));
        table.add_row(row.into_iter().map(|(_, cell)| cell));
    }
    (table.row_count() > 0).then_some(table)
}

pub(super) fn none() -> String {
    "–".to_owned()
}

pub(super) fn median(figure: Option<Spread>, digits: usize) -> String {
    figure.map_or_else(none, |figure| format!("{:.digits$}", figure.median))
}

pub(super) fn spread(figure: Option<Spread>, digits: usize) -> String {
    figure.map_or_else(none, |Spread { median, min, max }| {
        if min == max {
            return format!("{median:.digits$}");
        }
        format!("{median:.digits$} [{min:.digits$}..{max:.digits$}]")
    })
}

pub(super) fn judged(figure: Option<Spread>, digits: usize, budget: f64, unit: &str) -> String {
    figure.map_or_else(none, |figure| {
        let word = verdict(figure.median <= budget);
        format!("{}\n{budget}{unit}: {word}", spread(Some(figure), digits))
    })
}

pub(super) fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}
