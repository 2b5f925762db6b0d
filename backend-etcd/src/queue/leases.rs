use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use latchwork_core::backend::{EntryPage, QueueEntry};

use crate::driver::Driver;
use crate::error::Answer;

pub(crate) async fn tell(driver: &Driver, entries: &mut [QueueEntry], leases: &[i64]) -> Answer<()> {
    let mut asked = BTreeSet::new();
    for (entry, lease) in entries.iter().zip(leases) {
        if entry.admitted && *lease != 0 && asked.len() < EntryPage::MAX_LEASES {
            asked.insert(*lease);
        }
    }
    let answers = asked.iter().map(async |lease| Answer::Ok((*lease, driver.lease_left(*lease).await?)));
    let left: BTreeMap<_, _> = try_join_all(answers).await?.into_iter().collect();
    for (entry, lease) in entries.iter_mut().zip(leases).filter(|(entry, _)| entry.admitted) {
        entry.lease_left = left.get(lease).copied().flatten();
    }
    Ok(())
}
