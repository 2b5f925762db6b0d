use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::acquire::{Acquire, Acquiring, Take};
use super::ask::Ask;
use super::cell_handle::CellHandle;
use super::guards::QuorumGuard;
use super::hold::Hold;
use super::mutex::Mutex;
use super::quorum_gathering::Acquisition;
use super::quorum_guard::QuorumHold;
use super::quorum_members::QuorumMembers;
use super::server_count::{has_marker, vouch};
use crate::address::Kind;
use crate::contracts::MAX_CELL_BYTES;
use crate::decide::Claim;
use crate::decide::gather::canonical_order;
use crate::decide::trial::{Marker, Terms};
use crate::error::{Error, Result};

/// The key of a server's marker, one for each namespace.
const MARKER: &str = "members";

/// A mutex on a majority of independent coordinators, of one kind or mixed (Redlock). It is held while more
/// than half of its members are held, so fewer than half of the servers may fail.
///
/// The members are mutexes with the same key, each on another coordinator with a [name](crate::Config::name).
/// All clients must give the same members and the same `longest_ttl`: at least the TTL of every client.
///
/// *No fence.* The guard is not [`Fenced`](crate::Fenced): each server gives its own numbers, and neither the
/// largest number nor the sum always rises from one majority to the next. If a second holder would do harm,
/// use a [`Mutex`] on ZooKeeper or etcd instead.
///
/// *The debate.* M. Kleppmann (*How to do distributed locking*, 2016): a lock for correctness needs a fence
/// that the resource checks; Redlock has none, and depends on bounded delays and on clocks. S. Sanfilippo
/// (*Is Redlock safe?*, 2016): clients check the elapsed time on monotonic clocks. Both agree that a pause
/// *after* the check affects every lease lock.
///
/// *Protocol* (`docs/protocol/quorum.md`). An acquisition tries all members at the same time, and succeeds
/// when a majority is held. Otherwise it gives all members back and waits for one after the other, in the
/// order of the coordinators' names. While the lock is held, the client tries missing members again every
/// third of `longest_ttl`.
///
/// A server that may have forgotten holds counts again only after `longest_ttl`: on Redis after any restart,
/// on ZooKeeper and etcd after a loss of its data. A marker in the namespace detects this: see
/// [`initialize`](Self::initialize).
///
/// *Why it is safe.* Any two majorities share a member. The hold is valid while a majority of the members'
/// deadlines is in the future ([`remaining`](crate::Hold::remaining)).
///
/// *Two holders.* If an operator removes the holder's node on a minority of the servers, or these lose it by
/// `FLUSHALL` or an eviction, two clients can hold for at most a third of the TTL.
///
/// *When a member is lost*, the hold remains while a majority is held. Otherwise it is lost, finally:
/// [`lost`](crate::Hold::lost) becomes ready, and the remaining members are given back.
///
/// *Not fair.* An acquisition that tries all members at the right moment may overtake a waiter. Simultaneous
/// tries may all be refused.
///
/// *A lock of one member* is that member's mutex. It has no marker: if its server forgets a hold, another
/// client is admitted at once.
///
/// *Source.* Redlock: *Distributed Locks with Redis* (redis.io). Majorities: D. K. Gifford, *Weighted Voting
/// for Replicated Data* (1979). Redisson's `RedissonRedLock` is deprecated.
///
/// ```
/// # use std::time::Duration;
/// # use latchwork_core::{connect, recipes::QuorumLock, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// let mut members = Vec::new();
/// for name in ["east", "north", "west"] {
///     let config = Config::from_url(&format!("memory://{name}?name={name}&ttl=10s"))?;
///     let coordinator = connect(&[memory::connector()], &config).await?;
///     members.push(coordinator);
/// }
/// let lock = QuorumLock::new("invoices", members, Duration::from_secs(10))?;
/// lock.initialize().await?; // once, when the servers are new
/// let hold = lock.acquire().await?;
/// println!("held for {:?} more, on {} servers", hold.remaining(), hold.sequences().iter().flatten().count());
/// hold.release().await?;
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct QuorumLock(Arc<QuorumMembers>);

impl QuorumLock {
    pub(crate) fn over(
        members: Vec<Mutex>,
        longest_ttl: Duration,
        guarded: bool,
        apart: bool,
    ) -> Result<Self> {
        let Some(first) = members.first() else {
            return Err(Error::invalid("members", "the list of coordinators is empty"));
        };
        let (key, several) = (first.key(), members.len() > 1);
        let invalid = |name, why: String| Err(Error::invalid(name, why).on(key));
        if several && members.iter().any(|member| member.handle.moving.is_some()) {
            // The marker of one side does not show whether the other side has forgotten holds.
            let why =
                "a member of a quorum lock cannot take part in a move: replace the server by another one";
            return Err(Error::unsupported("quorum_lock", why).on(key));
        }
        let names: Vec<_> = members.iter().map(|member| member.handle.client().name.as_deref()).collect();
        if several && names.contains(&None) {
            return invalid(
                "name",
                "a coordinator has no name: give each coordinator a different option `name`, the same in all \
                 processes (the lock waits for its members in the order of the names)"
                    .to_owned(),
            );
        }
        let names: Vec<_> = names.into_iter().map(Option::unwrap_or_default).collect();
        let order = canonical_order(&names).map_err(|(_, twice)| {
            Error::invalid("name", format!("two coordinators have the name {:?}", names[twice])).on(key)
        })?;
        let longest = members.iter().map(|member| member.handle.client().lease().ttl()).max();
        if longest > Some(longest_ttl) {
            let longest = longest.unwrap_or_default();
            let why = format!(
                "is {longest_ttl:?}, but a coordinator has a TTL of {longest:?}: raise longest_ttl on all clients"
            );
            return invalid("longest_ttl", why);
        }
        let marker = |member: &Mutex| {
            let cell = member.address().beside(Kind::Quorum, MARKER).expect("a key of ours");
            CellHandle::new(member.handle.client(), cell)
        };
        let markers = members.iter().map(marker).collect();
        let terms = Terms::new(longest_ttl, order.iter().map(|place| names[*place]));
        if Marker::new(&terms, Some(&"x".repeat(255)), u64::MAX, false).to_string().len() > MAX_CELL_BYTES {
            return invalid("members", "the names of the coordinators are too long: shorten them".to_owned());
        }
        Ok(Self(Arc::new(QuorumMembers { members, order, markers, terms: Arc::new(terms), guarded, apart })))
    }

    /// Acquires a majority of the members, and waits while other clients hold them. After a restart of
    /// servers it waits until a majority counts, at most `longest_ttl`.
    ///
    /// # Errors
    /// No member remains held after an error.
    /// * `Unavailable`: no majority of the servers answered for `longest_ttl`.
    /// * `InvalidArgument` (`members`): two of the coordinators are one server, also under two names or in
    ///   two namespaces.
    /// * `Conflict`: other clients use another `longest_ttl` or other members.
    /// * The errors of [`Mutex::acquire`], if too many members fail for a majority.
    pub fn acquire(&self) -> Acquire<QuorumGuard> {
        Ask::new("acquire", Claim::Exclusive).of(self.0.clone())
    }

    /// Acquires the lock if a majority of the members is free; otherwise returns `None` without waiting, and
    /// holds no member.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), without `Timeout`. `Unavailable`: fewer than a majority of the servers
    /// answer, or count yet.
    pub fn try_acquire(&self) -> Acquire<Option<QuorumGuard>> {
        Ask::try_new("try_acquire", Claim::Exclusive).of(self.0.clone())
    }

    /// Declares that the servers are new: no client has held a quorum lock on them for the last
    /// `longest_ttl`.
    ///
    /// It counts for all quorum locks in the namespace. Without it, the very first acquisition waits for
    /// `longest_ttl`, because a new server looks like one that lost its data. If any of the servers has a
    /// marker, the call changes nothing, so a service can call it at each start.
    ///
    /// # Errors
    /// * `InvalidArgument` (`members`): two of the coordinators are one server.
    /// * If no server is known to have a marker, the error of the first server that failed: `OutcomeUnknown`,
    ///   `Misconfigured`, or an error of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// A dropped call may have written some markers. The other servers count after `longest_ttl`.
    pub async fn initialize(&self) -> Result<()> {
        self.0.check_apart().await.map_err(|error| error.in_operation("initialize"))?;
        let found = join_all(self.0.markers.iter().map(has_marker)).await;
        if found.iter().any(|found| matches!(found, Ok(true))) {
            return Ok(());
        }
        self.of_all("initialize", found.into_iter().map(|found| found.map(drop)).collect())?;
        let vouching = self.0.markers.iter().map(|marker| vouch(marker, &self.0.terms));
        self.of_all("initialize", join_all(vouching).await)
    }

    /// Deletes the markers, so that clients can use other members or another `longest_ttl`. The next
    /// acquisition waits for the new `longest_ttl`.
    ///
    /// First stop all clients, then wait for the old `longest_ttl`. Otherwise old and new clients can hold
    /// the lock at the same time.
    ///
    /// # Errors
    /// As [`initialize`](Self::initialize).
    ///
    /// # Cancel safety
    /// A dropped call may have deleted some markers. Call it again.
    pub async fn reset(&self) -> Result<()> {
        let deleting = self.0.markers.iter().map(async |marker| marker.delete().await.map(drop));
        self.of_all("reset", join_all(deleting).await)
    }

    /// Returns the members in the order in which they were given.
    pub fn members(&self) -> &[Mutex] {
        &self.0.members
    }

    /// Returns the key.
    pub fn key(&self) -> &str {
        self.0.key()
    }

    fn of_all(&self, operation: &'static str, answers: Vec<Result<()>>) -> Result<()> {
        let all: Result<()> = answers.into_iter().collect();
        all.map_err(|error| error.in_operation(operation).on(self.key()))
    }
}

impl Take for QuorumMembers {
    fn take(self: Arc<Self>, ask: Ask) -> Acquiring {
        Box::pin(async move {
            ask.check().map_err(|error| error.in_operation(ask.operation).on(QuorumMembers::key(&self)))?;
            let [only] = &self.members[..] else {
                return Acquisition::new(&self, ask).run().await;
            };
            let held = Arc::clone(&only.handle).take(ask).await?;
            Ok(held.map(|held| {
                let (claim, waited) = (held.claim(), held.waited());
                Hold::of_composite(QuorumHold::of_one(Arc::clone(&self), held), claim, waited)
            }))
        })
    }

    fn key(&self) -> &str {
        QuorumMembers::key(self)
    }
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuorumLock")
            .field("members", &self.0.members)
            .field("terms", &self.0.terms)
            .finish_non_exhaustive()
    }
}
