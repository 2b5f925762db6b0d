//! The data of nodes (NODE-DATA), at their [`DataPlace`].
//!
//! *Protocol.* The owner replaces the data by one transaction: IF the node's key was created by the owner's
//! join THEN put the new data on the node's lease.
//!
//! *Why it is safe.* A create revision never occurs again, so a late write reaches no later node of the same
//! name. The number of writes of a writer's or permits' key shows a downgrade or mark, so their data have a
//! separate key. Separate data from before the node's creation belongs to an earlier node of the same name.

use std::sync::Arc;

use super::list::Member;
use crate::driver::{Driver, Found, Op, StoredKey};
use crate::error::Answer;
use crate::layout::{DataPlace, NodeData, Queue, beside};

/// Bounded, because a value may be as large as a request.
pub(crate) const VALUES: usize = 32;

pub(super) fn is_beside(place: DataPlace, data: &[u8]) -> bool {
    place == DataPlace::Beside && !data.is_empty()
}

pub(super) fn joined(place: DataPlace, node: &str, data: &[u8], lease: i64) -> Option<Op> {
    let key = || String::from_utf8_lossy(&beside(node.as_bytes())).into_owned();
    is_beside(place, data).then(|| Op::Put { key: key(), value: data.to_vec(), lease })
}

pub(super) fn keys(node: &[u8], has_beside: bool) -> Vec<Vec<u8>> {
    [node.to_vec()].into_iter().chain(has_beside.then(|| beside(node))).collect()
}

/// Reads at most [`VALUES`] nodes. `None`: the node has left since the listing. Foreign values, which may be
/// large, are read only if they are data.
pub(crate) async fn read(
    driver: &Driver,
    queue: &Queue,
    of: &[&Member],
) -> Answer<Vec<Option<(NodeData, Arc<[u8]>)>>> {
    let place = |member: &Member| queue.data_place_of(&member.key);
    let is_read = |member: &Member| place(member) == DataPlace::Alone || queue.is_ours(&member.key);
    let mut gets = Vec::new();
    for member in of.iter().filter(|member| is_read(member)) {
        gets.push(Op::Get(member.key.clone()));
        if place(member) == DataPlace::Beside {
            gets.push(Op::Get(beside(&member.key)));
        }
    }
    let reads = if gets.is_empty() { Vec::new() } else { driver.read(gets).await?.reads };
    let mut reads = reads.into_iter();
    let mut next = || reads.next().and_then(first);
    Ok(of
        .iter()
        .map(|member| {
            let (place, is_read) = (place(member), is_read(member));
            if !is_read {
                return Some(place.read(&member.key, &[]));
            }
            let stored = next();
            let beside = if place == DataPlace::Beside { next() } else { None };
            let value = stored.filter(|stored| stored.created == member.created)?.value;
            let (node, mut data) = place.read(&member.key, &value);
            if place == DataPlace::Beside {
                let written = beside.filter(|stored| stored.modified >= member.created);
                data = written.map(|stored| stored.value.into()).unwrap_or_default();
            }
            Some((node, data))
        })
        .collect())
}

fn first(found: Found) -> Option<StoredKey> {
    found.keys.into_iter().next()
}
