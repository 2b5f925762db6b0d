//! What contends while it moves.

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

/// In a grant, what is not among [`KEYS`]: a mutex that its process has for itself.
pub(super) const OWN: usize = KEYS.len();

/// The mutex that a process has for itself: what an acquisition takes that waits for nobody.
pub(super) fn own(process: u32) -> String {
    format!("own-{process}")
}

/// The limit of a semaphore; of other kinds, any.
pub(super) fn limit(kind: SoakKind) -> u32 {
    match kind {
        SoakKind::Permits { limit } => limit,
        SoakKind::Exclusive | SoakKind::ReadWrite => u32::MAX,
    }
}
