//! Listing the cells of a kind (CELL-LIST).
//!
//! All names of the kind's directory come in one reply, as for queues. What is at each path shows in
//! its stat and the names of its children: many in one trip.

use latchwork_core::contracts::{CellLife, CellPage, ListedCell};
use latchwork_core::{Error, QueuePrefix, Result};

use super::idle;
use super::kept::Kept;
use crate::driver::CellStat;
use crate::error::Fault;
use crate::layout::{in_directory, kind_directory};
use crate::lease::SessionLease;

/// How many cells are looked at in one trip: at least, and at most.
const FEW: usize = 16;
const CHUNK: usize = 256;

/// A page of the cells behind the encoded key `after`, in the order of the encoded keys.
pub(crate) async fn page(
    lease: &SessionLease,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<CellPage> {
    of.check_cells()?;
    if let Some(after) = after.filter(|after| of.queue(after).is_none()) {
        return Err(Error::invalid("after", format!("{after:?} is where no page of these cells ended")));
    }
    let fail = |fault: Fault| fault.error_without_trace("list the cells of a kind");
    let directory = kind_directory(of.namespace(), of.kind());
    let names = match lease.driver.sync_children(&directory).await {
        Ok(names) => names,
        Err(Fault::NoNode) => return Ok(CellPage::default()),
        Err(fault) => return Err(fail(fault)),
    };
    let is_behind = |name: &String| after.is_none_or(|after| name.as_str() > after);
    let mut found: Vec<_> = names
        .into_iter()
        .filter(|name| name.starts_with(of.coded()) && is_behind(name))
        .filter_map(|name| Some((of.queue(&name)?, in_directory(&directory, &name))))
        .collect();
    found.sort_unstable_by(|(one, _), (other, _)| one.coded().cmp(other.coded()));

    let mut page = CellPage::default();
    let (mut asked, most) = (0, most.max(1));
    for chunk in found.chunks(most.clamp(FEW, CHUNK)) {
        if page.cells.len() == most {
            break;
        }
        let paths: Vec<_> = chunk.iter().map(|(_, path)| path.as_str()).collect();
        let nodes = lease.driver.nodes(&paths).await.map_err(fail)?;
        for ((cell, _), node) in chunk.iter().zip(nodes) {
            if page.cells.len() == most {
                break;
            }
            asked += 1;
            let life = node.and_then(|(children, stat)| life(lease, &children, stat));
            page.cells.extend(life.map(|life| ListedCell { cell: cell.clone(), life }));
        }
    }
    let last = found[..asked].last().filter(|_| asked < found.len());
    page.next = last.map(|(last, _)| last.coded().to_owned());
    Ok(page)
}

/// How long the cell at a node stays; `None` where it is a cell no more.
fn life(lease: &SessionLease, children: &[String], stat: CellStat) -> Option<CellLife> {
    match (Kept::by(stat.owner), &lease.cell_uses) {
        (Kept::ByLease, _) => Some(CellLife::Lease),
        (_, Some(_)) => idle::life(children, &stat),
        (_, None) => Some(CellLife::Stays),
    }
}
