//! A hold that its own client ends, by a fixed end or by a close (LEASE-MARGIN-BEFORE-LEAVE). Work
//! begins while the hold is held, and lasts at most a margin, whatever becomes of the guard. The
//! model watches that no other client can come in during the work, and that one can soon
//! afterwards. It has no waiter: when the server gives the node up, the next client can come in at
//! that instant.

use latchwork_core::Moment;
use latchwork_core::backend::decide::{given_back_at, margin, renewal_period, valid_until};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};
use crate::{moment, ttl_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// The client leaves the node at the fixed end itself.
    AtTheEnd,
    /// A guard that is dropped after the fixed end leaves at once.
    ByTheDrop,
    /// A close reports the loss and leaves at once.
    ClosesAtOnce,
    /// A close leaves a margin later, and reports the loss only then.
    ClosesUntold,
    /// A close waits for live guards only, and not for a guard that was dropped after its fixed
    /// end.
    ClosesOverTheDropped,
    /// The client does not leave at the fixed end.
    Stays,
}

/// The bounds, in ticks.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub(super) ttl: u8,
    /// The fixed end, counted from the join.
    pub(super) end: u8,
    pub(super) ticks: u8,
    pub(super) fault: Option<Fault>,
}

/// Zero of every clock, and the time when the join was sent.
const BASE: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Message {
    Renew { sent: u8 },
    Renewed { sent: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Guard {
    Alive,
    /// Dropped after the fixed end.
    Dropped,
    /// Released by its owner.
    Released,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    now: u8,
    /// When the server gives the node up. `None` once the client has left.
    server: Option<u8>,
    deadline: Moment,
    renew_at: Moment,
    net: Option<Message>,
    guard: Guard,
    /// When the close began, and when it leaves the node.
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
    /// The close leaves.
    Closed,
    /// The task that waits for the fixed end leaves.
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
        self.close
            .is_some_and(|(_, leaves)| model.fault != Some(Fault::ClosesUntold) || self.local() >= leaves)
    }

    fn believes(&self, model: &Ends) -> bool {
        let in_time = self.local() < self.deadline.min(model.fixed_end());
        self.guard == Guard::Alive && in_time && !self.reports_loss(model)
    }

    /// Whether the hold was lost at its fixed end, and not before.
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

    /// The steps that are due and leave the node.
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

    /// Goes on without a fault until a margin after the last end. Returns whether others can come
    /// in then.
    fn is_given_back_in_time(&self, model: &Ends) -> bool {
        let mut run = Self { net: None, ..self.clone() };
        let last = match run.close {
            Some((since, _)) => since.max(run.local().min(model.fixed_end())),
            None => model.fixed_end(),
        };
        loop {
            if run.leaves(model).next().is_some() {
                run.server = None;
            }
            if run.local() >= model.given_back_at(last) {
                break;
            }
            run.now += 1;
        }
        // A node that expired because it was not renewed needs no leave.
        !run.there() || run.deadline < last
    }
}

impl Ends {
    fn fixed_end(&self) -> Moment {
        moment(BASE + self.end)
    }

    fn given_back_at(&self, ended: Moment) -> Moment {
        given_back_at(ended, ttl_of(self.ttl))
    }
}

impl Protocol for Ends {
    fn verdict(&self, state: &State) -> Option<Broken> {
        if state.believes(self) && !state.there() {
            return Some(Broken::Believes);
        }
        if state.is_at_it() && !state.there() {
            return Some(Broken::TwoHolders);
        }
        (!state.is_given_back_in_time(self)).then_some(Broken::Slow)
    }
}

impl Model for Ends {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let joined = moment(BASE);
        vec![State {
            now: 0,
            server: Some(self.ttl),
            deadline: valid_until(joined, ttl_of(self.ttl)),
            renew_at: joined + renewal_period(ttl_of(self.ttl)),
            net: None,
            guard: Guard::Alive,
            close: None,
            deed: Moment::PAST,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let (held, idle) = (state.believes(self), !state.is_at_it());
        if held && idle {
            steps.push(Step::Begin);
        }
        if idle && (held || state.guard == Guard::Alive && state.is_over(self)) {
            // The owner knows whether its work goes on, and releases at once when none does.
            steps.push(Step::Release);
        }
        if state.guard == Guard::Alive && state.is_over(self) {
            steps.push(Step::Drop);
        }
        if held && state.net.is_none() && state.local() >= state.renew_at {
            steps.push(Step::Renew);
        }
        if state.net.is_some() {
            steps.extend([Step::Deliver, Step::Lose]);
        }
        if state.close.is_none() && state.guard != Guard::Released {
            steps.push(Step::Close);
        }
        steps.extend(state.leaves(self));
        if state.now < self.ticks {
            steps.push(Step::Tick);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Begin => next.deed = next.local() + margin(ttl_of(self.ttl)),
            Step::Renew => {
                next.renew_at = next.local() + renewal_period(ttl_of(self.ttl));
                next.net = Some(Message::Renew { sent: BASE + next.now });
            }
            Step::Deliver => match next.net.take()? {
                Message::Renew { sent } => {
                    if next.there() {
                        next.server = Some(next.now + self.ttl);
                        next.net = Some(Message::Renewed { sent });
                    }
                }
                // A loss is final (LEASE-LOST-IS-FINAL).
                Message::Renewed { sent } if state.believes(self) => {
                    next.deadline = next.deadline.max(valid_until(moment(sent), ttl_of(self.ttl)));
                }
                Message::Renewed { .. } => {}
            },
            Step::Lose => next.net = None,
            Step::Release => (next.guard, next.server) = (Guard::Released, None),
            Step::Drop => {
                next.guard = Guard::Dropped;
                if !state.lingers(self) || self.fault == Some(Fault::ByTheDrop) {
                    next.server = None;
                }
            }
            Step::Close => {
                let now = next.local();
                let waits = match self.fault {
                    Some(Fault::ClosesAtOnce) => false,
                    Some(Fault::ClosesOverTheDropped) => state.guard == Guard::Alive,
                    _ => state.guard == Guard::Alive || state.lingers(self),
                };
                next.close = Some((now, if waits { self.given_back_at(now) } else { now }));
            }
            Step::Closed | Step::Leave => next.server = None,
            Step::Tick => next.now += 1,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}
