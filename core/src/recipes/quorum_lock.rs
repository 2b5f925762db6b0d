//! One lock on a majority of independent coordinators.

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

/// The key of a server's marker. There is one in each namespace.
const MARKER: &str = "members";

/// One lock on a majority of independent coordinators, of one kind or mixed (Redlock): a mutex that
/// stands while more than half of its members are held, so that fewer than half of the servers may
/// fail.
///
/// The members are the mutexes of one key, each of another coordinator with a
/// [name](crate::Config::name). All clients give the same members and the same `longest_ttl`, which
/// is at least the TTL of each client's leases.
///
/// *Protocol.* An acquisition tries all members at once, and has acquired when a majority is held:
/// it takes as long as the slowest server of the fastest majority. What is answered later joins the
/// hold. If there is no majority, everything is given back, and the acquisition waits for one
/// member after the other in canonical order, by the coordinator's name. It leaves out a server that
/// does not answer. If it waits for `longest_ttl` at one of them, it tries all others once, and
/// goes on waiting. Each member is renewed by its own lease. While the lock is held, members that
/// are missing are tried again every third of `longest_ttl`.
///
/// A server that comes back may have forgotten what it has confirmed. On Redis every restart may
/// lose something; ZooKeeper and etcd have on disk what they confirm, so there it is a server whose
/// data are gone. Such a server does not count for `longest_ttl`. It has a marker for that, one in
/// each namespace: see `docs/protocol/quorum.md` and [`initialize`](Self::initialize).
///
/// *Why it is safe.* Each member excludes as a mutex, and any two majorities share a member. The
/// hold is valid as long as a majority of the members' own deadlines is ahead
/// ([`remaining`](crate::Hold::remaining)): each counts from the send of the request that proved it,
/// on a clock that only rises, less a margin for drift. That holds for the acquisition and for each
/// renewal. A server that may have forgotten a hold counts only when that hold has ended. No two
/// acquisitions wait for each other: one that waits holds only members before the one it waits for.
///
/// *No fence.* The guard is not [`Fenced`](crate::Fenced). Independent servers count independently.
/// Of three servers that are at 10, 50 and 7, a holder of the first two has 11 and 51, and the next
/// one, on the first and the third, 12 and 8: neither the largest nor the sum rises. That is the heart
/// of a debate: M. Kleppmann (*How to do distributed locking*, 2016) holds that a lock for correctness needs a fence which the resource
/// checks, since a holder may be paused after its last look at the clock, or its write delayed, and
/// that Redlock depends on bounded delays and clocks without offering one. S. Sanfilippo (*Is
/// Redlock safe?*, 2016) answers that elapsed time is checked again after the last answer, that
/// monotonic clocks and a delay of restarted servers by the TTL meet the other objections, and that
/// a resource which can check tokens could compare a random one instead. Both agree that a pause
/// *after* the check hits every lease lock. So: use a quorum to go on without one server, and where
/// a second holder would do harm use one mutex on a replicated coordinator (ZooKeeper, etcd), whose
/// token fences.
///
/// *When a member is lost*, the hold goes on, as long as a majority is held. With fewer the hold is
/// lost: [`lost`](crate::Hold::lost) becomes ready, and what was left of it is given back. Loss is
/// final.
///
/// *Not fair.* Each member's queue is, but an acquisition that tries all members at the right
/// instant may overtake one that waits. Simultaneous tries may refuse each other.
///
/// *One member* is that mutex, with its promises and without a marker: if its server forgets a
/// hold, another is let in at once.
///
/// *Source.* Redlock: *Distributed Locks with Redis* (redis.io). D. K. Gifford, *Weighted Voting for
/// Replicated Data* (1979), for majorities. Redisson's `RedissonRedLock` is deprecated.
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
/// println!("mine for {:?} more, on {} servers", hold.remaining(), hold.sequences().iter().flatten().count());
/// hold.release().await?;
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct QuorumLock(Arc<QuorumMembers>);

impl QuorumLock {
    pub(crate) fn over(members: Vec<Mutex>, longest_ttl: Duration, guarded: bool) -> Result<Self> {
        let Some(first) = members.first() else {
            return Err(Error::invalid("members", "there is no coordinator"));
        };
        let (key, several) = (first.key(), members.len() > 1);
        let invalid = |name, why: String| Err(Error::invalid(name, why).on(key));
        if several && members.iter().any(|member| member.handle.moving.is_some()) {
            // The marker of one side says nothing of what the other one has forgotten.
            let why =
                "a server of a quorum does not move between coordinators: it is replaced by another one";
            return Err(Error::unsupported("quorum_lock", why).on(key));
        }
        let names: Vec<_> = members.iter().map(|member| member.handle.client().name.as_deref()).collect();
        if several && names.contains(&None) {
            return invalid(
                "name",
                "a coordinator has no name: the order of the members needs one".to_owned(),
            );
        }
        let names: Vec<_> = names.into_iter().map(Option::unwrap_or_default).collect();
        let order = canonical_order(&names).map_err(|(_, twice)| {
            Error::invalid("name", format!("two coordinators have the name {:?}", names[twice])).on(key)
        })?;
        let longest = members.iter().map(|member| member.handle.client().lease().ttl()).max();
        if longest > Some(longest_ttl) {
            return invalid("longest_ttl", format!("is {longest_ttl:?}, and a lease has {longest:?}"));
        }
        let marker = |member: &Mutex| {
            let cell = member.address().beside(Kind::Quorum, MARKER).expect("a key of ours");
            CellHandle::new(member.handle.client(), cell)
        };
        let markers = members.iter().map(marker).collect();
        let terms = Terms::new(longest_ttl, order.iter().map(|place| names[*place]));
        if Marker::new(&terms, Some(&"x".repeat(255)), u64::MAX, false).to_string().len() > MAX_CELL_BYTES {
            return invalid("members", "their names are too long".to_owned());
        }
        Ok(Self(Arc::new(QuorumMembers { members, order, markers, terms: Arc::new(terms), guarded })))
    }

    /// Waits until a majority is held, as long as others hold. Where a majority of the servers
    /// can be reached but does not count yet, since they have come back a short time ago, it
    /// waits for that: `longest_ttl` at most.
    ///
    /// # Errors
    /// `Unavailable` when no majority of the servers could be reached for `longest_ttl`; the
    /// cause is the first server's that failed. `Conflict` when other clients have another
    /// `longest_ttl` or other members. As an acquisition of a [mutex](Mutex::acquire), if too
    /// many members fail so that the others could make a majority. Nothing stays held.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped acquire leaves nothing in any queue, and gives its members back.
    pub fn acquire(&self) -> Acquire<QuorumGuard> {
        Ask::new("acquire", Claim::Exclusive).of(self.0.clone())
    }

    /// Acquires if a majority is free; never waits. `Ok(None)` if it is not, and nothing stays
    /// held.
    ///
    /// # Errors
    /// `Unavailable` when fewer than a majority have answered, or count yet; else as
    /// [`acquire`](Self::acquire). Nothing stays held.
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing in any queue.
    pub fn try_acquire(&self) -> Acquire<Option<QuorumGuard>> {
        Ask::try_new("try_acquire", Claim::Exclusive).of(self.0.clone())
    }

    /// Declares that the servers are new: nobody has held anything by this quorum for the last
    /// `longest_ttl`. Without that, the first acquisition ever waits for `longest_ttl`, since a new
    /// server looks like one that has lost its data. It counts for all quorums in this namespace on these
    /// servers, and is needed once.
    ///
    /// It changes nothing if any server has a marker: the quorum is not new then, and a server without one
    /// may have lost its data. So a service may call it at each start.
    ///
    /// # Errors
    /// That of the first server that failed, while no server is known to have a marker: `Unavailable`;
    /// `OutcomeUnknown`; `Misconfigured`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Some markers may be written. The servers without one count after `longest_ttl`.
    pub async fn initialize(&self) -> Result<()> {
        let found = join_all(self.0.markers.iter().map(has_marker)).await;
        if found.iter().any(|found| matches!(found, Ok(true))) {
            return Ok(());
        }
        self.of_all("initialize", found.into_iter().map(|found| found.map(drop)).collect())?;
        let vouching = self.0.markers.iter().map(|marker| vouch(marker, &self.0.terms));
        self.of_all("initialize", join_all(vouching).await)
    }

    /// Deletes the markers, so that other members or another `longest_ttl` can be given. The next
    /// acquisition then waits for the new `longest_ttl`. Call it when no client of the old terms is
    /// left and the old `longest_ttl` has passed since: nothing ties old clients to new terms.
    ///
    /// # Errors
    /// That of the first server that failed, as [`initialize`](Self::initialize).
    ///
    /// # Cancel safety
    /// Some markers may be deleted; it may be called again.
    pub async fn reset(&self) -> Result<()> {
        let deleting = self.0.markers.iter().map(async |marker| marker.delete().await.map(drop));
        self.of_all("reset", join_all(deleting).await)
    }

    /// The members, in the order in which they were given.
    pub fn members(&self) -> &[Mutex] {
        &self.0.members
    }

    /// The key, as it was given.
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
            let [only] = &self.members[..] else { return Acquisition::new(&self, ask).run().await };
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
