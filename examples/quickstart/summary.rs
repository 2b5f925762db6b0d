use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};

use crate::paint::Paint;
use crate::tally::Seen;
use crate::timeline::brief;

const WIDTH: u16 = 98;

const HEADER: [&str; 8] =
    ["backend", "where", "grants", "tokens", "overlaps", "longest\nwait", "lease", "recovery"];

const LEGEND: &str = "\
overlaps: holds that began before another hold had ended, on the machine's clock. tokens: numbers
that rise from hold to hold, so that a database can refuse a late write of a former holder.
recovery: time from the kill to the next hold, about the length of the lease.";

#[derive(Default)]
pub(crate) struct Summary(Vec<Row>);

pub(crate) struct Row {
    pub(crate) backend: &'static str,
    pub(crate) whereabouts: String,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    Seen(Seen),
    Failed(String),
    /// How to run it.
    NotRun(String),
}

impl Summary {
    pub(crate) fn add(&mut self, row: Row) {
        self.0.push(row);
    }

    pub(crate) fn print(&self, paint: Paint) -> bool {
        let mut table = Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH)
            .set_header(HEADER);
        for row in &self.0 {
            table.add_row(row.cells());
        }
        println!("{table}");
        println!("{}\n", paint.dim(LEGEND));
        for row in &self.0 {
            if let Outcome::NotRun(how) = &row.outcome {
                println!("To see {} too: {how}", row.backend);
            }
        }
        let complaints: Vec<_> = self.0.iter().flat_map(Row::complaints).collect();
        for complaint in &complaints {
            println!("{}", paint.red(complaint));
        }
        if complaints.is_empty() {
            let ran = self.0.iter().filter(|row| matches!(row.outcome, Outcome::Seen(_))).count();
            let verdict = format!("Never two holders at a time, on {ran} of {} backends.", self.0.len());
            println!("{}", paint.green(&verdict));
        }
        complaints.is_empty()
    }
}

impl Row {
    fn cells(&self) -> [String; 8] {
        let (backend, whereabouts) = (self.backend.to_owned(), self.whereabouts.clone());
        let Outcome::Seen(seen) = &self.outcome else {
            let none = || "–".to_owned();
            return [backend, whereabouts, none(), none(), none(), none(), none(), none()];
        };
        [
            backend,
            whereabouts,
            seen.grants.to_string(),
            if seen.tokens_rise { "rising" } else { "NOT RISING" }.to_owned(),
            seen.overlaps.to_string(),
            brief(seen.longest_wait),
            format!("{} s", seen.ttl.as_secs_f64()),
            seen.recovery.map_or_else(|| "never".to_owned(), brief),
        ]
    }

    fn complaints(&self) -> Vec<String> {
        let complaint = |text: &String| format!("{}: {text}", self.backend);
        match &self.outcome {
            Outcome::Seen(seen) => seen.violations.iter().map(complaint).collect(),
            Outcome::Failed(why) => vec![complaint(why)],
            Outcome::NotRun(_) => Vec::new(),
        }
    }
}
