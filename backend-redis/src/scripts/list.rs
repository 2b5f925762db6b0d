use std::time::Duration;

use latchwork_core::backend::{MAX_LABEL_BYTES, QueueEntry};
use latchwork_core::{Claim, Result};

use super::call::Call;
use super::reply::{Fields, Flags, Reply, malformed, unsigned};
use super::script::{LIST, LIST_UNCHANGED, POPULATED};
use crate::layout::QueueKeys;

pub(crate) fn list(queue: &QueueKeys, after: u64, most: usize) -> Call {
    Call::of_queue(&LIST, queue).arg(after).arg(most)
}

/// As [`list`], for a server that refuses writes.
pub(crate) fn list_unchanged(queue: &QueueKeys, after: u64, most: usize) -> Call {
    Call::of_queue(&LIST_UNCHANGED, queue).arg(after).arg(most)
}

/// Whether each queue has a node. [`bools`](super::bools) reads the answer.
pub(crate) fn populated<'a>(queues: impl Iterator<Item = &'a QueueKeys>) -> Call {
    Call::timed(&POPULATED, queues.flat_map(QueueKeys::nodes))
}

/// With `leases`, each entry has the remaining time of its lease.
pub(crate) fn listed(reply: Reply, leases: bool) -> Result<(Flags, Vec<QueueEntry>)> {
    let mut reply = Fields::of(reply)?;
    let (flags, now) = (Flags(reply.int()?), reply.int()?);
    let entries = reply.0.map(|entry| {
        let mut entry = Fields::of(entry)?;
        let (sequence, claim, weight) = (unsigned(entry.int()?)?, entry.text()?, entry.int()?);
        let admitted = entry.int()? == 1;
        let age = u64::try_from(now.saturating_sub(entry.int()?)).ok().map(Duration::from_micros);
        let left = u64::try_from(entry.int()?).ok().map(Duration::from_micros).filter(|_| leases);
        let claim = match claim.as_str() {
            "x" => Claim::Exclusive,
            "s" => Claim::Shared,
            "p" => Claim::Permits(u32::try_from(weight).map_err(|_| malformed())?),
            _ => return Err(malformed()),
        };
        let (label, mut data) = (QueueEntry::label_of(&entry.bytes()?), entry.bytes()?);
        data.truncate(MAX_LABEL_BYTES);
        Ok(QueueEntry { sequence, claim, admitted, label, age, lease_left: left, data: data.into() })
    });
    Ok((flags, entries.collect::<Result<_>>()?))
}
