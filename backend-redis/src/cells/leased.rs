//! The ephemeral cells of a client (CELL-EPHEMERAL), which it renews with its nodes. A round that missed a
//! cell makes the lease late.
//!
//! The nonce of a write shows whether the cell still has its version, so this list may contain writes that
//! were not carried out or were overwritten: the next renewal finds that.

use std::collections::HashMap;

use latchwork_core::{Lease, Moment};
use parking_lot::Mutex;

use crate::layout::CellKey;

pub(crate) type Written = (CellKey, u64);

#[derive(Debug, Default)]
pub(crate) struct LeasedCells(Mutex<HashMap<CellKey, Vec<Write>>>);

#[derive(Debug)]
struct Write {
    nonce: u64,
    lease: Lease,
    // `None`: the outcome is unknown.
    number: Option<u64>,
    asked: bool,
    // When the outcome became known. An earlier renewal says nothing about the write.
    settled: Moment,
    // The send time of the last renewal that found the cell.
    renewed: Option<Moment>,
    missed: bool,
}

impl Write {
    /// A request under way may open the next lease.
    fn is_lost(&self) -> bool {
        !self.asked && self.lease.lost().is_some()
    }
}

impl LeasedCells {
    /// Called before the send. Until the outcome is known, the cell may have this version.
    pub(crate) fn begin(&self, cell: CellKey, nonce: u64, lease: Lease) -> Asked<'_> {
        let settled = Moment::PAST;
        let write = Write { nonce, lease, number: None, asked: true, settled, renewed: None, missed: false };
        self.0.lock().entry(cell.clone()).or_default().push(write);
        Asked { cells: self, cell, nonce }
    }

    pub(crate) fn overwritten(&self, cell: &CellKey, number: u64) {
        self.retain(cell, |write| write.number.is_none_or(|earlier| earlier >= number));
    }

    /// The cells not renewed since then. Writes whose renewal got no answer come last: in slots that are
    /// being moved, many of them would delay the others.
    pub(crate) fn to_renew(&self, since: Moment) -> Vec<Written> {
        let due = |write: &Write| !write.is_lost() && write.renewed.is_none_or(|renewed| renewed < since);
        let mut cells = self.all(|write| due(write) && !write.missed);
        cells.extend(self.all(|write| due(write) && write.missed));
        cells
    }

    pub(crate) fn renewed<'a>(&self, found: impl IntoIterator<Item = &'a Written>, sent: Moment) {
        for (cell, nonce) in found {
            self.change(cell, *nonce, |write| (write.renewed, write.missed) = (Some(sent), false));
        }
    }

    pub(crate) fn missed(&self, asked: &[Written]) {
        for (cell, nonce) in asked {
            self.change(cell, *nonce, |write| write.missed = true);
        }
    }

    pub(crate) fn lost(&self) -> Vec<Written> {
        self.all(Write::is_lost)
    }

    pub(crate) fn every(&self) -> Vec<Written> {
        self.all(|_| true)
    }

    /// Forgets versions that a request sent at `sent` has not found, except of writes that were under way
    /// then.
    pub(crate) fn forget<'a>(&self, gone: impl IntoIterator<Item = &'a Written>, sent: Moment) {
        for (cell, nonce) in gone {
            self.retain(cell, |write| write.nonce != *nonce || write.asked || write.settled > sent);
        }
    }

    fn all(&self, which: impl Fn(&Write) -> bool) -> Vec<Written> {
        let cells = self.0.lock();
        let writes = cells.iter().flat_map(|(cell, writes)| writes.iter().map(move |write| (cell, write)));
        writes.filter(|(_, write)| which(write)).map(|(cell, write)| (cell.clone(), write.nonce)).collect()
    }

    fn retain(&self, cell: &CellKey, keep: impl FnMut(&mut Write) -> bool) {
        let mut cells = self.0.lock();
        if let Some(writes) = cells.get_mut(cell) {
            writes.retain_mut(keep);
            if writes.is_empty() {
                cells.remove(cell);
            }
        }
    }

    fn change(&self, cell: &CellKey, nonce: u64, change: impl FnOnce(&mut Write)) {
        let mut cells = self.0.lock();
        let writes = cells.get_mut(cell).into_iter().flatten();
        if let Some(write) = writes.into_iter().find(|write| write.nonce == nonce) {
            change(write);
        }
    }
}

/// If dropped, the outcome is unknown.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    cells: &'a LeasedCells,
    cell: CellKey,
    nonce: u64,
}

impl Asked<'_> {
    pub(crate) fn made(self, number: u64, lease: Lease) {
        self.cells.change(&self.cell, self.nonce, |write| {
            (write.number, write.lease) = (Some(number), lease);
        });
    }

    pub(crate) fn not_made(self) {
        self.cells.retain(&self.cell, |write| write.nonce != self.nonce);
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.cells.change(&self.cell, self.nonce, |write| {
            (write.asked, write.settled) = (false, write.lease.clock().now());
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchwork_core::backend::LeaseWriter;
    use latchwork_core::{Address, Clock, Kind};

    use super::*;

    fn nonces(written: Vec<Written>) -> Vec<u64> {
        written.into_iter().map(|(_, nonce)| nonce).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_renewed_until_it_is_found_gone_or_overwritten() {
        let (clock, ttl) = (Clock::tokio(), Duration::from_secs(10));
        let lease = LeaseWriter::new(clock.clone(), ttl, clock.now());
        let lease = lease.lease();
        let cells = LeasedCells::default();
        let cell = CellKey::of(&Address::new("n", Kind::Value, "k").unwrap()).unwrap();
        let begin = |nonce| cells.begin(cell.clone(), nonce, lease.clone());
        begin(1).made(10, lease.clone());
        drop(begin(2));
        let asked = begin(3);
        begin(4).not_made();
        cells.forget(&[(cell.clone(), 3)], clock.now());
        assert_eq!(
            nonces(cells.to_renew(clock.now())),
            [1, 2, 3],
            "a confirmed write, one of unknown outcome, one under way"
        );
        asked.made(12, lease.clone());
        cells.overwritten(&cell, 12);
        assert_eq!(nonces(cells.to_renew(clock.now())), [2, 3]);
        cells.forget(&[(cell.clone(), 2)], clock.now());
        assert_eq!(nonces(cells.to_renew(clock.now())), [3]);
        let other = CellKey::of(&Address::new("n", Kind::Value, "other").unwrap()).unwrap();
        cells.begin(other.clone(), 6, lease.clone()).made(13, lease.clone());
        for missed in [3, 6] {
            cells.missed(&[(cell.clone(), missed), (other.clone(), missed)]);
            assert_eq!(
                nonces(cells.to_renew(clock.now())),
                [9 - missed, missed],
                "the missed cell comes last"
            );
            cells.renewed(&[(cell.clone(), 3), (other.clone(), 6)], Moment::PAST);
        }
        cells.forget(&[(other, 6)], clock.now());
        let sent = clock.now();
        cells.renewed(&[(cell.clone(), 3)], sent);
        assert!(cells.to_renew(sent).is_empty(), "a repeated round leaves the cell out");
        assert_eq!(nonces(cells.to_renew(sent + Duration::from_millis(1))), [3], "the next round renews it");
        cells.overwritten(&cell, 11);
        assert_eq!(nonces(cells.every()), [3]);
        let asked = begin(5);
        tokio::time::advance(ttl).await;
        assert_eq!((nonces(cells.to_renew(clock.now())), nonces(cells.lost())), (vec![5], vec![3]));
        drop(asked);
        assert_eq!((nonces(cells.to_renew(clock.now())), nonces(cells.lost())), (vec![], vec![3, 5]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_was_sent_before_a_write_was_made_forgets_it_not() {
        let clock = Clock::tokio();
        let lease = LeaseWriter::new(clock.clone(), Duration::from_secs(10), clock.now());
        let lease = lease.lease();
        let cells = LeasedCells::default();
        let cell = CellKey::of(&Address::new("n", Kind::Value, "k").unwrap()).unwrap();
        let asked = cells.begin(cell.clone(), 1, lease.clone());
        let sent = clock.now();
        tokio::time::advance(Duration::from_millis(1)).await;
        asked.made(10, lease.clone());
        cells.forget(&[(cell.clone(), 1)], sent);
        assert_eq!(nonces(cells.to_renew(clock.now())), [1]);
        cells.forget(&[(cell, 1)], clock.now());
        assert!(cells.every().is_empty(), "the cell has no lease");
    }
}
