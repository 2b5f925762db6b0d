//! The names of nodes in a queue's directory: ours are Curator's, so that the two share a queue.
//!
//! | kind and claim | name |
//! |---|---|
//! | mutex | `_c_<id>-lock-<N>` |
//! | writer, reader | `_c_<id>-__WRIT__<N>`, `_c_<id>-__READ__<N>` |
//! | permits | `_c_<id>-w<weight>-lease-<N>` |
//!
//! `<N>` is the server's counter of creations in that directory: it orders the queue. It is a signed 32-bit number, compared
//! by serial-number arithmetic, and it does not get past its highest: a server stays there, and numbers two nodes alike. So
//! [nobody joins](is_used_up) with that, until the directory was empty and has gone. Rule and weight stand in the name since
//! a listing returns names and nothing else. `<id>` is one that this client has used before, if one is free
//! ([`Names`](latchwork_core::contracts::Names)).

use std::cmp::Reverse;

use latchwork_core::Kind;
use latchwork_core::contracts::NodeId;
use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::Listed;

/// What stands before the counter in a name, and what such a node claims. `None`: permits, of the weight that the name says.
type Marker = (&'static str, Option<Claim>);

/// Curator's names first; kazoo's, which it does not tell from ours if it is told of Curator's
/// (`extra_lock_patterns`), are honoured too.
const MUTEX: &[Marker] = &[("lock-", Some(Claim::Exclusive)), ("__lock__", Some(Claim::Exclusive))];
const RWLOCK: &[Marker] = &[
    ("__WRIT__", Some(Claim::Exclusive)),
    ("__READ__", Some(Claim::Shared)),
    ("__lock__", Some(Claim::Exclusive)),
    ("__rlock__", Some(Claim::Shared)),
];
const PERMITS: &[Marker] = &[("lease-", None)];

fn markers(kind: Kind) -> &'static [Marker] {
    match kind {
        Kind::RwLock => RWLOCK,
        Kind::Semaphore => PERMITS,
        _ => MUTEX,
    }
}

/// What every node of an attempt begins with, whatever it claims.
pub(crate) fn id_prefix(id: NodeId) -> String {
    format!("_c_{}-", id.hyphenated())
}

/// The id in the name of a node of ours.
pub(crate) fn id_of(name: &str) -> Option<NodeId> {
    NodeId::parse(name.strip_prefix("_c_")?.get(..36)?)
}

/// The name up to the counter, which the server appends.
pub(crate) fn prefix(kind: Kind, id: NodeId, claim: Claim) -> String {
    let tail = match (kind, claim) {
        (_, Claim::Permits(weight)) => format!("w{weight}-lease-"),
        (Kind::RwLock, Claim::Exclusive) => "__WRIT__".to_owned(),
        (_, Claim::Shared) => "__READ__".to_owned(),
        (_, Claim::Exclusive) => "lock-".to_owned(),
    };
    id_prefix(id) + &tail
}

/// The name of the reader that a writer of this name turns into, as Curator does it: with the writer's counter, and so
/// in its place.
pub(crate) fn as_reader(writer: &str) -> Option<String> {
    let (id, counter) = writer.rsplit_once("__WRIT__")?;
    Some(format!("{id}__READ__{counter}"))
}

/// The counter in a name, or in a path.
pub(crate) fn counter(kind: Kind, name: &str) -> Option<i32> {
    read_name(kind, name).map(|(_, counter)| counter)
}

/// Whether a counter orders its node no more: others may have the same, or one before it though they come later. (A server
/// keeps the higher of a directory's count and the new one, and makes the new one by adding: to the count that it keeps, or to
/// that of a creation which is still under way.)
pub(crate) fn is_used_up(counter: i32) -> bool {
    !(0..i32::MAX).contains(&counter)
}

/// The name that begins with this prefix, and has this counter.
pub(crate) fn numbered(prefix: &str, counter: i32) -> String {
    format!("{prefix}{counter:010}")
}

/// One contender of a queue, as its name tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) claim: Claim,
    counter: i32,
}

impl Place {
    /// Reads a name; `None` for a child that is no contender, which does no harm (NODE-FOREIGN).
    pub(crate) fn parse(kind: Kind, name: String) -> Option<Self> {
        let (claim, counter) = read_name(kind, &name)?;
        Some(Self { name, claim, counter })
    }
}

/// What a name says: the claim, and the counter behind the marker. Read from its end, since a queue's names are read
/// at every look.
fn read_name(kind: Kind, name: &str) -> Option<(Claim, i32)> {
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    // A marker may end with a dash itself, so that it belongs to the counter only where that makes a marker.
    let negative = name[..digits].ends_with('-').then(|| digits - 1);
    [Some(digits), negative].into_iter().flatten().find_map(|at| {
        let counter = name[at..].parse().ok()?;
        markers(kind).iter().find_map(|&(marker, claim)| {
            let before = name[..at].strip_suffix(marker)?;
            Some((claim.unwrap_or_else(|| Claim::Permits(weight(before))), counter))
        })
    })
}

/// The weight that stands before `lease-`: `…-w3-`. Curator's leases have none, and weigh 1.
fn weight(before: &str) -> u32 {
    before
        .strip_suffix('-')
        .and_then(|text| text.rsplit_once("-w"))
        .and_then(|(_, digits)| digits.parse().ok())
        .unwrap_or(1)
}

/// A queue as a listing shows it, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(pub(crate) Vec<Place>);

impl Queue {
    /// The contenders among `children`, in queue order.
    pub(crate) fn read(kind: Kind, children: Vec<String>) -> Self {
        Self::read_those(kind, children, |_| true)
    }

    /// The same up to the node of this name: what exclusive and shared claims are decided by.
    pub(crate) fn read_up_to(own: &str, kind: Kind, children: Vec<String>) -> Self {
        let last = counter(kind, own);
        Self::read_those(kind, children, |counter| last.is_none_or(|last| counter.wrapping_sub(last) <= 0))
    }

    fn read_those(kind: Kind, children: Vec<String>, wanted: impl Fn(i32) -> bool) -> Self {
        let mut places = Vec::with_capacity(children.len());
        places.extend(
            children
                .into_iter()
                .filter_map(|name| Place::parse(kind, name))
                .filter(|place| wanted(place.counter)),
        );
        // Counters of one queue lie within half their range of each other, so that any one of them is a
        // reference from which the others are before or behind.
        if let Some(reference) = places.first().map(|place| place.counter) {
            places.sort_unstable_by_key(|place| {
                // A writer that turns reader has both nodes for a moment, with one counter: the writer
                // first, since its leaving is what changes something.
                (place.counter.wrapping_sub(reference), Reverse(place.claim == Claim::Exclusive))
            });
        }
        Self(places)
    }

    /// Where the node of this name stands.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|place| place.name == name)
    }

    /// The name, up to its counter, of who stands right before this place: their counters follow each other.
    pub(crate) fn right_before(&self, at: usize) -> Option<&str> {
        let (ahead, own) = (&self.0[at.checked_sub(1)?], &self.0[at]);
        let counter = format!("{:010}", ahead.counter);
        if own.counter.wrapping_sub(ahead.counter) == 1 { ahead.name.strip_suffix(&counter) } else { None }
    }

    /// As core's decision takes it. `marked` tells of which nodes it is known that they are marked as admitted.
    pub(crate) fn listed(&self, marked: impl Fn(&str) -> bool) -> Vec<Listed> {
        self.0.iter().map(|place| Listed { claim: place.claim, marked: marked(&place.name) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(queue: &Queue) -> Vec<&str> {
        queue.0.iter().map(|place| place.name.as_str()).collect()
    }

    fn read(kind: Kind, children: &[&str]) -> Queue {
        Queue::read(kind, children.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn our_names_read_back() {
        let id = NodeId::random();
        for (kind, claim) in [
            (Kind::Mutex, Claim::Exclusive),
            (Kind::RwLock, Claim::Exclusive),
            (Kind::RwLock, Claim::Shared),
            (Kind::Semaphore, Claim::Permits(7)),
        ] {
            let name = format!("{}0000000012", prefix(kind, id, claim));
            assert!(name.starts_with(&id_prefix(id)));
            assert_eq!(Place::parse(kind, name.clone()), Some(Place { name, claim, counter: 12 }));
        }
    }

    #[test]
    fn the_order_goes_on_where_the_counter_wraps() {
        let queue = read(
            Kind::Mutex,
            &["a-lock--2147483648", "b-lock-2147483646", "c-lock-2147483647", "d-lock--2147483647"],
        );
        assert_eq!(
            names(&queue),
            ["b-lock-2147483646", "c-lock-2147483647", "a-lock--2147483648", "d-lock--2147483647"]
        );
        assert_eq!(
            names(&read(Kind::Mutex, &["b-lock-0000000000", "a-lock--000000001"]))[0],
            "a-lock--000000001"
        );
    }

    #[test]
    fn a_counter_that_does_not_order_is_used_up() {
        assert!([i32::MAX, i32::MIN, -1].into_iter().all(is_used_up));
        assert!(![0, 1, i32::MAX - 1].into_iter().any(is_used_up));
    }

    #[test]
    fn who_is_behind_is_left_out() {
        let names: Vec<_> = (-2..3)
            .map(|step: i32| format!("x-lock-{:010}", (i32::MAX - 1).wrapping_add(step)))
            .chain(["note".to_owned()])
            .collect();
        let whole = Queue::read(Kind::Mutex, names.clone());
        assert_eq!(whole.0.len(), 5);
        for (at, own) in whole.0.iter().enumerate() {
            let part = Queue::read_up_to(&own.name, Kind::Mutex, names.iter().rev().cloned().collect());
            assert_eq!(part.0, whole.0[..=at], "up to {}", own.name);
        }
        let turning = ["_c_a-__READ__0000000004", "_c_b-__READ__0000000005", "_c_a-__WRIT__0000000004"];
        let names = turning.map(str::to_owned).to_vec();
        assert_eq!(Queue::read_up_to("_c_a-__READ__0000000004", Kind::RwLock, names).0.len(), 2);
    }

    #[test]
    fn strangers_do_no_harm_and_peers_are_honoured() {
        let queue = read(
            Kind::Mutex,
            &["note", "lock-abc", "_c_x-lock-0000000003", "7d793037__lock__0000000002", "x-lease-0000000001"],
        );
        assert_eq!(names(&queue), ["7d793037__lock__0000000002", "_c_x-lock-0000000003"]);
        let permits = read(Kind::Semaphore, &["_c_x-lease-0000000002", "_c_y-w3-lease-0000000001"]);
        let claims: Vec<_> = permits.0.iter().map(|place| place.claim).collect();
        assert_eq!(claims, [Claim::Permits(3), Claim::Permits(1)]);
    }

    #[test]
    fn a_writer_turning_reader_stands_before_its_own_reader() {
        assert_eq!(as_reader("_c_a-__WRIT__0000000004").as_deref(), Some("_c_a-__READ__0000000004"));
        assert_eq!(as_reader("_c_a-lock-0000000004"), None);
        let queue = read(Kind::RwLock, &["_c_a-__READ__0000000004", "_c_a-__WRIT__0000000004"]);
        assert_eq!(names(&queue)[0], "_c_a-__WRIT__0000000004");
    }
}
