use std::sync::Arc;

use latchwork_core::{Config, Connector, Result, connect};
use serde::{Deserialize, Serialize};

use super::role::Role;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Counting {
    /// Adds 1 this often.
    Adds { key: String, times: u64 },
    /// Takes ids until it is killed.
    Ids { key: String, block: u32 },
}

impl Role for Counting {
    type Event = i64;

    const NAME: &'static str = "counting";

    async fn work(self, connectors: &[Arc<dyn Connector>], config: &Config) -> Result<()> {
        let coordinator = connect(connectors, config).await?;
        match self {
            Self::Adds { key, times } => {
                let counter = coordinator.counter(key)?;
                for _ in 0..times {
                    Self::say(&counter.add(1).await?);
                }
            }
            Self::Ids { key, block } => {
                let ids = coordinator.id_generator(key)?.with_block(block)?;
                loop {
                    Self::say(&i64::try_from(ids.next_id().await?).unwrap_or(i64::MAX));
                }
            }
        }
        coordinator.close().await
    }
}
