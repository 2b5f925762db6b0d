//! The contended keys of a move.

use crate::child::SoakKind;

/// Six mutexes, two semaphores and a read/write lock. Each process has a task for each of them.
pub(super) const KEYS: [(&str, SoakKind); 9] = [
    ("mutex-0", SoakKind::Exclusive),
    ("mutex-1", SoakKind::Exclusive),
    ("mutex-2", SoakKind::Exclusive),
    ("mutex-3", SoakKind::Exclusive),
    ("mutex-4", SoakKind::Exclusive),
    ("mutex-5", SoakKind::Exclusive),
    ("permits-0", SoakKind::Permits { limit: 3 }),
    ("permits-1", SoakKind::Permits { limit: 5 }),
    ("rwlock", SoakKind::ReadWrite),
];

/// The number, in a grant, of a mutex that only one process uses, which is not in [`KEYS`].
pub(super) const OWN: usize = KEYS.len();

/// Returns the mutex that only this process uses, to measure uncontended acquisitions.
pub(super) fn own(process: u32) -> String {
    format!("own-{process}")
}

/// Returns the limit of a semaphore; any value for other kinds.
pub(super) fn limit(kind: SoakKind) -> u32 {
    match kind {
        SoakKind::Permits { limit } => limit,
        SoakKind::Exclusive | SoakKind::ReadWrite => u32::MAX,
    }
}
