//! The model of several locks that are acquired as one, over [`Gather`] (the GATHER- rules). Three clients
//! acquire two or three of three locks once, each in another order. A state is broken if clients wait and no
//! step is possible, or if a client counts on a lock that it does not hold.

mod rules;

use latchwork_core::backend::decide::gather::{Gather, Next, canonical_order};

use crate::explore::{Broken, Protocol, damage};
use crate::queues::{self, Doing, QUEUES, Step};

type State = queues::State<Gather>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// GATHER-CANONICAL-ORDER: a client waits in the order in which it was given the locks.
    GivenOrder,
    /// GATHER-TRY-WHOLE: a client keeps the locks of a failed try.
    KeepsTried,
    /// GATHER-LOSS-BEGINS-AGAIN: after a loss, the client waits only for the lost lock.
    KeepsAfterLoss,
}

#[derive(Clone, Debug)]
pub(super) struct Locks {
    pub(super) given: [&'static [usize]; 3],
    pub(super) losses: u8,
    pub(super) fault: Option<Fault>,
}

impl Locks {
    fn order(&self, client: usize) -> Vec<usize> {
        let given = self.given[client];
        if self.fault == Some(Fault::GivenOrder) {
            return given.to_vec();
        }
        let order = canonical_order(given).expect("no lock twice");
        order.into_iter().map(|place| given[place]).collect()
    }

    fn proceed(&self, state: &mut State, client: usize) {
        let order = self.order(client);
        let now = &mut state.clients[client];
        match now.gather.next() {
            Next::TryAll => now.tries(|lock| order.contains(&lock)),
            Next::Done => now.doing = Doing::Holding,
            Next::WaitFor(place) if now.holds[order[place]] => now.gather.admitted(),
            Next::WaitFor(place) => state.wait_for(client, order[place]),
        }
    }
}

impl Protocol for Locks {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.given.map(|locks| Gather::new(locks.len())))]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        state.actions(self.losses, |_| false, steps);
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Proceed(client) => self.proceed(state, client),
            Step::TryArrives(client, lock) => {
                let Some(all) = state.try_arrives(client, lock, false) else { return };
                let now = &mut state.clients[client];
                now.gather.tried(all);
                now.doing = Doing::Idle;
                if !all && self.fault != Some(Fault::KeepsTried) {
                    state.give_back(client, |_| true);
                }
            }
            Step::Admitted(client, lock) => {
                let now = &mut state.clients[client];
                now.holds[lock] = true;
                now.gather.admitted();
                now.doing = Doing::Idle;
            }
            Step::TryOthers(_) => unreachable!("all locks are needed"),
            Step::Release(client) => state.release(client),
            Step::LeaveArrives(place) => state.leave_arrives(place),
            Step::Lost(client, lock) => {
                state.lose(client, lock);
                state.give_up_waiting(client);
                state.clients[client].gather.lost();
                if self.fault != Some(Fault::KeepsAfterLoss) {
                    state.give_back(client, |_| true);
                }
            }
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let broken = state.clients.iter().enumerate().find_map(|(number, client)| {
            let whole = self.given[number].iter().all(|lock| client.holds[*lock]);
            let short = client.doing == Doing::Holding && !whole;
            let heads = |lock: usize| !client.holds[lock] || state.queues[lock].first() == Some(&number);
            let behind = !(0..QUEUES).all(heads);
            damage(None, [(short, Broken::Believes), (behind, Broken::TwoHolders)])
        });
        broken.or_else(|| state.end(self))
    }
}
