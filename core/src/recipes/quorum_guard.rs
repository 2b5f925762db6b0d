//! The guard of a quorum's hold, and what keeps it wide.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, maybe_done};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;

use super::acquire::Acquire;
use super::guards::Held;
use super::quorum_members::{QuorumMembers, Taken};
use crate::clock::{Clock, Moment};
use crate::contracts::Patience;
use crate::decide::renewal_period;
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::hold::{Ended, HeldBy, Hold, Majority, Release, Tenure, own_methods};
use crate::token::Token;

/// Tries of members that are under way.
pub(super) type Tries = FuturesUnordered<BoxFuture<'static, (usize, Result<Taken>)>>;

/// A lock that is held on a majority of coordinators. Released by [`release`](Hold::release), or in
/// the background when it is dropped.
///
/// It is valid for [`remaining`](Hold::remaining), which moves as long as a majority renews. Its
/// [`state`](Hold::state) is `Live` while a majority is.
#[must_use = "a guard that is dropped at once releases at once"]
pub struct QuorumGuard {
    shared: Arc<Shared>,
    waited: Duration,
}

/// What the guard and its background task share.
struct Shared {
    lock: Arc<QuorumMembers>,
    majority: Arc<Majority>,
    // By the number of the member. Given back as a whole at the end.
    held: Mutex<Vec<Option<Arc<Held>>>>,
}

/// What bounds every member of a hold.
#[derive(Clone, Copy, Default)]
pub(super) struct HoldBounds {
    /// It ends then.
    pub(super) end: Option<Moment>,
    /// It is not given back before.
    pub(super) kept_until: Option<Moment>,
}

impl QuorumGuard {
    /// Of the only member, which has its own bounds.
    pub(super) fn of_one(lock: Arc<QuorumMembers>, held: Held) -> Self {
        let waited = held.waited();
        Self { shared: Shared::new(lock, vec![Some(held)]), waited }
    }

    /// Of a majority. The answers to the tries that are `late` join the hold; `options` are those of
    /// further tries.
    pub(super) fn new(
        lock: Arc<QuorumMembers>,
        held: Vec<Option<Held>>,
        late: Tries,
        bounds: HoldBounds,
        options: Acquire,
        waited: Duration,
    ) -> Self {
        let shared = Shared::new(lock, held);
        shared.held.lock().iter().flatten().for_each(|held| shared.bind(held, bounds));
        let client = shared.lock.members()[0].handle.client();
        client.cleanup.beside(widen(Arc::clone(&shared), late, bounds, options));
        Self { shared, waited }
    }

    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The tokens of the members that are held, in the order in which the members were given;
    /// `None` for one that is not held now. They identify the holds on their servers, and are no
    /// fence: see [`QuorumLock`](super::QuorumLock).
    pub fn tokens(&self) -> Vec<Option<Token>> {
        let Shared { majority, held, .. } = &*self.shared;
        let held = held.lock();
        let tokens = held.iter().enumerate();
        tokens
            .map(|(member, held)| held.as_ref().filter(|_| majority.holds(member)).map(|held| held.token()))
            .collect()
    }
}

impl Shared {
    fn new(lock: Arc<QuorumMembers>, held: Vec<Option<Held>>) -> Arc<Self> {
        let tenures = held.iter().map(|held| held.as_ref().map(|held| Arc::clone(held.tenure()))).collect();
        let majority = Majority::new(lock.key(), lock.need(), tenures);
        let held = Mutex::new(held.into_iter().map(|held| held.map(Arc::new)).collect());
        Arc::new(Self { lock, majority, held })
    }

    fn bind(&self, held: &Held, bounds: HoldBounds) {
        let now = self.lock.members()[0].handle.client().clock().now();
        let at_least = bounds.kept_until.map(|until| until.since(now)).filter(|left| !left.is_zero());
        held.bind(bounds.end, at_least);
    }

    /// A member was acquired later. It is dropped, and so given back, if the hold has ended.
    fn join(&self, member: usize, held: Held, bounds: HoldBounds) {
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

    /// Gives back what was lost of the hold, so that it is not in the way of a new try. Answers the
    /// members that are missing.
    fn missing(&self) -> Vec<usize> {
        let mut held = self.held.lock();
        let members = 0..held.len();
        let missing: Vec<_> = members.filter(|member| !self.majority.holds(*member)).collect();
        let lost: Vec<_> = missing.iter().map(|member| held[*member].take()).collect();
        drop(held);
        drop(lost);
        missing
    }

    /// Takes what is held, to give it back.
    fn take(&self) -> Vec<Arc<Held>> {
        self.held.lock().iter_mut().filter_map(Option::take).collect()
    }
}

/// The next answer, up to this moment: a try has bounds of its own, on a runtime that may not be driven.
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

/// Adds the members that are answered late, and from time to time tries those that are missing,
/// until the hold has ended. Gives back what is left of one that was lost.
async fn widen(shared: Arc<Shared>, mut late: Tries, bounds: HoldBounds, options: Acquire) {
    let clock = shared.lock.members()[0].handle.client().clock();
    let period = renewal_period(shared.lock.longest_ttl());
    let widening = async {
        loop {
            let until = clock.now() + shared.lock.tries_within();
            while let Some((member, answer)) = next_of(&mut late, &clock, until).await {
                match answer {
                    Ok(Taken::Held(held)) => shared.join(member, held, bounds),
                    Ok(Taken::Refused | Taken::After(_)) => {}
                    Err(error) => tracing::debug!(%error, member, "a member of the quorum is missing"),
                }
            }
            clock.sleep_until(clock.now() + period).await;
            late = shared
                .missing()
                .into_iter()
                .map(|member| shared.lock.take_member(member, "acquire", options.clone(), Patience::Try))
                .collect();
        }
    };
    tokio::select! {
        // A hold that has ended takes no step more: it might write the marker of a member anew that
        // its owner has deleted since.
        biased;
        () = shared.majority.until_ended() => {}
        () = widening => {}
    }
    match shared.majority.ended() {
        // Its members leave by themselves a margin later, or at a release.
        Some(Ended::Lost(LostReason::MaxHold)) => {}
        Some(Ended::Lost(_)) => drop(shared.take()),
        _ => {}
    }
}

own_methods!(QuorumGuard);

#[async_trait]
impl Hold for QuorumGuard {
    /// None: no single tenure makes it a hold.
    fn tenures(&self) -> &[Arc<Tenure>] {
        &[]
    }

    fn held_by(&self) -> HeldBy<'_> {
        HeldBy::Majority(&self.shared.majority)
    }

    fn key(&self) -> &str {
        self.shared.lock.key()
    }

    /// Gives all members back, and waits until a majority of the servers has confirmed it; the
    /// others are given back in the background.
    ///
    /// # Errors
    /// `Unknown` when a majority was not confirmed.
    ///
    /// # Cancel safety
    /// A dropped release goes on in the background.
    async fn release(&self) -> Result<Release> {
        let Shared { lock, majority, held } = &*self.shared;
        let ended = majority.end();
        let members: Vec<_> = held.lock().iter().flatten().cloned().collect();
        if let ([_], [only]) = (lock.members(), &members[..]) {
            return only.release().await;
        }
        if let Ended::Lost(reason) = ended {
            members.iter().for_each(|held| held.give_back_lost());
            drop(members);
            drop(self.shared.take());
            return Ok(Release::AlreadyLost(reason));
        }
        // Those without an answer by then are dropped: they go on in the clean-up, for which the
        // client's next join and its close wait.
        confirmed(&members, lock.need()).await
    }
}

/// Releases all, and waits until a majority is confirmed, or cannot be. All are asked at the first
/// poll.
async fn confirmed(members: &[Arc<Held>], need: usize) -> Result<Release> {
    let mut releases: Vec<_> = members.iter().map(|held| maybe_done(Box::pin(held.release()))).collect();
    poll_fn(|context| {
        let waiting =
            releases.iter_mut().filter_map(|release| release.poll_unpin(context).is_pending().then_some(()));
        let all = waiting.count() == 0;
        let answers = releases.iter_mut().filter_map(|release| Pin::new(release).output_mut().map(|it| &*it));
        match tally(answers, need) {
            Ok(Release::Released) => Poll::Ready(Ok(Release::Released)),
            answer if all => Poll::Ready(answer),
            _ => Poll::Pending,
        }
    })
    .await
}

/// What the answers to all releases mean.
fn tally<'a>(answers: impl Iterator<Item = &'a Result<Release>>, need: usize) -> Result<Release> {
    let (mut released, mut unsure, mut lost, mut failed) = (0, 0, None, None);
    for answer in answers {
        match answer {
            Ok(Release::Released) => released += 1,
            Ok(lost_before) => lost = lost.or(Some(*lost_before)),
            Err(error) => {
                unsure += 1;
                failed = failed.or(Some(error));
            }
        }
    }
    match (lost, failed) {
        _ if released >= need => Ok(Release::Released),
        (Some(lost), _) if released + unsure < need => Ok(lost),
        (_, Some(error)) => Err(error.clone()),
        (Some(lost), None) => Ok(lost),
        (None, None) => Err(Error::new(ErrorKind::Unknown, "a majority of the releases was not confirmed")),
    }
}

impl Drop for QuorumGuard {
    fn drop(&mut self) {
        self.shared.majority.end();
        drop(self.shared.take());
    }
}

impl fmt::Debug for QuorumGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumGuard")
            .field("members", &self.shared.lock.members())
            .field("tokens", &self.tokens())
            .finish()
    }
}
