use latchwork_core::backend::VersionedValue;
use latchwork_core::{CellLife, Version};

use crate::cell_uses::Use;
use crate::cells::condition::Condition;
use crate::cells::kept::Kept;
use crate::cells::trouble::Attempt;
use crate::driver::{CellReply, Stat};
use crate::error::Answer;
use crate::layout::CellPaths;
use crate::lease::SessionLease;

pub(super) const STAYS: &str = "stays";

#[derive(Clone, Debug)]
pub(super) struct Found {
    /// `None`: a container without children, so the cell has ended.
    pub(super) cell: Option<VersionedValue>,
    pub(super) condition: Condition,
    pub(super) kept: Kept,
    pub(super) stays: bool,
    pub(super) uses: Vec<Use>,
    pub(super) is_foreign: bool,
    /// Nothing was read. The write must check the guess by the children.
    pub(super) is_guess: bool,
}

impl Found {
    /// Enough for a write under this version if a use is already reported.
    pub(super) fn by(version: Version, uses: Vec<Use>) -> Self {
        Self {
            cell: Some(VersionedValue::new(version, [])),
            condition: Condition::of(version),
            kept: Kept::from_bits(version.number()),
            stays: false,
            uses,
            is_foreign: false,
            is_guess: false,
        }
    }

    /// Guesses a cell that stays, or an idle cell that has this use.
    pub(super) fn guess(used: Option<Use>) -> Self {
        let kept = if used.is_some() { Kept::ByUse } else { Kept::Stays };
        let condition = Condition { generation: 0, data_version: 0 };
        let (stays, uses) = (used.is_none(), used.into_iter().collect());
        Self { stays, is_guess: true, kept, ..Self::by(condition.version(0, kept), uses) }
    }
}

/// Reads the directory, then the cell, then its children, in one trip.
pub(super) async fn look(lease: &SessionLease, paths: &CellPaths) -> Attempt<Option<Found>> {
    loop {
        let answer: Answer<_> = lease.driver.sync_read_cell(&paths.directory, &paths.cell).await;
        match answer? {
            CellReply::NoNode => return Ok(None),
            CellReply::Node { directory, value, stat, children } => {
                return Ok(Some(found(directory, value, stat, &children)));
            }
            CellReply::Changing => {}
        }
    }
}

fn found(directory: Option<Stat>, value: Vec<u8>, stat: Stat, children: &[String]) -> Found {
    let generation = directory.map_or(0, |directory| directory.version);
    let condition = Condition { generation, data_version: stat.version };
    let uses: Vec<_> = children.iter().filter_map(|name| Use::parse(name)).collect();
    let stays = children.iter().any(|name| name == STAYS);
    let was_used = was_used(children, &stat);
    let kept = match Kept::by(&stat) {
        Kept::Stays if was_used || !stays && !uses.is_empty() => Kept::ByUse,
        kept => kept,
    };
    let version = condition.version(stat.mzxid, kept);
    let mut cell = VersionedValue::new(version, value);
    cell.idle = uses.first().filter(|_| kept == Kept::ByUse).map(|used| used.time);
    Found {
        cell: (!was_used).then_some(cell),
        condition,
        kept,
        stays,
        is_foreign: children.len() > uses.len() + usize::from(stays),
        uses,
        is_guess: false,
    }
}

/// Whether a node is a container whose last child ended after the last write of its data. No live cell has
/// this form.
fn was_used(children: &[String], stat: &Stat) -> bool {
    children.is_empty() && stat.pzxid > stat.mzxid
}

/// The life of a cell whose node has these children and no session. `None`: the cell has ended.
pub(in crate::cells) fn life(children: &[String], stat: &Stat) -> Option<CellLife> {
    if was_used(children, stat) {
        return None;
    }
    let used = children.iter().find_map(|name| Use::parse(name));
    let stays = children.iter().any(|name| name == STAYS);
    Some(used.filter(|_| !stays).map_or(CellLife::Stays, |used| CellLife::Idle(used.time)))
}
