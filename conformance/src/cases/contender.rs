//! A task that contends by each recipe, with and without an owner, drops most acquisitions, and knows all other holders.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork_core::recipes::{Acquire, Acquired, Reentrant};
use latchwork_core::{Coordinator, ErrorKind, Hold, Owner, Result};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::adapter::Adapter;
use crate::exclusive::Lock;
use crate::testbed::Client;
use crate::wait::Wait;
use crate::waits::{after_polls, soon, within};

/// Two keys, so that most dropped acquisitions have been sent: the join of a client waits until its own departures from that queue are
/// complete.
const KEYS: [&str; 2] = ["a", "b"];
const PERMITS: u32 = 3;
/// The longest wait. A renewal at [`QUIET_TTL`](crate::bounds::QUIET_TTL) comes after a third of it and is a re-check on some servers,
/// so it can hide a forgotten waiter there; on memory it cannot.
pub(super) const BOUND: Duration = Duration::from_secs(12);
const GOOD: &str = "a good key";

/// Returns an exclusive handle of each contended queue.
pub(super) fn all_locks(client: &Client) -> Vec<Lock> {
    let coordinator = &client.coordinator;
    let of_key = |key| {
        let semaphore = coordinator.semaphore(key, PERMITS).expect(GOOD);
        [
            Adapter::Mutex.lock(coordinator, key, None).expect(GOOD),
            Adapter::Reentrant.lock(coordinator, &owned(key), None).expect(GOOD),
            Adapter::Writer.lock(coordinator, key, None).expect(GOOD),
            Lock::Permits { semaphore, weight: PERMITS, taken: None },
        ]
    };
    KEYS.into_iter().flat_map(of_key).collect()
}

/// Returns the key of a mutex for owners. It is separate, because several tasks of an owner may hold it.
fn owned(key: &str) -> String {
    format!("owned-{key}")
}

/// The kind of an acquisition.
#[derive(Clone, Copy, Debug)]
enum Acquisition {
    Mutex,
    Owned,
    Read,
    Write,
    Permits(u32),
}

/// The holders, as they know it themselves.
#[derive(Debug, Default)]
pub(super) struct Inside(Mutex<Vec<Occupant>>);

/// One hold, from its admission until before its release.
#[derive(Clone, Debug)]
struct Occupant {
    number: u64,
    place: usize,
    recipe: Acquisition,
    owner: Option<Owner>,
}

impl Occupant {
    /// Returns whether the two holds may overlap. Permits are also counted.
    fn bears(&self, other: &Self) -> bool {
        let one_owner = self.owner.is_some() && self.owner == other.owner;
        match (self.recipe, other.recipe) {
            _ if self.place != other.place => true,
            (Acquisition::Mutex, Acquisition::Mutex) => false,
            (Acquisition::Owned, Acquisition::Owned) => one_owner,
            (Acquisition::Write, Acquisition::Write | Acquisition::Read)
            | (Acquisition::Read, Acquisition::Write) => one_owner,
            _ => true,
        }
    }

    fn permits(&self, place: usize) -> u32 {
        match self.recipe {
            Acquisition::Permits(weight) if self.place == place => weight,
            _ => 0,
        }
    }
}

impl Inside {
    fn enter(&self, entering: Occupant) {
        let mut inside = self.now();
        let beside: Vec<_> = inside.iter().filter(|occupant| !occupant.bears(&entering)).collect();
        assert!(beside.is_empty(), "{entering:?} was admitted while {beside:?} held");
        let place = entering.place;
        inside.push(entering);
        let permits: u32 = inside.iter().map(|occupant| occupant.permits(place)).sum();
        assert!(permits <= PERMITS, "{permits} permits are held, but the limit is {PERMITS}: {inside:?}");
    }

    fn now(&self) -> MutexGuard<'_, Vec<Occupant>> {
        // The one that found two inside says so; the others need not.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, number: u64) {
        self.now().retain(|occupant| occupant.number != number);
    }
}

/// A task that acquires this and that, and drops most of it before it is over.
pub(super) struct Contender {
    pub(super) client: Client,
    /// The owners for which it acts in some acquisitions.
    pub(super) owners: [Owner; 2],
    pub(super) chance: StdRng,
    pub(super) inside: Arc<Inside>,
    pub(super) dropped: Arc<AtomicUsize>,
}

impl Contender {
    pub(super) async fn contend(&mut self) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let occupant = Occupant {
            number: LAST.fetch_add(1, Ordering::Relaxed),
            place: self.chance.random_range(0..KEYS.len()),
            recipe: self.recipe(),
            owner: None,
        };
        let occupant = Occupant { owner: self.owner(occupant.recipe), ..occupant };
        let acquiring = acquire(self.client.coordinator.clone(), occupant.clone(), self.wait());
        let polls = self.chance.random_range(1..8);
        let time = Duration::from_micros(self.chance.random_range(0..4_000));
        let answer = match self.chance.random_range(0..10) {
            0 => Some(within(BOUND, "an acquisition that is not dropped", acquiring).await),
            1..6 => after_polls(polls, acquiring).await,
            _ => tokio::time::timeout(time, acquiring).await.ok(),
        };
        let hold = match answer {
            None => {
                self.dropped.fetch_add(1, Ordering::AcqRel);
                return;
            }
            Some(Ok(Some(hold))) => hold,
            Some(Ok(None)) => return,
            Some(Err(error)) => {
                // Another task of the owner reads.
                let deadlock = occupant.owner.is_some() && matches!(occupant.recipe, Acquisition::Write);
                // Errors of a short deadline: before the first answer, or while others hold.
                let expected = [ErrorKind::Timeout, ErrorKind::Unavailable, ErrorKind::Deadlock];
                assert!(
                    expected[..2 + usize::from(deadlock)].contains(&error.kind()),
                    "{occupant:?}: {error}"
                );
                return;
            }
        };
        // An owner may stay while another hold of it ends, and the next is let in.
        let stays = occupant.owner.is_some() && self.chance.random_ratio(1, 4);
        let number = occupant.number;
        self.inside.enter(occupant);
        match stays {
            true => tokio::time::sleep(Duration::from_millis(self.chance.random_range(1..10))).await,
            false => tokio::task::yield_now().await,
        }
        self.inside.leave(number);
        match self.chance.random_range(0..3) {
            0 => soon("the release", hold.release()).await.expect("released"),
            1 => after_polls(polls, hold.release()).await.unwrap_or(Ok(())).expect("released"),
            _ => drop(hold),
        }
    }

    fn recipe(&mut self) -> Acquisition {
        match self.chance.random_range(0..5) {
            0 => Acquisition::Mutex,
            1 => Acquisition::Read,
            2 => Acquisition::Write,
            3 => Acquisition::Permits(self.chance.random_range(1..=PERMITS)),
            _ => Acquisition::Owned,
        }
    }

    /// Returns the owner of an acquisition. Some readers and writers have one, and others do not.
    fn owner(&mut self, recipe: Acquisition) -> Option<Owner> {
        let acts = match recipe {
            Acquisition::Mutex | Acquisition::Permits(_) => false,
            Acquisition::Read | Acquisition::Write => self.chance.random(),
            Acquisition::Owned => true,
        };
        acts.then(|| self.owners[self.chance.random_range(0..2)].clone())
    }

    fn wait(&mut self) -> Wait {
        match self.chance.random_range(0..3) {
            0 => Wait::No,
            1 => Wait::AtMost(Duration::from_millis(self.chance.random_range(1..20))),
            _ => Wait::Forever,
        }
    }
}

async fn acquire(coordinator: Coordinator, occupant: Occupant, wait: Wait) -> Result<Option<Hold>> {
    let (key, owner) = (KEYS[occupant.place], occupant.owner.as_ref());
    Ok(match occupant.recipe {
        Acquisition::Mutex => {
            let mutex = coordinator.mutex(key)?;
            wait.take(mutex.try_acquire(), mutex.acquire()).await?.map(Into::into)
        }
        Acquisition::Owned => {
            let mutex = coordinator.mutex(owned(key))?;
            wait.take(by(owner, mutex.try_acquire()), by(owner, mutex.acquire())).await?.map(Into::into)
        }
        Acquisition::Read => {
            let lock = coordinator.rwlock(key)?;
            wait.take(by(owner, lock.try_read()), by(owner, lock.read())).await?.map(Into::into)
        }
        Acquisition::Write => {
            let lock = coordinator.rwlock(key)?;
            wait.take(by(owner, lock.try_write()), by(owner, lock.write())).await?.map(Into::into)
        }
        Acquisition::Permits(weight) => {
            let semaphore = coordinator.semaphore(key, PERMITS)?;
            wait.take(semaphore.try_acquire(weight), semaphore.acquire(weight)).await?.map(Into::into)
        }
    })
}

fn by<T: Acquired<Guard: Reentrant>>(owner: Option<&Owner>, request: Acquire<T>) -> Acquire<T> {
    match owner {
        Some(owner) => request.by(owner),
        None => request,
    }
}
