use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::ask::Ask;
use super::hold::Hold;
use super::multi_guard::Several;
use super::multi_members::MultiMembers;
use crate::clock::{Clock, Moment};
use crate::contracts::Patience;
use crate::decide::gather::{Gather, Next};
use crate::decide::life::joins_anew;
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::hold::{Ended, HeldBy, Loss};

pub(super) struct Gathering<'a> {
    members: &'a Arc<MultiMembers>,
    ask: Ask,
    clock: Clock,
    begun: Moment,
    deadline: Option<Moment>,
    gather: Gather,
    // In canonical order.
    held: Vec<Hold>,
}

impl<'a> Gathering<'a> {
    pub(super) fn new(members: &'a Arc<MultiMembers>, ask: Ask) -> Self {
        let clock = members.members[0].handle.client().clock();
        let begun = clock.now();
        let deadline = ask.within.map(|within| begun + within);
        let gather = Gather::new(members.members.len());
        Self { members, ask, clock, begun, deadline, gather, held: Vec::new() }
    }

    pub(super) async fn run(mut self) -> Result<Option<Hold>> {
        let checked = self.in_time(self.members.check_apart()).await?;
        checked.map_err(|error| error.in_operation(self.ask.operation))?;
        let mut tried_at = self.begun;
        loop {
            match self.gather.next() {
                Next::TryAll => {
                    if !self.try_all().await? && self.ask.patience == Patience::Try {
                        return Ok(None);
                    }
                }
                Next::WaitFor(place) => {
                    if !self.wait_for(place).await? {
                        return Ok(None);
                    }
                    tried_at = self.clock.now();
                }
                Next::Done => {
                    if let Some(guard) = self.guard(tried_at)? {
                        return Ok(Some(guard));
                    }
                }
            }
        }
    }

    /// The bounds of the hold start when all members are held.
    fn call(&self, patience: Patience) -> Ask {
        let mut ask = Ask { patience, ..self.ask.clone() };
        if self.members.members.len() > 1 {
            (ask.max_hold, ask.min_hold) = (None, None);
        }
        ask.within = match (patience, self.deadline) {
            (Patience::Wait, Some(deadline)) => {
                Some(deadline.since(self.clock.now()).max(Duration::from_nanos(1)))
            }
            _ => None,
        };
        ask
    }

    /// Returns whether all are held; otherwise gives all back.
    async fn try_all(&mut self) -> Result<bool> {
        let tries = join_all(self.members.in_order().map(|member| member.acquire(self.call(Patience::Try))));
        let answers = self.in_time(tries).await?;
        let (mut refused, mut failed) = (false, None);
        for answer in answers {
            match answer {
                Ok(Some(held)) => self.held.push(held),
                Ok(None) => refused = true,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let all = !refused && failed.is_none();
        if !all {
            self.held.clear();
        }
        match failed {
            // The wait continues through an outage, and joins again after a lost place.
            Some(error) if self.ask.patience == Patience::Try || self.ask.fail_fast || !may_pass(&error) => {
                Err(error)
            }
            _ => {
                self.gather.tried(all);
                Ok(all)
            }
        }
    }

    /// Returns `false` for a refused try.
    async fn wait_for(&mut self, place: usize) -> Result<bool> {
        let member = self.members.in_order().nth(place).expect("a place in the order");
        let tenures: Vec<_> = self.held.iter().map(|held| Arc::clone(held.tenure())).collect();
        let lost = async {
            match &tenures[..] {
                [] => std::future::pending().await,
                tenures => {
                    let mut loss = Loss::of(HeldBy::All(tenures));
                    let ended = (&mut loss).await;
                    (ended, loss.key().to_owned())
                }
            }
        };
        tokio::select! {
            biased;
            taken = member.acquire(self.call(self.ask.patience)) => match taken? {
                Some(held) => {
                    self.held.push(held);
                    self.gather.admitted();
                }
                None => return Ok(false),
            },
            (ended, key) = lost => {
                self.begin_again(ended, key)?;
            }
        }
        Ok(true)
    }

    fn begin_again(&mut self, ended: Ended, key: String) -> Result<()> {
        self.held.clear();
        self.gather.lost();
        let error = match ended {
            Ended::Lost(reason) if joins_anew(reason) => return Ok(()),
            Ended::Lost(LostReason::Closed) => Error::closed(),
            ended => ended.error(),
        };
        Err(error.in_operation(self.ask.operation).on(key))
    }

    /// `None` if a member was lost in between.
    fn guard(&mut self, since: Moment) -> Result<Option<Hold>> {
        if self.held.len() > 1 {
            let end = self.ask.max_hold.map(|length| since + length);
            self.held.iter().for_each(|held| held.bind(end, self.ask.min_hold));
            let lost = self.held.iter().find_map(|held| Some((held.tenure(), held.tenure().ended()?)));
            if let Some((tenure, ended)) = lost {
                let key = tenure.queue.name().to_owned();
                return self.begin_again(ended, key).map(|()| None);
            }
        }
        let waited = self.clock.now().since(self.begun);
        let several = Several::new(self.members, std::mem::take(&mut self.held));
        Ok(Some(Hold::of_composite(several, self.ask.claim, waited)))
    }

    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            done = work => Ok(done),
            () = self.clock.sleep_until(self.deadline.unwrap_or(Moment::NEVER)) => {
                let late = Error::new(ErrorKind::Timeout, "not all locks were tried in time");
                Err(late.in_operation(self.ask.operation).on(&*self.members.name))
            }
        }
    }
}

/// Whether a wait may succeed after a try failed with this error.
fn may_pass(error: &Error) -> bool {
    error.may_pass() || error.lost_reason().is_some_and(joins_anew)
}
