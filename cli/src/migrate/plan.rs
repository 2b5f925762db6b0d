use std::fmt::Write;

use latchwork::Capabilities;
use latchwork::operator::MovePhase;
use latchwork::operator::{MovePlan, MoveState};

use super::status;
use crate::inspect::table::printable;

/// Listed keys of a kind that does not move.
const NAMED: usize = 5;

pub(super) fn table(plan: &MovePlan) -> String {
    let mut text = status::text(&plan.status);
    let _ = writeln!(text, "  from  {}\n  to    {}\n", plan.from, plan.to);
    participants(&mut text, plan);
    outsiders(&mut text, plan);
    in_use(&mut text, plan);
    promises(&mut text, plan);
    if plan.status.phase == MovePhase::Old {
        let left = plan.epochs_left;
        let _ = writeln!(
            text,
            "epochs left for tokens: {left}; a move needs 2, one for the move and one for a way back\n"
        );
    }
    if plan.blockers.is_empty() {
        text += match plan.status.state {
            MoveState::Done | MoveState::Finishing => "nothing is in the way of `latchwork migrate finish`\n",
            _ => "nothing is in the way\n",
        };
    }
    for blocker in &plan.blockers {
        let _ = writeln!(text, "in the way: {blocker}\n  {}", blocker.next_step());
    }
    text
}

fn participants(text: &mut String, plan: &MovePlan) {
    let done = plan.status.phase == MovePhase::Done;
    let what = if done { "participants that still have both URLs" } else { "participants" };
    let _ = writeln!(text, "{what}: {}", plan.participants.len());
    let label = width(plan.participants.iter().map(|client| &*client.label));
    let host = width(plan.participants.iter().map(|client| &*client.host));
    for client in &plan.participants {
        let mut notes = Vec::new();
        if !client.on_old {
            notes.push("not connected to the old side");
        }
        if !client.on_new {
            notes.push("not connected to the new side: it cannot acquire there");
        }
        // Then no client needs to be a member.
        if !client.member && !done {
            notes.push("no member yet: it holds no lock");
        }
        let row = format!(
            "  {:<label$}  {:<host$}  {:<8}  {}",
            client.label,
            client.host,
            client.version,
            notes.join(", ")
        );
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text.push('\n');
}

fn outsiders(text: &mut String, plan: &MovePlan) {
    let _ = writeln!(text, "not redeployed: {}", plan.outsiders.len());
    let label = width(plan.outsiders.iter().map(|outsider| &*outsider.client.label));
    for outsider in &plan.outsiders {
        let client = &outsider.client;
        let (side, version) = (outsider.side.as_str(), &client.version);
        let _ = writeln!(text, "  {:<label$}  {}  {version}  on the {side} side", client.label, client.host);
    }
    text.push('\n');
}

fn in_use(text: &mut String, plan: &MovePlan) {
    text.push_str("in use\n");
    let _ =
        writeln!(text, "  {:<4}  {:<14}  {:>6}  {:>7}  {:>7}", "side", "kind", "keys", "holders", "waiters");
    for of in &plan.in_use {
        let stays = match of.moves {
            true => String::new(),
            false => {
                let keys: Vec<_> = of.keys.iter().take(NAMED).map(|key| printable(key)).collect();
                format!("  does not move: {}", keys.join(" "))
            }
        };
        let (side, kind, keys) = (of.side, of.kind, of.keys.len());
        let _ =
            writeln!(text, "  {side:<4}  {kind:<14}  {keys:>6}  {:>7}  {:>7}{stays}", of.holders, of.waiters);
    }
    for of in &plan.values {
        let _ = writeln!(text, "  {:<4}  {:<14}  {:>6}", of.side, of.kind, of.keys.len());
    }
    text.push('\n');
}

fn promises(text: &mut String, plan: &MovePlan) {
    let rows = |of: &Capabilities| {
        [
            ("a refused try leaves nothing", of.clean_try),
            ("a holder learns at once of its removal", of.prompt_revocation),
            ("a minimum hold outlives its client", of.minimum_outlives_close),
            ("a lock survives the loss of a server", of.survives_failover),
            ("replicas can confirm", of.confirms_on_replicas),
            ("idle values can be deleted", of.idle_cells),
            ("values are written under a hold", of.held_writes),
        ]
    };
    text.push_str("promises that differ (in the phase `both`, the weaker promise applies)\n");
    let _ = writeln!(text, "  {:<40}  {:<3}  {:<4}  new", "", "old", "both");
    let of = &plan.promises;
    let word = |promised| if promised { "yes" } else { "no" };
    for ((old, both), new) in rows(&of.old).into_iter().zip(rows(&of.both)).zip(rows(&of.new)) {
        if old.1 != new.1 {
            let _ =
                writeln!(text, "  {:<40}  {:<3}  {:<4}  {}", old.0, word(old.1), word(both.1), word(new.1));
        }
    }
    text.push('\n');
}

fn width<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0).min(60)
}
