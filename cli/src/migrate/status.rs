use std::fmt::Write;
use std::time::Duration;

use latchwork::operator::{MoveAway, MoveState, MoveStatus, Side};

use crate::inspect::table::short;

pub(super) fn text(status: &MoveStatus) -> String {
    let mut text = format!("move {}: {}", status.name, status.word());
    let stands = [MoveState::Begun, MoveState::Opening, MoveState::Done, MoveState::Finishing];
    if stands.contains(&status.state) {
        if status.phase.as_str() != status.word() {
            let _ = write!(text, " ({})", status.phase);
        }
        if let Some(age) = status.age() {
            let _ = write!(text, " for {}", short(Duration::from_secs(age.as_secs())));
        }
        let _ = write!(text, ", tokens of epoch {}", status.epoch);
        let knows_members = status.away.as_ref().is_none_or(|away| away.side == Side::New);
        if status.state == MoveState::Begun && knows_members {
            let _ = write!(text, ", members: {}", status.members);
        }
    }
    text.push('\n');
    if let Some(MoveAway { side, why, .. }) = &status.away {
        let rest = match side {
            Side::Old => "the new side has the last phase that an operator announced",
            Side::New => "the old side has the phase",
        };
        let _ = writeln!(text, "  the {} side does not answer; {rest}: {why}", side.as_str());
    }
    if status.values.open().is_none() {
        text += "  values are being copied, and requests for them wait: call `latchwork migrate run` to continue, or `abort` to release them\n";
    }
    text += match status.state {
        MoveState::GivenUp => {
            "  the move was given up, but a marker remains: `latchwork migrate abort` removes it\n"
        }
        MoveState::Lost => {
            "  the old side has lost the stage, and its clients acquire nothing: see `latchwork migrate plan`, and then \
             `latchwork migrate repair`\n"
        }
        MoveState::Elsewhere => {
            "  a side is in another move, or this one has other URLs: compare --from, --to and --move with those of the services\n"
        }
        MoveState::Opening => {
            "  the new side is still closed for clients that have only the new URL: `latchwork migrate run` opens it\n"
        }
        MoveState::Finishing => {
            "  `latchwork migrate finish` was begun, and clients with both URLs are refused already: call `finish` again\n"
        }
        MoveState::Done => {
            "  next: deploy the services with only the new URL, and then call `latchwork migrate finish`\n"
        }
        MoveState::Finished => "  no client can connect to the old side any more: you can shut it down\n",
        _ => "",
    };
    if !status.waits_for.is_empty() {
        let _ = writeln!(text, "  the next step waits for {} to acknowledge:", status.waits_for.len());
        for late in &status.waits_for {
            let note = match late.lacks {
                Some(lacks) => format!("  ({lacks})"),
                None if late.knows_the_move => String::new(),
                None => "  (new to the move)".to_owned(),
            };
            let _ = writeln!(text, "    {} on {}{note}", late.label, late.host);
        }
    }
    text
}
