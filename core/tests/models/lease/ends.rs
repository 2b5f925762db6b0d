//! A hold that its own client ends, by a fixed end or by a close (C7). Under it a deed is begun while it is held, and lasts at
//! most a margin, whatever becomes of the guard. What is watched: nobody else can come in during a deed, and somebody can soon
//! after. What the server gives up lets the next in at that instant; a waiter needs no part in it.

use latchwork_core::Moment;
use latchwork_core::decide::{given_back_at, margin, renewal_period, valid_until};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};
use crate::{moment, ttl_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// The node is left at the fixed end itself.
    AtTheEnd,
    /// A guard that is dropped behind the fixed end leaves at once.
    ByTheDrop,
    /// A close leaves at once whom it has told.
    ClosesAtOnce,
    /// A close leaves a margin later, and tells with that.
    ClosesUntold,
    /// A close waits for live guards alone, and not for one that was dropped behind its fixed end.
    ClosesOverTheDropped,
    /// Nobody leaves at the fixed end.
    Stays,
}

/// The bounds, in ticks.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub(super) ttl: u8,
    /// The fixed end, after the join.
    pub(super) end: u8,
    pub(super) ticks: u8,
    pub(super) fault: Option<Fault>,
}

/// Zero of every clock, and the send of the join.
const BASE: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Message {
    Renew { sent: u8 },
    Renewed { sent: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Guard {
    Alive,
    /// Dropped behind the fixed end.
    Dropped,
    /// Given back by its owner.
    Released,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    now: u8,
    /// When the server gives the node up, unless it was left.
    server: Option<u8>,
    deadline: Moment,
    renew_at: Moment,
    net: Option<Message>,
    guard: Guard,
    /// Since when a close is under way, and when it leaves what it finds.
    close: Option<(Moment, Moment)>,
    /// Until when a deed lasts.
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
    /// Whoever waits for the fixed end leaves.
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

    fn is_told(&self, model: &Ends) -> bool {
        self.close
            .is_some_and(|(_, leaves)| model.fault != Some(Fault::ClosesUntold) || self.local() >= leaves)
    }

    fn believes(&self, model: &Ends) -> bool {
        let in_time = self.local() < self.deadline.min(model.fixed_end());
        self.guard == Guard::Alive && in_time && !self.is_told(model)
    }

    /// Lost at its fixed end, and not before.
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

    /// The steps that give it back and are due.
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

    /// Goes on from here without a fault until a margin after the last end: whether others can come in then.
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
        // What expired for want of a renewal is given up by the server, which needs no hand.
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
            // Its owner knows what goes on, and gives back at once where nothing does.
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
                // C5: what is lost stays lost.
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
