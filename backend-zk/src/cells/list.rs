use crate::driver::Stat;
use crate::lease::SessionLease;
use crate::walk;
use futures_util::FutureExt;
use latchwork_core::{CellLife, ListedKey, Page, QueuePrefix, Result};

use super::idle;
use super::kept::Kept;

pub(crate) async fn page(
    lease: &SessionLease,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    of.check_cells()?;
    walk::page(
        lease,
        "cells",
        of,
        (after, most),
        |driver, paths| driver.nodes(paths).boxed(),
        |cell, node| {
            let (children, stat) = node?;
            Some(ListedKey::new(cell.clone(), life(lease, &children, stat)?))
        },
    )
    .await
}

fn life(lease: &SessionLease, children: &[String], stat: Stat) -> Option<CellLife> {
    match (Kept::by(&stat), &lease.cell_uses) {
        (Kept::ByLease, _) => Some(CellLife::Lease),
        (_, Some(_)) => idle::life(children, &stat),
        (_, None) => Some(CellLife::Stays),
    }
}
