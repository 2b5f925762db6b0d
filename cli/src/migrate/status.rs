//! Where a move stands, for people.

use std::fmt::Write;
use std::time::Duration;

use latchwork::operator::{MoveState, MoveStatus};

use crate::inspect::table::short;

pub(super) fn text(status: &MoveStatus) -> String {
    let mut text = format!("move {}: {}", status.name, status.word());
    // Writing to a String cannot fail.
    let stands = [MoveState::Begun, MoveState::Opening, MoveState::Done, MoveState::Finishing];
    if stands.contains(&status.state) {
        if status.phase.as_str() != status.word() {
            let _ = write!(text, " ({})", status.phase);
        }
        // It is written in whole seconds.
        if let Some(age) = status.age() {
            let _ = write!(text, " for {}", short(Duration::from_secs(age.as_secs())));
        }
        let _ = write!(text, ", tokens of epoch {}", status.epoch);
        if status.state == MoveState::Begun {
            let _ = write!(text, ", members: {}", status.members);
        }
    }
    text.push('\n');
    if status.values.open().is_none() {
        text += "  values are being copied, and requests of them wait: `latchwork migrate run` goes on, `abort` lets them be used\n";
    }
    text += match status.state {
        MoveState::GivenUp => {
            "  it was given up, and a marker stands still: `latchwork migrate abort` lifts it\n"
        }
        MoveState::GivenUpOrLost => {
            "  it was given up, and a marker stands still: `latchwork migrate abort` lifts it\n  \
             or the old side has lost the stage: participants may be in a later phase, and `abort` waits for their end\n"
        }
        MoveState::Opening => {
            "  the new side is shut still for clients with the new URL alone: `latchwork migrate run` opens it\n"
        }
        MoveState::Finishing => {
            "  `latchwork migrate finish` was begun, and clients with both URLs are refused already: call it again\n"
        }
        MoveState::Done => {
            "  next: deploy the services with the new URL alone, and then `latchwork migrate finish`\n"
        }
        MoveState::Finished => "  nobody connects to the old side any more: it may be shut down\n",
        _ => "",
    };
    if !status.waits_for.is_empty() {
        let _ = writeln!(text, "  the next step waits for {} to acknowledge:", status.waits_for.len());
        for late in &status.waits_for {
            let new = if late.knows_the_move { "" } else { "  (new to the move)" };
            let _ = writeln!(text, "    {} on {}{new}", late.label, late.host);
        }
    }
    text
}
