use std::fmt::Write;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use latchwork::Claim;

use super::snapshot::{Node, Queue, Snapshot};

const KEY: Style = Style::new().bold();
const HOLDS: Style = AnsiColor::Green.on_default();
const WAITS: Style = AnsiColor::Yellow.on_default();
pub(super) const STYLES: [Style; 3] = [KEY, HOLDS, WAITS];

impl Snapshot {
    /// Labels and keys contain no control characters.
    pub(super) fn table(&self, nothing: &str) -> String {
        let marked = self
            .marker
            .as_ref()
            .map(|marker| format!("{WAITS}Marker of the namespace:{WAITS:#} {}\n\n", marker.words));
        let queues = match self.queues.iter().all(|queue| queue.nodes.is_empty()) {
            true => format!("{nothing}\n"),
            false => self.queues.iter().map(Queue::table).collect::<Vec<_>>().join("\n"),
        };
        marked.unwrap_or_default() + &queues
    }
}

impl Queue {
    fn table(&self) -> String {
        let mut text = String::new();
        let holders = self.nodes.iter().filter(|node| node.holds).count();
        let waiters = self.nodes.len() - holders;
        let limit = self.limit.map(|limit| format!(", limit {limit}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "{KEY}{}/{}{KEY:#}  {}, {}{limit}",
            self.kind,
            printable(&self.key),
            count(holders, "holder", "holders"),
            count(waiters, "waiter", "waiters"),
        );
        let label = self.nodes.iter().map(|node| node.label.chars().count()).max().unwrap_or(0).clamp(5, 40);
        let _ = writeln!(
            text,
            "  {:>5}  {:<5}  {:>18}  {:<9}  {:>8}  {:>8}  {:<label$}  waits for",
            "place", "", "sequence", "claim", "age", "lease", "label"
        );
        for node in &self.nodes {
            let _ = writeln!(text, "{}", node.row(label).trim_end());
        }
        if self.more {
            let _ = writeln!(text, "  … and more");
        }
        text
    }
}

impl Node {
    fn row(&self, label: usize) -> String {
        let (style, state) = if self.holds { (HOLDS, "holds") } else { (WAITS, "waits") };
        let claim = match self.claim {
            Claim::Exclusive => "exclusive".to_owned(),
            Claim::Shared => "shared".to_owned(),
            Claim::Permits(weight) => count_of(weight),
        };
        let shown = |time: Option<Duration>| time.map(short).unwrap_or_else(|| "-".to_owned());
        let (age, left) = (shown(self.age), shown(self.lease_left));
        let why = self.waits_for.as_deref().unwrap_or_default();
        let cut: String = self.label.chars().take(label).collect();
        format!(
            "  {:>5}  {style}{state}{style:#}  {:>18}  {claim:<9}  {age:>8}  {left:>8}  {cut:<label$}  {why}",
            self.place, self.sequence
        )
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn count_of(weight: u32) -> String {
    format!("{weight} {}", if weight == 1 { "permit" } else { "permits" })
}

/// `3.2s`, `4m 5s`, `2h 7m`, `3d 4h`.
pub(crate) fn short(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", age.as_secs_f64()),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// Control characters and direction marks would act on a terminal.
pub(crate) fn printable(text: &str) -> String {
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().fold(String::new(), |mut shown, c| {
        if acts(c) {
            shown.extend(c.escape_unicode())
        } else {
            shown.push(c)
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short_and_keys_do_not_act_on_a_terminal() {
        for (seconds, shown) in [(3.21, "3.2s"), (245.0, "4m 5s"), (7625.0, "2h 7m"), (273_600.0, "3d 4h")] {
            assert_eq!(short(Duration::from_secs_f64(seconds)), shown);
        }
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}"), "a\\u{1b}[2Jb\\u{202e}");
    }
}
