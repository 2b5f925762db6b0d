//! The common part of the models [`gather`](crate::gather) and [`quorum`](crate::quorum). Tries and leaves
//! arrive in any order, and a hold may be lost while its client waits for another queue. No message is lost,
//! because that only delays a client.

use crate::explore::{Broken, Protocol, damage, offer};

pub(crate) const QUEUES: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client<G> {
    pub(crate) gather: G,
    pub(crate) doing: Doing,
    pub(crate) holds: [bool; QUEUES],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Doing {
    Idle,
    // Tries on their way, and whether one was refused.
    Trying { on_the_way: [bool; QUEUES], refused: bool },
    Waiting(usize),
    WaitingInAll,
    Holding,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State<G> {
    pub(crate) clients: Vec<Client<G>>,
    pub(crate) queues: [Vec<usize>; QUEUES],
    leaves: Vec<(usize, usize)>,
    losses: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Proceed(usize),
    TryArrives(usize, usize),
    Admitted(usize, usize),
    /// The client has waited long, and all other queues make a majority.
    TryOthers(usize),
    Release(usize),
    LeaveArrives(usize),
    Lost(usize, usize),
}

impl<G> Client<G> {
    pub(crate) fn held(&self) -> usize {
        self.holds.iter().filter(|holds| **holds).count()
    }

    pub(crate) fn tries(&mut self, asked: impl Fn(usize) -> bool) {
        self.doing = Doing::Trying { on_the_way: std::array::from_fn(asked), refused: false };
    }
}

impl<G> State<G> {
    pub(crate) fn new(gathers: impl IntoIterator<Item = G>) -> Self {
        let client = |gather| Client { gather, doing: Doing::Idle, holds: [false; QUEUES] };
        let clients = gathers.into_iter().map(client).collect();
        Self { clients, queues: Default::default(), leaves: Vec::new(), losses: 0 }
    }

    pub(crate) fn actions(&self, losses: u8, others: impl Fn(usize) -> bool, steps: &mut Vec<Step>) {
        for (number, client) in self.clients.iter().enumerate() {
            match &client.doing {
                // QUEUE-LEAVE-BEFORE-JOIN.
                Doing::Idle if self.leaves.iter().any(|(of, _)| *of == number) => {}
                Doing::Idle => steps.push(Step::Proceed(number)),
                Doing::Trying { on_the_way, .. } => {
                    let arriving = (0..QUEUES).filter(|queue| on_the_way[*queue]);
                    steps.extend(arriving.map(|queue| Step::TryArrives(number, queue)));
                }
                Doing::Waiting(_) | Doing::WaitingInAll => {
                    let admitted = (0..QUEUES).filter(|queue| self.is_admitted(number, *queue));
                    steps.extend(admitted.map(|queue| Step::Admitted(number, queue)));
                    offer(steps, others(number), Step::TryOthers(number));
                    if self.losses < losses {
                        let held = (0..QUEUES).filter(|queue| client.holds[*queue]);
                        steps.extend(held.map(|queue| Step::Lost(number, queue)));
                    }
                }
                Doing::Holding => steps.push(Step::Release(number)),
                Doing::Done => {}
            }
        }
        steps.extend((0..self.leaves.len()).map(Step::LeaveArrives));
    }

    fn is_admitted(&self, client: usize, queue: usize) -> bool {
        let now = &self.clients[client];
        let waits = match now.doing {
            Doing::Waiting(awaited) => awaited == queue,
            _ => !now.holds[queue],
        };
        waits && self.queues[queue].first() == Some(&client)
    }

    /// After the last try, returns whether all were admitted. With the fault `stays`, a refused client stays
    /// in the queue.
    pub(crate) fn try_arrives(&mut self, client: usize, queue: usize, stays: bool) -> Option<bool> {
        let free = self.queues[queue].is_empty();
        let now = &mut self.clients[client];
        let Doing::Trying { on_the_way, refused } = &mut now.doing else { return None };
        on_the_way[queue] = false;
        *refused |= !free;
        let ended = (!on_the_way.contains(&true)).then_some(!*refused);
        now.holds[queue] |= free;
        if free || stays {
            self.queues[queue].push(client);
        }
        ended
    }

    pub(crate) fn wait_for(&mut self, client: usize, queue: usize) {
        self.queues[queue].push(client);
        self.clients[client].doing = Doing::Waiting(queue);
    }

    pub(crate) fn give_up_waiting(&mut self, client: usize) {
        if let Doing::Waiting(queue) = self.clients[client].doing {
            self.leaves.push((client, queue));
            self.leaves.sort_unstable();
        }
        self.clients[client].doing = Doing::Idle;
    }

    pub(crate) fn give_back(&mut self, client: usize, given: impl Fn(usize) -> bool) {
        for queue in (0..QUEUES).filter(|queue| given(*queue)) {
            if std::mem::take(&mut self.clients[client].holds[queue]) {
                self.leaves.push((client, queue));
            }
        }
        self.leaves.sort_unstable();
    }

    pub(crate) fn release(&mut self, client: usize) {
        self.clients[client].doing = Doing::Done;
        self.give_back(client, |_| true);
    }

    pub(crate) fn leave_arrives(&mut self, place: usize) {
        let (client, queue) = self.leaves.remove(place);
        self.queues[queue].retain(|other| *other != client);
    }

    pub(crate) fn forget(&mut self, client: usize) {
        self.queues.iter_mut().for_each(|queue| queue.retain(|other| *other != client));
        self.leaves.retain(|(other, _)| *other != client);
    }

    pub(crate) fn lose(&mut self, client: usize, queue: usize) {
        self.losses += 1;
        self.queues[queue].retain(|other| *other != client);
        self.clients[client].holds[queue] = false;
    }

    pub(crate) fn end<P: Protocol<State = Self, Action = Step>>(&self, model: &P) -> Option<Broken> {
        let mut steps = Vec::new();
        model.actions(self, &mut steps);
        // A loss comes from outside.
        if steps.iter().any(|step| !matches!(step, Step::Lost(..))) {
            return None;
        }
        let waits = self.clients.iter().any(|client| client.doing != Doing::Done);
        let left = self.queues.iter().any(|queue| !queue.is_empty());
        damage(None, [(waits, Broken::Stuck), (left, Broken::Ghost)])
    }
}
