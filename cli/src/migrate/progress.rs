use std::fmt::Write;

use latchwork::operator::MoveProgress;
use serde_json::json;

/// The number of members that one line of progress names.
const NAMED: usize = 5;

pub(super) fn line(progress: &MoveProgress<'_>, json: bool) -> String {
    match json {
        true => format!("{}\n", as_json(progress)),
        false => as_text(progress),
    }
}

fn as_json(progress: &MoveProgress<'_>) -> serde_json::Value {
    match progress {
        MoveProgress::Reached(phase) => json!({ "reached": phase.as_str() }),
        MoveProgress::Waits(status) => json!({ "waits": status }),
        MoveProgress::Outage(error) => json!({ "outage": error.to_string() }),
        other => json!({ "note": other.to_string() }),
    }
}

fn as_text(progress: &MoveProgress<'_>) -> String {
    match progress {
        MoveProgress::Waits(status) => {
            let waits = status.waits_for.len();
            let mut text =
                format!("{:<5} waits for {waits} of {} members:\n", status.phase.word(), status.asked());
            for late in status.waits_for.iter().take(NAMED) {
                let lacks = late.lacks.map(|lacks| format!("  ({lacks})")).unwrap_or_default();
                let _ = writeln!(text, "        {} on {}{lacks}", late.label, late.host);
            }
            if waits > NAMED {
                let _ = writeln!(text, "        and {} more: see `latchwork migrate status`", waits - NAMED);
            }
            text
        }
        MoveProgress::Reached(phase) if phase.as_str() == phase.word() => {
            format!("{:<5} reached\n", phase.word())
        }
        MoveProgress::Reached(phase) => format!("{:<5} reached ({phase})\n", phase.word()),
        other => format!("      {other}\n"),
    }
}
