//! The end of an attempt whose join may still be on its way: its node is removed, and a tombstone left that a late
//! request meets (RULES B9).

use latchwork_core::contracts::NodeId;

use crate::backend::Client;
use crate::error::{Answer, Failure};
use crate::terms::Step;

impl Client {
    /// Ends an attempt under a lease: by the name of its node alone, which is nobody else's.
    pub(crate) async fn bury(&self, lease: i64, attempt: NodeId, node: &[u8]) -> Answer<()> {
        let tombstone = self.layout.tombstone(lease, attempt);
        let steps = vec![Step::Put { key: tombstone, value: Vec::new(), lease }, Step::Delete(node.to_vec())];
        match self.driver.transact(Vec::new(), steps, Vec::new()).await {
            Err(Failure::Full(error)) => {
                // Nobody is to wait behind it until there is space for a tombstone.
                self.driver.delete(node).await?;
                Err(Failure::Full(error))
            }
            answer => answer.map(drop),
        }
    }
}
