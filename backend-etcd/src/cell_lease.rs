//! The leases of idle cells (CELL-IDLE).
//!
//! The id of such a lease is made of the cell's key and the duration of the lease, so every client that reads
//! the key knows which lease to renew. The lease lasts a quarter longer than the cell's time to idle. A
//! client renews it before it answers a use, unless it did so within the last fifth of that duration. So at
//! least the time to idle remains.
//!
//! A lease without a cell is not renewed, and expires. It is never revoked, because another client may be
//! putting the cell on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork_core::backend::{Backoff, Pauses};
use latchwork_core::{Clock, Error, ErrorKind, Moment, Result, TimeToIdle};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::driver::{Driver, Txn, TxnResult};
use crate::error::{Answer, Failure, as_harmless, late};

/// The bits of an id for the lease's seconds: up to two years.
const TIME_BITS: u32 = 26;
/// Beyond this number of remembered leases, expired ones are forgotten.
const ROOM: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CellLease(i64);

impl CellLease {
    pub(crate) fn of(key: &str, time: TimeToIdle) -> Self {
        let runs = time.get() + time.unreported();
        let seconds = runs.as_secs() + u64::from(runs.subsec_nanos() > 0);
        Self((hash(key) << TIME_BITS | seconds).cast_signed())
    }

    /// The lease of the cell with this key, if the id has that form. An id that the server chose looks so
    /// with a probability of 1 in 2^37.
    pub(crate) fn found(key: &str, lease: i64) -> Option<Self> {
        let is_one = lease > 0
            && lease.cast_unsigned() >> TIME_BITS == hash(key)
            && Self(lease).runs() > Duration::ZERO;
        is_one.then_some(Self(lease))
    }

    /// The time to idle of a cell on this lease, in whole seconds, rounded up. `None`: no time to idle gives
    /// this number.
    pub(crate) fn time(self) -> Option<TimeToIdle> {
        let time = self.runs() * 4 / 5;
        TimeToIdle::new(time.clamp(TimeToIdle::SHORTEST, TimeToIdle::LONGEST)).ok()
    }

    fn runs(self) -> Duration {
        Duration::from_secs(self.0.cast_unsigned() & ((1 << TIME_BITS) - 1))
    }
}

/// FNV-1a, the upper 37 bits: the same for all clients.
fn hash(key: &str) -> u64 {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash >> (TIME_BITS + 1)
}

/// When this client last renewed leases of cells.
#[derive(Debug)]
pub(crate) struct CellLeases {
    driver: Driver,
    clock: Clock,
    renewed: Mutex<HashMap<CellLease, Moment>>,
}

impl CellLeases {
    pub(crate) fn new(driver: Driver, clock: Clock) -> Self {
        Self { driver, clock, renewed: Mutex::default() }
    }

    /// Makes a use count that the server has carried out. Returns `false` if the lease, and so the cell, has
    /// ended.
    ///
    /// # Errors
    /// `Unavailable`: the use may not count.
    pub(crate) async fn used(&self, lease: CellLease) -> Result<bool> {
        if self.is_renewed(lease) {
            return Ok(true);
        }
        let renewed = timeout(self.driver.request_timeout, self.renew(lease)).await;
        match renewed.unwrap_or_else(|_| Err(late())).map_err(as_harmless) {
            Ok(()) => Ok(true),
            Err(Failure::LeaseGone) => {
                self.forget(lease);
                Ok(false)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    async fn renew(&self, lease: CellLease) -> Answer<()> {
        let mut backoff = Backoff::new(Pauses::IN_REQUEST);
        loop {
            let mut stream = self.driver.keep_alive(lease.0).await?;
            let sent = self.clock.now();
            stream.send().await?;
            match stream.answer().await? {
                Some(renewal) if self.driver.confirms(renewal).await? => {
                    self.note(lease, sent);
                    return Ok(());
                }
                _ => backoff.wait(&self.clock).await,
            }
        }
    }

    /// Puts a cell on its lease by this transaction, which counts as a use. The caller limits the time. After
    /// a timeout, `sent` says whether the cell may have been written.
    ///
    /// # Errors
    /// `Unavailable` if the cell was not written, `OutcomeUnknown` if it may have been written.
    pub(crate) async fn put(
        &self,
        lease: CellLease,
        txn: impl Fn(i64) -> Txn,
        sent: &AtomicBool,
    ) -> Result<TxnResult> {
        let mut backoff = Backoff::new(Pauses::IN_REQUEST);
        loop {
            self.open(lease).await?;
            sent.store(true, Ordering::Release);
            let result = match self.driver.txn(txn(lease.0)).await {
                // The lease has expired, and the server has written nothing.
                Err(Failure::LeaseGone) => {
                    sent.store(false, Ordering::Release);
                    self.forget(lease);
                    backoff.wait(&self.clock).await;
                    continue;
                }
                answer => answer.map_err(Failure::of_write)?,
            };
            if !result.succeeded {
                return Ok(result);
            }
            let made = |why: &'static str| Error::new(ErrorKind::OutcomeUnknown, why);
            return match self.used(lease).await {
                Ok(true) => Ok(result),
                Ok(false) => {
                    Err(made("the value was written, but it expired before the client could renew its lease"))
                }
                Err(error) => {
                    let why = "the value was written, but the client could not renew its lease: the server may \
                               delete the value before its time to idle is over";
                    Err(made(why).because(error))
                }
            };
        }
    }

    async fn open(&self, lease: CellLease) -> Result<()> {
        while !self.is_renewed(lease) {
            let sent = self.clock.now();
            // If the answer is lost, the lease expires.
            let granted = self.driver.grant_as(lease.0, lease.runs()).await;
            if granted.map_err(|failure| Error::from(as_harmless(failure)))? {
                self.note(lease, sent);
            } else {
                // If the lease has just expired, the next round grants it again.
                self.used(lease).await?;
            }
        }
        Ok(())
    }

    /// Whether at least the time to idle remains.
    fn is_renewed(&self, lease: CellLease) -> bool {
        let sent = self.renewed.lock().get(&lease).copied();
        sent.is_some_and(|sent| self.clock.now() < sent + lease.runs() / 5)
    }

    fn note(&self, lease: CellLease, sent: Moment) {
        let mut renewed = self.renewed.lock();
        if renewed.len() >= ROOM {
            let now = self.clock.now();
            renewed.retain(|lease, sent| now < *sent + lease.runs() / 5);
        }
        let last = renewed.entry(lease).or_insert(sent);
        *last = sent.max(*last);
    }

    fn forget(&self, lease: CellLease) {
        self.renewed.lock().remove(&lease);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_shows_its_cell_and_its_time() {
        for (millis, seconds) in [(1_000, 2), (2_000, 3), (4_000, 5), (4_001, 6), (86_400_000, 108_000)] {
            let time = TimeToIdle::new(Duration::from_millis(millis)).unwrap();
            let lease = CellLease::of("n/value/a", time);
            assert_eq!(lease.runs(), Duration::from_secs(seconds), "{millis}");
            assert!(lease.runs() - lease.runs() / 5 >= time.get(), "{millis}");
            assert_eq!(CellLease::found("n/value/a", lease.0), Some(lease));
            assert_eq!(CellLease::found("n/value/b", lease.0), None);
        }
        let longest = CellLease::of("n/value/a", TimeToIdle::new(TimeToIdle::LONGEST).unwrap());
        assert_eq!(CellLease::found("n/value/a", longest.0), Some(longest));
        assert!(longest.0 > 0 && longest.runs() < TimeToIdle::LONGEST * 2);
        // The server's style of numbers, and no lease.
        for other in [0, -1, 0x694d_9be1_0a6d_6c0a, i64::MAX, longest.0 & !((1 << TIME_BITS) - 1)] {
            assert_eq!(CellLease::found("n/value/a", other), None, "{other:x}");
        }
    }
}
