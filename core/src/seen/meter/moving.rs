use std::time::SystemTime;

use parking_lot::Mutex;

use super::instrument::{CounterMetric, Gauge};
use super::table::{
    MOVE_ACKNOWLEDGED, MOVE_EPOCH, MOVE_LATE, MOVE_LOSSES, MOVE_PARTICIPANTS, MOVE_STEPS, MOVE_WAITS_FOR,
};
use crate::decide::moving::{MovePhase, Side};

const AWAY: &str = "away";
const PHASES: [MovePhase; 5] =
    [MovePhase::Old, MovePhase::BothByOld, MovePhase::BothByNew, MovePhase::New, MovePhase::Done];

/// All series exist from the start. After its end the client does not count.
#[derive(Debug)]
pub(crate) struct ParticipantMeter {
    phases: [Gauge; PHASES.len()],
    away: Gauge,
    late: Gauge,
    epoch: Gauge,
    acknowledged: Gauge,
    losses: [CounterMetric; 2],
    sides: [&'static str; 2],
    shown: Mutex<Option<Shown>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    phase: Option<MovePhase>,
    late: bool,
    epoch: u16,
}

impl ParticipantMeter {
    pub(crate) fn new(backend: &'static str, sides: [&'static str; 2]) -> Self {
        let gauge = |phase| Gauge::new(&MOVE_PARTICIPANTS, &[backend, phase]);
        let away = gauge(AWAY);
        away.add(1);
        let losses = |side: Side| CounterMetric::new(&MOVE_LOSSES, &[sides[at_side(side)], side.as_str()]);
        Self {
            phases: PHASES.map(|phase| gauge(phase.as_str())),
            away,
            late: Gauge::new(&MOVE_LATE, &[backend]),
            epoch: Gauge::new(&MOVE_EPOCH, &[backend]),
            acknowledged: Gauge::new(&MOVE_ACKNOWLEDGED, &[backend]),
            losses: [Side::Old, Side::New].map(losses),
            sides,
            shown: Mutex::new(Some(Shown { phase: None, late: false, epoch: 0 })),
        }
    }

    /// `None`: the client is not a member. `late`: it has not acknowledged the phase.
    pub(crate) fn shows(&self, phase: Option<MovePhase>, late: bool, epoch: u16) {
        let now = Shown { phase, late, epoch };
        let mut shown = self.shown.lock();
        let Some(before) = shown.filter(|before| *before != now) else { return };
        *shown = Some(now);
        self.count(before, -1);
        self.count(now, 1);
        if before.epoch != epoch {
            self.epoch.set(f64::from(epoch));
        }
    }

    fn count(&self, shown: Shown, difference: i8) {
        match shown.phase {
            Some(phase) => self.phases[at(phase)].add(difference),
            None => self.away.add(difference),
        }
        if shown.late {
            self.late.add(difference);
        }
    }

    pub(crate) fn ends(&self) {
        if let Some(shown) = self.shown.lock().take() {
            self.count(shown, -1);
        }
    }

    pub(crate) fn acknowledged(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.acknowledged.set(now.as_secs_f64());
    }

    pub(crate) fn backend(&self, side: Side) -> &'static str {
        self.sides[at_side(side)]
    }

    pub(crate) fn lost(&self, side: Side) {
        self.losses[at_side(side)].count();
    }
}

impl Drop for ParticipantMeter {
    fn drop(&mut self) {
        self.ends();
    }
}

#[derive(Debug)]
pub(crate) struct OperatorMeter {
    steps: [CounterMetric; PHASES.len()],
    waits_for: Gauge,
}

impl OperatorMeter {
    pub(crate) fn new(backend: &'static str) -> Self {
        let steps = PHASES.map(|phase| CounterMetric::new(&MOVE_STEPS, &[backend, phase.as_str()]));
        Self { steps, waits_for: Gauge::new(&MOVE_WAITS_FOR, &[backend]) }
    }

    pub(crate) fn step(&self, phase: MovePhase) {
        self.steps[at(phase)].count();
    }

    pub(crate) fn walks(&self) -> Walk<'_> {
        Walk(self)
    }
}

#[derive(Debug)]
pub(crate) struct Walk<'a>(&'a OperatorMeter);

impl Walk<'_> {
    pub(crate) fn waits_for(&self, members: usize) {
        self.0.waits_for.set(members as f64);
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.waits_for(0);
    }
}

fn at(phase: MovePhase) -> usize {
    PHASES.iter().position(|known| *known == phase).expect("all phases are there")
}

fn at_side(side: Side) -> usize {
    match side {
        Side::Old => 0,
        Side::New => 1,
    }
}
