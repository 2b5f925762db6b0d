//! Several locks as one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::acquire::Acquire;
use super::guards::Held;
use super::member::Member;
use super::under::under;
use super::verb::{Ask, verb};
use crate::address::Address;
use crate::clock::{Clock, Moment};
use crate::contracts::Patience;
use crate::decide::gather::{Gather, Next, canonical_order};
use crate::decide::life::joins_anew;
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::hold::{HeldBy, Hold, Loss, Release, Tenure, own_methods};
use crate::reentrancy::Owner;
use crate::token::Token;

/// Several locks, of any recipe, mode and coordinator, as one: all are held, or none.
///
/// *Protocol.* An acquisition tries all locks at once, without waiting. If one is refused, it gives
/// the others back, and waits for one lock after the other in canonical order: by namespace, kind
/// and key of the address, then by the name of the coordinator. A deadline covers all of it.
///
/// *Why it is safe.* Each lock excludes as it does alone. No two acquisitions wait for each other:
/// one that waits holds only locks that stand before the awaited one in the order, and a try waits
/// for nothing. The order is the same in every process if each coordinator has the same
/// [name](crate::Config::name) in all of them. It says nothing about a lock that the same task
/// holds by another guard: acquire all of them here.
///
/// *When the lease of one is lost*, the whole hold is lost: [`lost`](Hold::lost) becomes ready and
/// names the key, and [`release`](Hold::release) gives the others back. If it happens before all
/// are held, the acquisition gives the others back and begins again.
///
/// *Source.* A total order against deadlock: E. W. Dijkstra's dining philosophers (1971). Curator's
/// `InterProcessMultiLock` acquires in the order that the caller gives, and leaves deadlocks to the
/// caller; `RedissonMultiLock` gives all back after a time, and tries again.
///
/// ```
/// # use latchwork_core::{connect, recipes::{Member, MultiLock}, Config, Release, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let (from, to) = (coordinator.mutex("account/7")?, coordinator.mutex("account/3")?);
/// let both = MultiLock::new([from.into(), to.into()])?;
/// let hold = both.acquire().await?;
/// let [from, to] = hold.tokens()[..] else { unreachable!("two members") }; // in the given order
/// println!("moving money with the fences {from} and {to}");
/// assert_eq!(hold.release().await?, Release::Released);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct MultiLock(Arc<Inner>);

struct Inner {
    // In the order in which they were given.
    members: Vec<Member>,
    // Their places, in canonical order.
    order: Vec<usize>,
    name: String,
}

impl MultiLock {
    /// Several locks as one. Validates, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `members` when there are none, or when two are the same queue;
    /// naming `name` when two coordinators have the same [name](crate::Config::name), or none.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Result<Self> {
        let members: Vec<_> = members.into_iter().collect();
        if members.is_empty() {
            return Err(Error::invalid("members", "there is no lock to acquire"));
        }
        for (place, member) in members.iter().enumerate() {
            let is_twin = |other: &&Member| {
                !Arc::ptr_eq(other.handle().client(), member.handle().client())
                    && other.coordinator() == member.coordinator()
            };
            if let Some(other) = members[..place].iter().find(is_twin) {
                let why = match member.coordinator() {
                    Some(name) => format!("two coordinators have the name {name:?}"),
                    None => "two coordinators have no name: the order of their locks needs one".to_owned(),
                };
                let keys = format!("{why} ({:?}, {:?})", other.address(), member.address());
                return Err(Error::invalid("name", keys));
            }
        }
        let order = canonical_order(members.iter().map(place_in_order)).map_err(|(_, twice)| {
            let address = members[twice].address();
            Error::invalid("members", "it is given twice").on(address.name())
        })?;
        let keys: Vec<_> = members.iter().map(|member| member.address().name()).collect();
        let name = keys.join(" + ");
        Ok(Self(Arc::new(Inner { members, order, name })))
    }

    verb! {
        /// Waits until all are held, without a deadline, as long as others hold.
        ///
        /// # Errors
        /// As an acquisition of the member that failed, whose key the error names. Nothing stays
        /// held.
        ///
        /// # Cancel safety
        /// Cancel-safe: a dropped acquire leaves nothing in any queue, and gives back what it held.
        acquire() -> MultiGuard, by take;
        acquire_within, acquire_with;
        /// Acquires all of them if each is free; never waits. `Ok(None)` if one is not, and nothing
        /// stays held.
        ///
        /// # Errors
        /// As a try of the member that failed, whose key the error names. Nothing stays held.
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in any queue.
        try_acquire, try_acquire_with;
        /// Each member is acquired by this owner, as its recipe does that: a reentrant mutex or a
        /// read/write lock that the owner holds is entered again.
        ///
        /// # Errors
        /// As [`acquire`](Self::acquire), and `InvalidArgument` naming `label` when the owner's is
        /// empty, longer than 4 KiB or has a control character.
        ///
        /// # Cancel safety
        /// As [`acquire`](Self::acquire).
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    /// Acquires, runs `work` under the hold, and releases it; `work` is dropped when the hold is
    /// lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` with the reason when the hold was lost, also when only
    /// the release shows it; `Unknown` when the release was not confirmed.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing: its hold is released in the background.
    pub async fn with_lock<T>(&self, work: impl AsyncFnOnce(&MultiGuard) -> T) -> Result<T> {
        under(self.acquire().await?, work).await
    }

    /// The members, in the order in which they were given.
    pub fn members(&self) -> &[Member] {
        &self.0.members
    }

    async fn take(&self, ask: Ask<'_>) -> Result<Option<MultiGuard>> {
        ask.options.check().map_err(|error| error.in_operation(ask.operation).on(self.0.name.as_str()))?;
        Gathering::new(self, ask).run().await
    }
}

/// The order's key: text that is the same in every process.
fn place_in_order(member: &Member) -> (&str, &str, &str, &str) {
    let address = member.address();
    let namespace = address.namespace().unwrap_or_default();
    (namespace, address.kind().as_str(), address.coded(), member.coordinator().unwrap_or_default())
}

/// One acquisition.
struct Gathering<'a> {
    lock: &'a MultiLock,
    ask: Ask<'a>,
    clock: Clock,
    begun: Moment,
    /// Of a wait with a deadline.
    deadline: Option<Moment>,
    gather: Gather,
    // In canonical order.
    held: Vec<Held>,
}

impl<'a> Gathering<'a> {
    fn new(lock: &'a MultiLock, ask: Ask<'a>) -> Self {
        let clock = lock.0.members[0].handle().client().clock();
        let begun = clock.now();
        let deadline = ask.options.within.map(|within| begun + within);
        let gather = Gather::new(lock.0.members.len());
        Self { lock, ask, clock, begun, deadline, gather, held: Vec::new() }
    }

    async fn run(mut self) -> Result<Option<MultiGuard>> {
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

    /// The call of one member. The hold's own bounds begin when all are held.
    fn call(&self, patience: Patience) -> Ask<'a> {
        let mut options = self.ask.options.clone();
        if self.lock.0.members.len() > 1 {
            (options.max_hold, options.at_least) = (None, None);
        }
        options.within = match (patience, self.deadline) {
            // A deadline that has passed is the shortest one.
            (Patience::Wait, Some(deadline)) => {
                Some(deadline.since(self.clock.now()).max(Duration::from_nanos(1)))
            }
            _ => None,
        };
        Ask { operation: self.ask.operation, owner: self.ask.owner, options, patience }
    }

    fn members(&self) -> impl Iterator<Item = &'a Member> + use<'a> {
        let inner = &self.lock.0;
        inner.order.iter().map(|place| &inner.members[*place])
    }

    /// Tries all at once. Answers whether all are held; if not, all are given back.
    async fn try_all(&mut self) -> Result<bool> {
        let tries = join_all(self.members().map(|member| member.take(self.call(Patience::Try))));
        let answers = tokio::select! {
            answers = tries => answers,
            () = self.clock.sleep_until(self.deadline.unwrap_or(Moment::NEVER)) => return Err(self.late()),
        };
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
            // A wait goes on as its members do: with an outage they have patience, and a lost place
            // is joined for again.
            Some(error)
                if self.ask.patience == Patience::Try || self.ask.options.fail_fast || !may_pass(&error) =>
            {
                Err(error)
            }
            _ => {
                self.gather.tried(all);
                Ok(all)
            }
        }
    }

    /// Waits for one while those before it are held. Answers `false` if it was a try, and refused.
    async fn wait_for(&mut self, place: usize) -> Result<bool> {
        let member = self.members().nth(place).expect("a place in the order");
        let tenures: Vec<_> = self.held.iter().map(|held| Arc::clone(held.tenure())).collect();
        let lost = async {
            match &tenures[..] {
                [] => std::future::pending().await,
                tenures => {
                    let mut loss = Loss::of(HeldBy::All(tenures));
                    let ended = (&mut loss).await;
                    (ended.reason(), loss.key().to_owned())
                }
            }
        };
        tokio::select! {
            biased;
            taken = member.take(self.call(self.ask.patience)) => match taken? {
                Some(held) => {
                    self.held.push(held);
                    self.gather.admitted();
                }
                None => return Ok(false),
            },
            (reason, key) = lost => {
                self.begin_again(reason, key)?;
            }
        }
        Ok(true)
    }

    /// One was lost before all were held: gives the others back.
    fn begin_again(&mut self, reason: LostReason, key: String) -> Result<()> {
        self.held.clear();
        self.gather.lost();
        let error = match reason {
            reason if joins_anew(reason) => return Ok(()),
            LostReason::Closed => Error::closed(),
            reason => Error::lost(reason),
        };
        Err(error.in_operation(self.ask.operation).on(key))
    }

    /// All are held. `None` if one has been lost meanwhile, and it begins again.
    fn guard(&mut self, since: Moment) -> Result<Option<MultiGuard>> {
        if self.held.len() > 1 {
            let end = self.ask.options.max_hold.map(|length| since + length);
            self.held.iter().for_each(|held| held.bind(end, self.ask.options.at_least));
            let lost = self.held.iter().find_map(|held| Some((held.tenure(), held.tenure().ended()?)));
            if let Some((tenure, ended)) = lost {
                let key = tenure.queue.name().to_owned();
                return self.begin_again(ended.reason(), key).map(|()| None);
            }
        }
        let waited = self.clock.now().since(self.begun);
        Ok(Some(MultiGuard::new(self.lock, std::mem::take(&mut self.held), waited)))
    }

    fn late(&self) -> Error {
        Error::new(ErrorKind::Timeout, "not all were tried in time").in_operation(self.ask.operation).on(self
            .lock
            .0
            .name
            .as_str())
    }
}

/// Whether a wait may succeed where a try has failed so.
fn may_pass(error: &Error) -> bool {
    error.is_retryable() || error.lost_reason().is_some_and(joins_anew)
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLock").field("members", &self.0.members).finish_non_exhaustive()
    }
}

/// Several locks held as one. Released by [`release`](Hold::release), or in the background when it
/// is dropped: all of them.
///
/// It is lost when one of them is lost; [`lost`](Hold::lost) then names the key. The others stay
/// held until it is released or dropped.
#[must_use = "a guard that is dropped at once releases all at once"]
pub struct MultiGuard {
    lock: MultiLock,
    // Both in the order in which the members were given.
    held: Vec<Held>,
    tenures: Box<[Arc<Tenure>]>,
    waited: Duration,
}

impl MultiGuard {
    /// `held` is in canonical order.
    fn new(lock: &MultiLock, held: Vec<Held>, waited: Duration) -> Self {
        let mut held: Vec<_> = lock.0.order.iter().copied().zip(held).collect();
        held.sort_unstable_by_key(|(place, _)| *place);
        let held: Vec<_> = held.into_iter().map(|(_, held)| held).collect();
        let tenures = held.iter().map(|held| Arc::clone(held.tenure())).collect();
        Self { lock: lock.clone(), held, tenures, waited }
    }

    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The tokens of all members, in the order in which these were given. Those of mutexes and
    /// writers fence, each its own resource; those of readers and permits identify.
    pub fn tokens(&self) -> Vec<Token> {
        self.held.iter().map(|held| held.token()).collect()
    }

    /// The addresses of all members, in the order of [`tokens`](Self::tokens).
    pub fn addresses(&self) -> Vec<&Address> {
        self.lock.members().iter().map(Member::address).collect()
    }
}

own_methods!(MultiGuard);

#[async_trait]
impl Hold for MultiGuard {
    fn tenures(&self) -> &[Arc<Tenure>] {
        &self.tenures
    }

    /// The keys of all members, joined by ` + `.
    fn key(&self) -> &str {
        &self.lock.0.name
    }

    /// Gives all of them back at once, and waits until their servers have confirmed it. `AlreadyLost`
    /// if one of them was lost before.
    ///
    /// # Errors
    /// `Unknown` when one was not confirmed; the error names its key.
    ///
    /// # Cancel safety
    /// A dropped release goes on in the background.
    async fn release(&self) -> Result<Release> {
        let answers = join_all(self.held.iter().map(Held::release)).await;
        let mut whole = Ok(Release::Released);
        for answer in answers {
            whole = match (answer, whole) {
                // A loss outweighs what is not known.
                (Ok(lost @ Release::AlreadyLost(_)), _) | (_, Ok(lost @ Release::AlreadyLost(_))) => Ok(lost),
                (Err(error), Ok(_)) => Err(error),
                (_, whole) => whole,
            };
        }
        whole
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard").field("held", &self.held).finish_non_exhaustive()
    }
}
