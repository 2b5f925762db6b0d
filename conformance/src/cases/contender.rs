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

/// Two, because a join waits for the client's own departures from its queue.
const KEYS: [&str; 2] = ["a", "b"];
const PERMITS: u32 = 3;
/// Before a renewal at [`QUIET_TTL`](crate::bounds::QUIET_TTL), which may be a re-check that hides a
/// forgotten waiter.
pub(super) const BOUND: Duration = Duration::from_secs(12);
const GOOD: &str = "a good key";

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

fn owned(key: &str) -> String {
    format!("owned-{key}")
}

#[derive(Clone, Copy, Debug)]
enum Acquisition {
    Mutex,
    Owned,
    Read,
    Write,
    Permits(u32),
}

#[derive(Debug, Default)]
pub(super) struct Inside(Mutex<Vec<Occupant>>);

#[derive(Clone, Debug)]
struct Occupant {
    number: u64,
    place: usize,
    recipe: Acquisition,
    owner: Option<Owner>,
}

impl Occupant {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, number: u64) {
        self.now().retain(|occupant| occupant.number != number);
    }
}

pub(super) struct Contender {
    pub(super) client: Client,
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
                let deadlock = occupant.owner.is_some() && matches!(occupant.recipe, Acquisition::Write);
                let expected = [ErrorKind::Timeout, ErrorKind::Unavailable, ErrorKind::Deadlock];
                assert!(
                    expected[..2 + usize::from(deadlock)].contains(&error.kind()),
                    "{occupant:?}: {error}"
                );
                return;
            }
        };
        // The owner then stays inside while the next is admitted.
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
