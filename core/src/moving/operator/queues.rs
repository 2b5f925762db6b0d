use std::collections::BTreeSet;

use serde::Serialize;

use super::Move;
use super::side::{OperatorSide, on};
use crate::address::Kind;
use crate::decide::moving::Side;
use crate::error::Result;
use crate::registry::is_writers;
use crate::watched::list_all;

/// The kinds whose holds move.
const MOVES: [Kind; 4] = [Kind::Mutex, Kind::RwLock, Kind::Semaphore, Kind::Election];
/// The kinds that do not move: their members hold nothing.
const STAYS: [Kind; 3] = [Kind::Group, Kind::Barrier, Kind::DoubleBarrier];

/// The queues of one kind in use on one side.
///
/// Queues that appear or disappear during the listing may be missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QueuesInUse {
    /// The side: `old` or `new`.
    pub side: &'static str,
    /// The kind, as the server's keys name it.
    pub kind: &'static str,
    /// Whether its holds move. A participant cannot open groups and barriers.
    pub moves: bool,
    /// The keys of the queues.
    pub keys: Vec<String>,
    /// The number of holders or members.
    pub holders: usize,
    /// The number of waiters.
    pub waiters: usize,
}

impl Move {
    pub(super) async fn in_use(&self) -> Result<Vec<QueuesInUse>> {
        let mut in_use = Vec::new();
        for side in [&self.old, &self.new] {
            for (kinds, moves) in [(&MOVES[..], true), (&STAYS[..], false)] {
                for kind in kinds {
                    let found = of_kind(side, *kind, moves).await.map_err(on(side.side))?;
                    in_use.extend(Some(found).filter(|found| !found.keys.is_empty()));
                }
            }
        }
        Ok(in_use)
    }
}

async fn of_kind(side: &OperatorSide, kind: Kind, moves: bool) -> Result<QueuesInUse> {
    let queues = side.coordinator.list(kind, "")?.all().await?.into_iter().map(|listed| listed.address);
    // Two pages may name one queue.
    let queues: BTreeSet<_> = queues.into_iter().collect();
    let of: Side = side.side;
    let mut found =
        QueuesInUse { side: of.as_str(), kind: kind.as_str(), moves, keys: vec![], holders: 0, waiters: 0 };
    for queue in queues {
        let entries = list_all(side.backend(), &queue).await?;
        if entries.is_empty() || is_writers(&queue) {
            continue;
        }
        let holders = entries.iter().filter(|entry| entry.admitted).count();
        found.holders += holders;
        found.waiters += entries.len() - holders;
        found.keys.push(queue.name().to_owned());
    }
    Ok(found)
}
