//! The names of nodes in a queue's directory: ours are Curator's, so that the two share a queue.
//!
//! | kind and claim | name |
//! |---|---|
//! | mutex | `_c_<id>-lock-<N>` |
//! | writer, reader | `_c_<id>-__WRIT__<N>`, `_c_<id>-__READ__<N>` |
//! | permits | `_c_<id>-w<weight>-lease-<N>` |
//!
//! `<N>` is the server's counter of creations in that directory, a signed 32-bit number: it orders the queue, as plain numbers
//! from 0 to 2^31-1 are ordered. A child with another number behind the marker is no contender: it comes from another program,
//! or from a counter that has passed its highest. A server numbers two nodes alike there, so [no join counts](is_used_up) with the
//! highest number or one behind it, until the directory was empty and has gone. Rule and weight stand in the name since a listing
//! returns names and nothing else. `<id>` is one that this client has used before, if one is free
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

/// The counter in a name, or in a path; `None` where that is no number from 0 to 2^31-1.
pub(crate) fn counter(kind: Kind, name: &str) -> Option<i32> {
    read_name(kind, name).map(|(_, counter)| counter)
}

/// Whether the number in a new node's name orders it no more: others may have the same, or one before it though they come later.
/// (A server keeps the higher of a directory's count and the new one, and makes the new one by adding: to the count that it keeps,
/// or to that of a creation which is still under way. So it stays at the highest, or is negative for a moment.)
pub(crate) fn is_used_up(counter: Option<i32>) -> bool {
    counter.is_none_or(|counter| !(0..i32::MAX).contains(&counter))
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
/// at every look. A sign is no part of the counter, so that a negative one stands behind no marker.
fn read_name(kind: Kind, name: &str) -> Option<(Claim, i32)> {
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (before, counter) = name.split_at(digits);
    let counter = counter.parse().ok()?;
    markers(kind).iter().find_map(|&(marker, claim)| {
        let before = before.strip_suffix(marker)?;
        Some((claim.unwrap_or_else(|| Claim::Permits(weight(before))), counter))
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
        Self::read_those(kind, children, |counter| last.is_none_or(|last| counter <= last))
    }

    fn read_those(kind: Kind, children: Vec<String>, wanted: impl Fn(i32) -> bool) -> Self {
        let mut places = Vec::with_capacity(children.len());
        places.extend(
            children
                .into_iter()
                .filter_map(|name| Place::parse(kind, name))
                .filter(|place| wanted(place.counter)),
        );
        // A writer that turns reader has both nodes for a moment, with one counter: the writer first, since its leaving is
        // what changes something. Others of one counter are foreign: the name gives all clients one order.
        let rank = |place: &Place| (place.counter, Reverse(place.claim == Claim::Exclusive));
        places.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
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
        if own.counter - ahead.counter == 1 { ahead.name.strip_suffix(&counter) } else { None }
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
    fn counters_are_ordered_plainly_and_others_are_no_contenders() {
        let queue = read(
            Kind::Mutex,
            &[
                "b-lock-2147483647",
                "x-lock--2147483646",
                "x-lock-2147483648",
                "c-lock-17",
                "a-lock-0000000000",
            ],
        );
        assert_eq!(names(&queue), ["a-lock-0000000000", "c-lock-17", "b-lock-2147483647"]);
        for name in
            ["x-__WRIT__-000000001", "x-__READ__--1", "x-__READ__", "x-__READ__+1", "x-__READ__99999999999"]
        {
            assert_eq!(Place::parse(Kind::RwLock, name.to_owned()), None, "{name}");
        }
        let twice = ["b-lock-5", "a-lock-5"];
        assert_eq!(names(&read(Kind::Mutex, &twice)), ["a-lock-5", "b-lock-5"]);
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
    fn who_is_behind_is_left_out() {
        let names: Vec<_> = (0..5)
            .map(|step: i32| format!("x-lock-{:010}", i32::MAX - step))
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
