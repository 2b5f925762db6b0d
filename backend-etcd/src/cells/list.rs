use latchwork_core::{Address, CellLife, ListedKey, Page, QueuePrefix, Result};

use crate::cell_lease::CellLease;
use crate::driver::{Driver, StoredKey};
use crate::walk;

pub(crate) async fn page(
    driver: &Driver,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    of.check_cells()?;
    let root = format!("{}/{}/", of.namespace(), of.kind().as_str());
    walk::page(driver, &root, of, (after, most), |cell, stored| listed(cell, &root, stored)).await
}

fn listed(cell: Address, root: &str, stored: &StoredKey) -> ListedKey {
    let own = CellLease::found(&format!("{root}{}", cell.coded()), stored.lease);
    let life = match (stored.lease, own) {
        (0, _) => CellLife::Stays,
        (_, Some(own)) => own.time().map_or(CellLife::Stays, CellLife::Idle),
        (_, None) => CellLife::Lease,
    };
    ListedKey::new(cell, life)
}
