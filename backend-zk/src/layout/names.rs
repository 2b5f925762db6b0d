//! The names of nodes in a queue's directory. They are Curator's, so that both can share a queue.
//!
//! | kind and claim | name |
//! |---|---|
//! | mutex | `_c_<id>-lock-<N>` |
//! | writer, reader | `_c_<id>-__WRIT__<N>`, `_c_<id>-__READ__<N>` |
//! | permits | `_c_<id>-w<weight>-lease-<N>` |
//! | candidate of an election | `_c_<id>-latch-<N>` |
//!
//! `<N>` is the server's count of creations in that directory, and orders the queue from 0 to 2^31-1. A child
//! with another number is not a contender: another program created it, or the counter has overflowed. A
//! server can give the highest number twice, so [no join counts](is_used_up) with it or a later number.
//!
//! Rule and weight are in the name because a listing returns only names.

use latchwork_core::backend::NodeId;
use latchwork_core::{Claim, Kind};

/// `None`: the weight is in the name.
type Marker = (&'static str, Option<Claim>);

/// Curator's names come first, then kazoo's: kazoo counts this library's if it is configured for Curator's
/// (`extra_lock_patterns`).
const MUTEX: &[Marker] = &[("lock-", Some(Claim::Exclusive)), ("__lock__", Some(Claim::Exclusive))];
const RWLOCK: &[Marker] = &[
    ("__WRIT__", Some(Claim::Exclusive)),
    ("__READ__", Some(Claim::Shared)),
    ("__lock__", Some(Claim::Exclusive)),
    ("__rlock__", Some(Claim::Shared)),
];
/// `LeaderLatch` has this name.
const ELECTION: &[Marker] = &[("latch-", Some(Claim::Exclusive))];
const PERMITS: &[Marker] = &[("lease-", None)];

fn markers(kind: Kind) -> &'static [Marker] {
    match kind {
        Kind::Semaphore => PERMITS,
        Kind::Election => ELECTION,
        kind if kind.takes_shared() => RWLOCK,
        _ => MUTEX,
    }
}

fn id_prefix(id: NodeId) -> String {
    format!("_c_{}-", id.hyphenated())
}

pub(crate) fn has_id(children: &[String], id: NodeId) -> impl Iterator<Item = &String> {
    let prefix = id_prefix(id);
    children.iter().filter(move |name| name.starts_with(&prefix))
}

pub(crate) fn id_of(name: &str) -> Option<NodeId> {
    NodeId::parse(name.strip_prefix("_c_")?.get(..36)?)
}

/// The server appends the counter.
pub(crate) fn prefix(kind: Kind, id: NodeId, claim: Claim) -> String {
    let tail = match (kind, claim) {
        (_, Claim::Permits(weight)) => format!("w{weight}-lease-"),
        (Kind::RwLock, Claim::Exclusive) => "__WRIT__".to_owned(),
        (Kind::Election, Claim::Exclusive) => "latch-".to_owned(),
        (_, Claim::Shared) => "__READ__".to_owned(),
        (_, Claim::Exclusive) => "lock-".to_owned(),
    };
    id_prefix(id) + &tail
}

/// As in Curator, the reader keeps the writer's counter and place.
pub(crate) fn as_reader(writer: &str) -> Option<String> {
    let (id, counter) = writer.rsplit_once("__WRIT__")?;
    Some(format!("{id}__READ__{counter}"))
}

/// `None`: no number from 0 to 2^31-1.
pub(crate) fn counter(kind: Kind, name: &str) -> Option<i32> {
    read_name(kind, name).map(|(_, counter)| counter)
}

/// Another node may have this number, or a later node a lower one: at the highest count a server repeats it,
/// or gives a negative number for a moment during concurrent creations.
pub(crate) fn is_used_up(counter: Option<i32>) -> bool {
    counter.is_none_or(|counter| !(0..i32::MAX).contains(&counter))
}

pub(crate) fn numbered(prefix: &str, counter: i32) -> String {
    format!("{prefix}{counter:010}")
}

/// Read from the end, because a listing has many names. A negative number has no marker: the sign is not part
/// of the counter.
pub(super) fn read_name(kind: Kind, name: &str) -> Option<(Claim, i32)> {
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (before, counter) = name.split_at(digits);
    let counter = counter.parse().ok()?;
    markers(kind).iter().find_map(|&(marker, claim)| {
        let before = before.strip_suffix(marker)?;
        Some((claim.unwrap_or_else(|| Claim::Permits(weight(before))), counter))
    })
}

/// `before` ends before `lease-`. Curator's leases have no weight in the name, and weigh 1.
fn weight(before: &str) -> u32 {
    before
        .strip_suffix('-')
        .and_then(|text| text.rsplit_once("-w"))
        .and_then(|(_, digits)| digits.parse().ok())
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_read_back() {
        let id = NodeId::random();
        for (kind, claim) in [
            (Kind::Mutex, Claim::Exclusive),
            (Kind::RwLock, Claim::Exclusive),
            (Kind::RwLock, Claim::Shared),
            (Kind::Semaphore, Claim::Permits(7)),
            (Kind::Election, Claim::Exclusive),
        ] {
            let name = format!("{}0000000012", prefix(kind, id, claim));
            assert!(name.starts_with(&id_prefix(id)));
            assert_eq!(read_name(kind, &name), Some((claim, 12)));
        }
    }

    #[test]
    fn a_counter_that_does_not_order_is_used_up() {
        let counter = |name| counter(Kind::Mutex, name);
        assert!(
            ["x-lock-2147483647", "x-lock--2147483648", "x-lock-"].into_iter().map(counter).all(is_used_up)
        );
        assert!(!["x-lock-0000000000", "x-lock-2147483646"].into_iter().map(counter).any(is_used_up));
    }

    #[test]
    fn a_downgraded_writer_keeps_its_counter() {
        assert_eq!(as_reader("_c_a-__WRIT__0000000004").as_deref(), Some("_c_a-__READ__0000000004"));
        assert_eq!(as_reader("_c_a-lock-0000000004"), None);
    }
}
