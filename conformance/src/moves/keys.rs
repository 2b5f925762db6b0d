use crate::child::SoakKind;

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

pub(super) const OWN: usize = KEYS.len();

/// For uncontended acquisitions.
pub(super) fn own(process: u32) -> String {
    format!("own-{process}")
}

pub(super) fn limit(kind: SoakKind) -> u32 {
    match kind {
        SoakKind::Permits { limit } => limit,
        SoakKind::Exclusive | SoakKind::ReadWrite => u32::MAX,
    }
}
