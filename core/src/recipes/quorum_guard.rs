use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{BoxFuture, maybe_done};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;

use super::ask::Ask;
use super::guards::QuorumGuard;
use super::hold::{Composite, Hold};
use super::quorum_members::{QuorumMembers, Taken};
use crate::address::Address;
use crate::clock::{Clock, Moment};
use crate::decide::renewal_period;
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::hold::{Ended, HeldBy, Majority};
use crate::token::Token;
use crate::when_dropped::WhenDropped;

pub(super) type Tries = FuturesUnordered<BoxFuture<'static, (usize, Result<Taken>)>>;

pub(super) struct QuorumHold(Arc<QuorumParts>);

struct QuorumParts {
    lock: Arc<QuorumMembers>,
    majority: Arc<Majority>,
    // By the number of the member.
    held: Mutex<Vec<Option<Arc<Hold>>>>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct HoldBounds {
    pub(super) end: Option<Moment>,
    pub(super) kept_until: Option<Moment>,
}

impl QuorumHold {
    pub(super) fn of_one(lock: Arc<QuorumMembers>, held: Hold) -> Self {
        Self(QuorumParts::new(lock, vec![Some(held)]))
    }

    /// `late`: the tries without an answer. `again`: the request of later tries.
    pub(super) fn new(
        lock: Arc<QuorumMembers>,
        held: Vec<Option<Hold>>,
        late: Tries,
        bounds: HoldBounds,
        again: Ask,
    ) -> Self {
        let shared = QuorumParts::new(lock, held);
        shared.held.lock().iter().flatten().for_each(|held| shared.bind(held, bounds));
        widen_on(0, Arc::clone(&shared), late, bounds, again);
        Self(shared)
    }

    /// Gives all members back. Returns when a majority has confirmed it.
    async fn give_back(&self) -> Result<Ended> {
        let QuorumParts { lock, majority, held } = &*self.0;
        let ended = majority.end();
        let members: Vec<_> = held.lock().iter().flatten().cloned().collect();
        if let ([_], [only]) = (&lock.members[..], &members[..]) {
            return only.give_back().await;
        }
        if let Ended::Lost(reason) = ended {
            members.iter().for_each(|held| held.give_back_lost());
            drop(members);
            drop(self.0.take());
            return Ok(Ended::Lost(reason));
        }
        // The clean-up continues the other releases; the client's next join and its close wait for them.
        confirmed(&members, lock.need()).await
    }
}

impl Composite for QuorumHold {
    fn key(&self) -> &str {
        self.0.lock.key()
    }

    fn address(&self) -> &Address {
        self.0.lock.members[0].address()
    }

    fn coordinator(&self) -> Option<&str> {
        None
    }

    fn held_by(&self) -> HeldBy<'_> {
        HeldBy::Majority(&self.0.majority)
    }

    /// `None` for a member that is not held now.
    fn places(&self) -> Vec<Option<Token>> {
        let QuorumParts { majority, held, .. } = &*self.0;
        let held = held.lock();
        let place = |(member, held): (usize, &Option<Arc<Hold>>)| {
            held.as_ref().filter(|_| majority.holds(member)).map(|held| held.place())
        };
        held.iter().enumerate().map(place).collect()
    }

    fn release(&self) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(self.give_back())
    }
}

impl QuorumGuard {
    /// Returns the places in the members' queues, in the order in which the members were given; `None` for a
    /// member that is not held now. They are not fencing tokens: see [`QuorumLock`](super::QuorumLock).
    pub fn sequences(&self) -> Vec<Option<u64>> {
        let places = self.0.composite().places().into_iter();
        places.map(|place| place.map(Token::sequence)).collect()
    }
}

impl QuorumParts {
    fn new(lock: Arc<QuorumMembers>, held: Vec<Option<Hold>>) -> Arc<Self> {
        let tenures = held.iter().map(|held| held.as_ref().map(|held| Arc::clone(held.tenure()))).collect();
        let majority = Majority::new(lock.key(), lock.need(), tenures);
        let held = Mutex::new(held.into_iter().map(|held| held.map(Arc::new)).collect());
        Arc::new(Self { lock, majority, held })
    }

    fn bind(&self, held: &Hold, bounds: HoldBounds) {
        let now = self.lock.members[0].handle.client().clock().now();
        let min_hold = bounds.kept_until.map(|until| until.since(now)).filter(|left| !left.is_zero());
        held.bind(bounds.end, min_hold);
    }

    /// Adds a late member. If the hold has ended, drops the member, which gives it back.
    fn join(&self, member: usize, held: Hold, bounds: HoldBounds) {
        let mut all = self.held.lock();
        let replaced = if self.majority.add(member, held.tenure()) {
            self.bind(&held, bounds);
            all[member].replace(Arc::new(held))
        } else {
            Some(Arc::new(held))
        };
        drop(all);
        drop(replaced);
    }

    /// Gives lost members back, so that they do not block a new try. Returns the missing members.
    fn missing(&self) -> Vec<usize> {
        let mut held = self.held.lock();
        let members = 0..held.len();
        let missing: Vec<_> = members.filter(|member| !self.majority.holds(*member)).collect();
        let lost: Vec<_> = missing.iter().map(|member| held[*member].take()).collect();
        drop(held);
        drop(lost);
        missing
    }

    fn take(&self) -> Vec<Arc<Hold>> {
        self.held.lock().iter_mut().filter_map(Option::take).collect()
    }
}

/// Returns the next answer, up to this moment: the bound of a try needs a runtime that is driven.
pub(super) async fn next_of(
    tries: &mut Tries,
    clock: &Clock,
    until: Moment,
) -> Option<(usize, Result<Taken>)> {
    tokio::select! {
        biased;
        answer = tries.next() => answer,
        () = clock.sleep_until(until) => None,
    }
}

/// Runs [`widen`] on the runtime of a member. If that runtime ends first, the next member's continues.
fn widen_on(member: usize, shared: Arc<QuorumParts>, late: Tries, bounds: HoldBounds, again: Ask) {
    let lock = Arc::clone(&shared.lock);
    let Some(runs_on) = lock.members.get(member) else { return };
    let next = {
        let (shared, again) = (Arc::clone(&shared), again.clone());
        WhenDropped::new(move || widen_on(member + 1, shared, Tries::new(), bounds, again))
    };
    let client = runs_on.handle.client();
    let clock = client.clock();
    client.cleanup.beside(async move {
        widen(shared, clock, late, bounds, again).await;
        next.disarm();
    });
}

/// Adds late members, and periodically tries the missing members, until the hold ends. After a loss it gives
/// the remaining members back.
async fn widen(shared: Arc<QuorumParts>, clock: Clock, mut late: Tries, bounds: HoldBounds, again: Ask) {
    let period = renewal_period(shared.lock.terms.longest_ttl);
    let widening = async {
        loop {
            let until = clock.now() + shared.lock.tries_within();
            while let Some((member, answer)) = next_of(&mut late, &clock, until).await {
                match answer {
                    Ok(Taken::Held(held)) => shared.join(member, held, bounds),
                    Ok(Taken::Refused | Taken::After(_)) => {}
                    Err(error) => {
                        tracing::debug!(%error, member, "a member of a quorum lock could not be acquired")
                    }
                }
            }
            clock.sleep_until(clock.now() + period).await;
            late = shared
                .missing()
                .into_iter()
                .map(|member| shared.lock.take_member(member, again.clone()))
                .collect();
        }
    };
    tokio::select! {
        // No step may follow the end: it could write a marker again that `reset` has deleted.
        biased;
        () = shared.majority.until_ended() => {}
        () = widening => {}
    }
    match shared.majority.ended() {
        Some(Ended::Lost(LostReason::MaxHold)) => {}
        Some(Ended::Lost(_)) => drop(shared.take()),
        _ => {}
    }
}

/// Releases all members. Returns when a majority is confirmed, or cannot be.
async fn confirmed(members: &[Arc<Hold>], need: usize) -> Result<Ended> {
    let mut releases: Vec<_> = members.iter().map(|held| maybe_done(held.give_back())).collect();
    poll_fn(|context| {
        let waiting =
            releases.iter_mut().filter_map(|release| release.poll_unpin(context).is_pending().then_some(()));
        let all = waiting.count() == 0;
        let answers = releases.iter_mut().filter_map(|release| Pin::new(release).output_mut().map(|it| &*it));
        match tally(answers, need) {
            Ok(Ended::Released) => Poll::Ready(Ok(Ended::Released)),
            answer if all => Poll::Ready(answer),
            _ => Poll::Pending,
        }
    })
    .await
}

fn tally<'a>(answers: impl Iterator<Item = &'a Result<Ended>>, need: usize) -> Result<Ended> {
    let (mut released, mut unsure, mut lost, mut failed) = (0, 0, None, None);
    for answer in answers {
        match answer {
            Ok(Ended::Released) => released += 1,
            Ok(lost_before) => lost = lost.or(Some(*lost_before)),
            Err(error) => {
                unsure += 1;
                failed = failed.or(Some(error));
            }
        }
    }
    match (lost, failed) {
        _ if released >= need => Ok(Ended::Released),
        (Some(lost), _) if released + unsure < need => Ok(lost),
        (_, Some(error)) => Err(error.clone()),
        (Some(lost), None) => Ok(lost),
        (None, None) => {
            Err(Error::new(ErrorKind::OutcomeUnknown, "no majority of the servers confirmed the release"))
        }
    }
}

impl Drop for QuorumHold {
    fn drop(&mut self) {
        self.0.majority.end();
        drop(self.0.take());
    }
}
