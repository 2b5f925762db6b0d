//! A hold that its own client ends, by a fixed end or by a close (LEASE-MARGIN-BEFORE-LEAVE). Work begins
//! during the hold and lasts at most a margin, even if the guard is dropped. No other client may hold during
//! the work, and one must be able to soon after it. The next client holds as soon as the server ends the
//! node.

use std::time::Duration;

use latchwork_core::Moment;
use latchwork_core::backend::decide::{given_back_at, margin, renewal_period, valid_until};

use crate::explore::{Broken, Protocol, damage, offer};
use crate::{moment, ttl_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// The leave follows the fixed end at once.
    AtTheEnd,
    /// A guard that is dropped after the fixed end leaves at once.
    ByTheDrop,
    ClosesAtOnce,
    /// The loss is reported a margin late, with the leave.
    ClosesUntold,
    /// A close does not wait for a guard that was dropped after its fixed end.
    ClosesOverTheDropped,
    Stays,
}

/// All times are in ticks.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub(super) ttl: u8,
    pub(super) end: u8,
    pub(super) ticks: u8,
    pub(super) fault: Option<Fault>,
}

/// Zero of every clock, and the time of the join.
const BASE: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Message {
    Renew { sent: u8 },
    Renewed { sent: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Guard {
    Alive,
    Dropped,
    Released,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    now: u8,
    /// The end of the node. `None` after a leave.
    server: Option<u8>,
    deadline: Moment,
    renew_at: Moment,
    net: Option<Message>,
    guard: Guard,
    /// The start of the close, and the time of its leave.
    close: Option<(Moment, Moment)>,
    /// The end of the work.
    deed: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Begin,
    Renew,
    Deliver,
    Lose,
    Release,
    Drop,
    Close,
    Closed,
    Leave,
    Tick,
}

impl State {
    fn local(&self) -> Moment {
        moment(BASE + self.now)
    }

    fn there(&self) -> bool {
        self.server.is_some_and(|expires| expires > self.now)
    }

    fn reports_loss(&self, model: &Ends) -> bool {
        let late = model.fault == Some(Fault::ClosesUntold);
        self.close.is_some_and(|(_, leaves)| !late || self.local() >= leaves)
    }

    fn believes(&self, model: &Ends) -> bool {
        let in_time = self.local() < self.deadline.min(model.fixed_end());
        self.guard == Guard::Alive && in_time && !self.reports_loss(model)
    }

    /// The hold was lost at its fixed end, and not before.
    fn is_over(&self, model: &Ends) -> bool {
        let end = model.fixed_end();
        let before = self.deadline < end || self.close.is_some_and(|(since, _)| since < end);
        self.guard != Guard::Released && self.local() >= end && !before
    }

    fn lingers(&self, model: &Ends) -> bool {
        self.is_over(model) && self.local() < model.given_back_at(model.fixed_end())
    }

    fn is_at_it(&self) -> bool {
        self.local() < self.deed
    }

    fn leaves(&self, model: &Ends) -> impl Iterator<Item = Step> {
        let at = match model.fault {
            Some(Fault::AtTheEnd) => model.fixed_end(),
            Some(Fault::Stays) => Moment::NEVER,
            _ => model.given_back_at(model.fixed_end()),
        };
        let left = self.server.is_some() && self.is_over(model) && self.local() >= at;
        let closed = self.server.is_some() && self.close.is_some_and(|(_, leaves)| self.local() >= leaves);
        [left.then_some(Step::Leave), closed.then_some(Step::Closed)].into_iter().flatten()
    }

    /// Returns whether another client can hold a margin after the last end, in a run without faults.
    fn is_given_back_in_time(&self, model: &Ends) -> bool {
        let mut run = Self { net: None, ..self.clone() };
        let end = model.fixed_end();
        let last = run.close.map_or(end, |(since, _)| since.max(run.local().min(end)));
        let leaves = |run: &Self| run.leaves(model).next().is_some();
        while !leaves(&run) && run.local() < model.given_back_at(last) {
            run.now += 1;
        }
        leaves(&run) || !run.there() || run.deadline < last
    }
}

impl Ends {
    fn fixed_end(&self) -> Moment {
        moment(BASE + self.end)
    }

    fn ttl(&self) -> Duration {
        ttl_of(self.ttl)
    }

    fn given_back_at(&self, ended: Moment) -> Moment {
        given_back_at(ended, self.ttl())
    }
}

impl Protocol for Ends {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let joined = moment(BASE);
        vec![State {
            now: 0,
            server: Some(self.ttl),
            deadline: valid_until(joined, self.ttl()),
            renew_at: joined + renewal_period(self.ttl()),
            net: None,
            guard: Guard::Alive,
            close: None,
            deed: Moment::PAST,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let (held, idle) = (state.believes(self), !state.is_at_it());
        offer(steps, held && idle, Step::Begin);
        let over = state.guard == Guard::Alive && state.is_over(self);
        offer(steps, idle && (held || over), Step::Release);
        offer(steps, over, Step::Drop);
        offer(steps, held && state.net.is_none() && state.local() >= state.renew_at, Step::Renew);
        if state.net.is_some() {
            steps.extend([Step::Deliver, Step::Lose]);
        }
        offer(steps, state.close.is_none() && state.guard != Guard::Released, Step::Close);
        steps.extend(state.leaves(self));
        offer(steps, state.now < self.ticks, Step::Tick);
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Begin => state.deed = state.local() + margin(self.ttl()),
            Step::Renew => {
                state.renew_at = state.local() + renewal_period(self.ttl());
                state.net = Some(Message::Renew { sent: BASE + state.now });
            }
            Step::Deliver => match state.net.take() {
                Some(Message::Renew { sent }) if state.there() => {
                    state.server = Some(state.now + self.ttl);
                    state.net = Some(Message::Renewed { sent });
                }
                // LEASE-LOST-IS-FINAL.
                Some(Message::Renewed { sent }) if state.believes(self) => {
                    state.deadline = state.deadline.max(valid_until(moment(sent), self.ttl()));
                }
                _ => {}
            },
            Step::Lose => state.net = None,
            Step::Release => (state.guard, state.server) = (Guard::Released, None),
            Step::Drop => {
                state.guard = Guard::Dropped;
                if !state.lingers(self) || self.fault == Some(Fault::ByTheDrop) {
                    state.server = None;
                }
            }
            Step::Close => {
                let now = state.local();
                let waits = match self.fault {
                    Some(Fault::ClosesAtOnce) => false,
                    Some(Fault::ClosesOverTheDropped) => state.guard == Guard::Alive,
                    _ => state.guard == Guard::Alive || state.lingers(self),
                };
                state.close = Some((now, if waits { self.given_back_at(now) } else { now }));
            }
            Step::Closed | Step::Leave => state.server = None,
            Step::Tick => state.now += 1,
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let (gone, late) = (!state.there(), !state.is_given_back_in_time(self));
        let (believes, is_at_it) = (gone && state.believes(self), gone && state.is_at_it());
        damage(None, [(believes, Broken::Believes), (is_at_it, Broken::TwoHolders), (late, Broken::Slow)])
    }
}
