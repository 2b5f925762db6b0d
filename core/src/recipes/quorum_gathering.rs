use std::sync::Arc;
use std::time::Duration;

use super::ask::Ask;
use super::hold::Hold;
use super::quorum_guard::{HoldBounds, QuorumHold, Tries, next_of};
use super::quorum_members::{QuorumMembers, Taken};
use crate::clock::{Clock, Moment};
use crate::contracts::Patience;
use crate::decide::quorum::{MajorityGather, NextStep};
use crate::error::{Error, ErrorKind, Result};
use crate::support::{Backoff, Pauses};

pub(super) struct Acquisition<'a> {
    lock: &'a Arc<QuorumMembers>,
    ask: Ask,
    clock: Clock,
    begun: Moment,
    deadline: Moment,
    gathering: MajorityGather,
    // By the number of the member.
    held: Vec<Option<Hold>>,
    // Since the last start of the acquisition.
    left_out: Vec<Option<LeftOut>>,
    // When a majority last answered, even if it did not count yet.
    answered: Moment,
    // Why no majority answered at the last try of all members.
    obstacle: Option<Error>,
    pauses: Backoff,
}

enum LeftOut {
    Failed(Error),
    /// The server counts only after this time.
    After(Duration),
}

#[derive(Default)]
struct MemberTried {
    refused: usize,
    held: usize,
    late: Tries,
}

impl<'a> Acquisition<'a> {
    pub(super) fn new(lock: &'a Arc<QuorumMembers>, ask: Ask) -> Self {
        let clock = lock.members[0].handle.client().clock();
        let (begun, members) = (clock.now(), lock.members.len());
        let deadline = match (ask.patience, ask.within) {
            (Patience::Wait, Some(within)) => begun + within,
            _ => Moment::NEVER,
        };
        Self {
            lock,
            ask,
            clock,
            begun,
            deadline,
            gathering: MajorityGather::new(members),
            held: (0..members).map(|_| None).collect(),
            left_out: (0..members).map(|_| None).collect(),
            answered: begun,
            obstacle: Some(unavailable("fewer than a majority of the servers have answered")),
            pauses: Backoff::new(Pauses::OUTAGE),
        }
    }

    pub(super) async fn run(mut self) -> Result<Option<Hold>> {
        let (clock, deadline) = (self.clock.clone(), self.deadline);
        let acquired = tokio::select! {
            biased;
            acquired = self.gather() => acquired,
            () = clock.sleep_until(deadline) => Err(self.late()),
        };
        acquired.map_err(|error| error.in_operation(self.ask.operation).on(self.lock.key()))
    }

    async fn gather(&mut self) -> Result<Option<Hold>> {
        self.lock.check_apart().await?;
        let (mut from, mut late) = (self.begun, Tries::default());
        loop {
            match self.gathering.next(self.live()) {
                NextStep::TryAll => {
                    from = self.clock.now();
                    let tried = self.try_others(None).await;
                    if tried.held >= self.lock.need() {
                        late = tried.late;
                        continue;
                    }
                    self.keep_only(&[]);
                    self.judge(&tried)?;
                    if self.ask.patience == Patience::Try {
                        return Ok(None);
                    }
                    self.gathering.tried(tried.refused + tried.held);
                }
                NextStep::WaitFor(place) => {
                    let (before, from_here) = self.lock.order.split_at(place);
                    self.keep_only(before);
                    late = self.wait_for(from_here[0]).await;
                    // The wait begins only after a majority has answered.
                    (from, self.answered) = (self.clock.now(), self.clock.now());
                    self.gathering.passed();
                }
                NextStep::Again => self.begin_again().await,
                NextStep::Done => return Ok(Some(self.guard(from, late))),
            }
        }
    }

    fn keep_only(&mut self, kept: &[usize]) {
        let members = self.held.iter_mut().enumerate();
        members.filter(|(member, _)| !kept.contains(member)).for_each(|(_, held)| drop(held.take()));
    }

    fn keep(&mut self, member: usize, answer: Result<Taken>) {
        match answer {
            Ok(Taken::Held(held)) => self.held[member] = Some(held),
            Ok(Taken::Refused) => {}
            Ok(Taken::After(time)) => self.left_out[member] = Some(LeftOut::After(time)),
            Err(error) => self.left_out[member] = Some(LeftOut::Failed(error)),
        }
    }

    fn live(&self) -> usize {
        self.held.iter().flatten().filter(|held| held.tenure().ended().is_none()).count()
    }

    /// The bounds of the hold start when a majority is held.
    fn call(&self, patience: Patience) -> Ask {
        Ask { max_hold: None, min_hold: None, within: None, patience, ..self.ask.clone() }
    }

    /// Returns when it is known whether a majority is held.
    async fn try_others(&mut self, but: Option<usize>) -> MemberTried {
        let (need, members) = (self.lock.need(), self.held.len());
        for held in &mut self.held {
            held.take_if(|held| held.tenure().ended().is_some());
        }
        let others = (0..members).filter(|member| self.held[*member].is_none() && Some(*member) != but);
        let mut asked: Vec<_> = others.collect();
        let tries =
            asked.iter().map(|&member| self.lock.take_member(member, self.call(Patience::Try))).collect();
        let mut tried = MemberTried { late: tries, ..MemberTried::default() };
        let (mut failed, until) = (0, self.clock.now() + self.lock.tries_within());
        while let Some((member, answer)) = next_of(&mut tried.late, &self.clock, until).await {
            asked.retain(|other| *other != member);
            self.left_out[member] = None;
            tried.refused += usize::from(matches!(answer, Ok(Taken::Refused)));
            self.keep(member, answer);
            failed += usize::from(self.left_out[member].is_some());
            tried.held = self.live();
            let (possible, answered) = (tried.held + tried.late.len(), tried.held + tried.refused);
            if tried.held >= need || possible < need && (answered >= need || failed > members - need) {
                break;
            }
        }
        if self.clock.now() >= until {
            for member in asked {
                self.left_out[member] =
                    Some(LeftOut::Failed(unavailable("no thread drives the runtime of the client")));
            }
        }
        tried
    }

    fn judge(&mut self, tried: &MemberTried) -> Result<()> {
        let need = self.lock.need();
        if tried.held + tried.refused >= need {
            (self.answered, self.obstacle) = (self.clock.now(), None);
            return Ok(());
        }
        let soon = self.left_out.iter().flatten().filter(|why| matches!(why, LeftOut::After(_))).count();
        if tried.held + tried.refused + soon >= need {
            self.answered = self.clock.now();
        }
        let failed = self.left_out.iter().flatten().filter_map(|why| match why {
            LeftOut::Failed(error) => Some(error),
            LeftOut::After(_) => None,
        });
        let is_final = |error: &&Error| !error.may_pass();
        if failed.clone().filter(is_final).count() > self.held.len() - need
            && let Some(error) = failed.clone().find(is_final)
        {
            return Err(error.clone());
        }
        let why = match failed.clone().next() {
            Some(error) => unavailable("fewer than a majority of the servers answer").because(error.clone()),
            None => unavailable("too many servers restarted and do not count yet: wait up to longest_ttl"),
        };
        if self.ask.patience == Patience::Try || self.ask.fail_fast {
            return Err(why);
        }
        if self.clock.now().since(self.answered) > self.lock.terms.longest_ttl
            && self.deadline == Moment::NEVER
        {
            return Err(why);
        }
        self.obstacle = Some(why);
        Ok(())
    }

    /// Waits for one member. After each `longest_ttl` it tries all others, because the member's holder may
    /// never release it. Returns the tries without an answer.
    async fn wait_for(&mut self, member: usize) -> Tries {
        if self.left_out[member].is_some() {
            return Tries::default();
        }
        let ask = Ask { fail_fast: true, ..self.call(Patience::Wait) };
        let mut waiting = self.lock.take_member(member, ask);
        loop {
            let next = self.clock.now() + self.lock.terms.longest_ttl;
            let clock = self.clock.clone();
            let (_, answer) = tokio::select! {
                biased;
                answer = &mut waiting => answer,
                () = clock.sleep_until(next) => {
                    let before: Vec<_> = self.held.iter().map(Option::is_some).collect();
                    let tried = self.try_others(Some(member)).await;
                    if tried.held >= self.lock.need() {
                        // The place in the queue is given up: the hold tries the member again.
                        return tried.late;
                    }
                    for (held, before) in self.held.iter_mut().zip(before) {
                        held.take_if(|_| !before);
                    }
                    continue;
                }
            };
            self.keep(member, answer);
            return Tries::default();
        }
    }

    /// Pauses, because no server reports a change for this.
    async fn begin_again(&mut self) {
        self.keep_only(&[]);
        self.gathering.again();
        let soon = self.left_out.iter_mut().filter_map(Option::take).filter_map(|why| match why {
            LeftOut::After(time) => Some(time),
            LeftOut::Failed(_) => None,
        });
        let pause = self.pauses.next();
        let pause = soon.min().map_or(pause, |time| time.min(pause));
        self.clock.sleep_until(self.clock.now() + pause).await;
    }

    /// `from`: when the successful acquisition was sent.
    fn guard(&mut self, from: Moment, mut late: Tries) -> Hold {
        let now = self.clock.now();
        let bounds = HoldBounds {
            end: self.ask.max_hold.map(|length| from + length),
            kept_until: self.ask.min_hold.map(|length| now + length),
        };
        let held = std::mem::take(&mut self.held);
        if late.is_empty() && self.gathering != MajorityGather::new(held.len()) {
            // The other members were not tried again after their refusal.
            let missing = held.iter().enumerate().filter(|(_, held)| held.is_none());
            let again = missing.map(|(member, _)| self.lock.take_member(member, self.call(Patience::Try)));
            late.extend(again);
        }
        let again = Ask { operation: "acquire", ..self.call(Patience::Try) };
        let quorum = QuorumHold::new(Arc::clone(self.lock), held, late, bounds, again);
        Hold::of_composite(quorum, self.ask.claim, now.since(self.begun))
    }

    fn late(&mut self) -> Error {
        match self.obstacle.take() {
            Some(why) => why,
            None => Error::new(ErrorKind::Timeout, "other clients hold too many members for a majority"),
        }
    }
}

fn unavailable(why: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, why)
}
