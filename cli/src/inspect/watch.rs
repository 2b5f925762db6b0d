use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use latchwork::{Address, Config, Coordinator};
use tokio::time::sleep;

use super::snapshot::{Snapshot, addresses};
use super::target::Target;
use super::{InspectOrder, print};
use crate::exit::Ended;
use crate::failure::{Outcome, warn};
use crate::terminal::{interrupts, print_until};

/// A listing gets one hundredth of the time, because Redis may walk over all its keys.
const LISTING: u32 = 100;
/// The reads of known queues get a tenth of the time, most of it for the round trip.
const READING: u32 = 10;

/// Moves to the upper left corner; long lines do not break.
const HOME: &str = "\u{1b}[H\u{1b}[?7l";
const CLEAR_LINE: &str = "\u{1b}[K\n";
/// Clears the rest of the screen; long lines break again.
const END: &str = "\u{1b}[J\u{1b}[?7h";
const CLEAR_ALL: &str = "\u{1b}[2J";

struct Watch<'a> {
    coordinator: &'a Coordinator,
    config: &'a Config,
    target: &'a Target,
    names: BTreeSet<Address>,
    list_again: Instant,
}

pub(super) async fn run(
    coordinator: &Coordinator,
    config: &Config,
    target: &Target,
    order: &InspectOrder,
) -> Outcome {
    let mut interrupts = interrupts()?;
    let in_place = io::stdout().is_terminal() && !order.json;
    let mut watch = Watch { coordinator, config, target, names: BTreeSet::new(), list_again: Instant::now() };
    if in_place {
        print(CLEAR_ALL)?;
    }
    loop {
        let begun = Instant::now();
        let shown = tokio::select! {
            _ = interrupts.recv() => return Ok(Ended::WELL),
            snapshot = watch.look() => snapshot,
        };
        let text = match shown {
            Ok(snapshot) => order.text(&snapshot)?,
            Err(error) if error.is_retryable() && in_place => format!("{error}\n"),
            Err(error) if error.is_retryable() => {
                warn(&error);
                String::new()
            }
            Err(error) => return Err(error.into()),
        };
        let text = if in_place { frame(config, order.every, &text) } else { text };
        if !print_until(&mut interrupts, move || print(&text)).await? {
            return Ok(Ended::WELL);
        }
        let pause = order.every.saturating_sub(begun.elapsed()).max(begun.elapsed() * READING);
        tokio::select! {
            _ = interrupts.recv() => return Ok(Ended::WELL),
            () = sleep(pause) => {}
        }
    }
}

impl Watch<'_> {
    async fn look(&mut self) -> latchwork::Result<Snapshot> {
        let begun = Instant::now();
        if begun >= self.list_again {
            self.names = addresses(self.coordinator, self.config, self.target).await?;
            self.list_again = Instant::now() + begun.elapsed() * LISTING;
        }
        Snapshot::read(self.coordinator, &self.names, self.target).await
    }
}

fn frame(config: &Config, every: Duration, text: &str) -> String {
    // A terminal of unknown size says 0.
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_row > 0);
    let rows = size.map_or(24, |size| usize::from(size.ws_row));
    let head = format!(
        "{}  every {}, Ctrl-C ends\n",
        config.url_without_secrets(),
        humantime::format_duration(every)
    );
    cut(&format!("{head}\n{text}"), rows.saturating_sub(1).max(2))
}

fn cut(text: &str, rows: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    let mut lines = all.clone();
    let rest;
    if all.len() > rows {
        rest = format!("… {} lines more: select fewer queues with a longer WHAT", all.len() - rows + 1);
        lines.truncate(rows - 1);
        lines.push(&rest);
    }
    format!("{HOME}{}{CLEAR_LINE}{END}", lines.join(CLEAR_LINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_no_more_lines_than_the_terminal() {
        assert_eq!(cut("a\nb\n", 3), format!("{HOME}a{CLEAR_LINE}b{CLEAR_LINE}{END}"));
        let long = cut("a\nb\nc\nd\n", 3);
        assert!(long.contains("b") && !long.contains("d") && long.contains("2 lines more"), "{long:?}");
        assert_eq!(long.matches('\n').count(), 3);
    }
}
