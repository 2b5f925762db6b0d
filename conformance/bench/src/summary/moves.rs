use comfy_table::Table;
use latchwork_core::backend::decide::moving::MovePhase;

use super::figures::{median, none, spread, table, verdict};
use super::tables::BESIDE;
use super::{Key, Summary};
use crate::line::Line;
use crate::moving::{IN_PHASE, MOVE, ON_NEW, ON_OLD, asked_of};
use crate::stats::Spread;

/// The plain clients whose costs make the budget of a phase. A phase on both sides may also read the stage.
fn made_of(phase: MovePhase) -> &'static [&'static str] {
    let needs = phase.needs();
    match (needs.old, needs.new) {
        (true, true) => &[ON_OLD, ON_NEW],
        (true, false) => &[ON_OLD],
        (false, _) => &[ON_NEW],
    }
}

/// ZooKeeper needs a `sync` and the stat of the directory.
fn a_read(server: &str) -> f64 {
    if server == "zookeeper" { 3.0 } else { 1.0 }
}

impl Summary {
    pub(super) fn moves(&self) -> Option<Table> {
        table(self.keys(MOVE).into_iter().map(|key| {
            let phase = IN_PHASE.iter().find(|(_, peer)| *peer == key.1).map(|(phase, _)| *phase);
            let [old, new] = asked_of(key.2);
            [
                ("locks that move,\nuncontended", format!("{}: {}", key.0, key.2)),
                ("peer", key.1.to_owned()),
                ("p50 µs\n[over rounds]", spread(self.spread(MOVE, key, |line| line.p50), 1)),
                ("p99 µs", median(self.spread(MOVE, key, |line| line.p99), 1)),
                (
                    "x plain, in both\nx the sum",
                    phase.map_or_else(none, |phase| spread(self.beside_plain(key, phase), 2)),
                ),
                ("requests to\nthe old side", self.asked_of_side(key, &old, phase)),
                ("requests to\nthe new side", self.asked_of_side(key, &new, phase)),
            ]
        }))
    }

    fn beside_plain(&self, key: Key<'_>, phase: MovePhase) -> Option<Spread> {
        let plain = made_of(phase);
        let ratio = |line: &Line| {
            let of = |peer| self.all(MOVE, (key.0, peer, key.2)).find(|other| other.round == line.round);
            let sum = plain.iter().map(|peer| of(peer)?.p50).sum::<Option<f64>>()?;
            Some(line.p50? / sum)
        };
        Spread::of(self.all(MOVE, key).filter_map(ratio))
    }

    fn asked_of_side(&self, key: Key<'_>, asked: &str, phase: Option<MovePhase>) -> String {
        let of = |peer| self.spread("M4", (key.0, peer, asked), |line| line.value);
        let Some(figure) = of(key.1) else { return none() };
        let shown = format!("{:.2}", figure.median);
        let Some(phase) = phase else { return shown };
        let plain = made_of(phase).iter().map(|peer| Some(of(peer)?.median)).sum::<Option<f64>>();
        let reads = phase.is_read_while_held() && *asked == asked_of(key.2)[0];
        let Some(budget) = plain.map(|plain| plain + if reads { a_read(key.0) } else { 0.0 }) else {
            return shown;
        };
        // As many additional requests are allowed as in `Line::asks_as`, for renewals of fourteen clients.
        // Missing requests mean that other requests were counted.
        let stray = (budget / 20.0).max(BESIDE);
        format!("{shown}\n{budget:.2}: {}", verdict((figure.median - budget).abs() <= stray))
    }
}
