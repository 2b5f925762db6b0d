use std::sync::Arc;

use async_trait::async_trait;

use super::sided::Sided;
use super::usage::Usage;
use crate::address::Address;
use crate::contracts::ChangeWatch;
use crate::decide::moving::Side;
use crate::error::{Error, Result};

/// Reports changes on the side where values are used, and a change of that side.
#[derive(Debug)]
pub(super) struct SidedWatch {
    sides: Arc<Sided>,
    usage: Arc<Usage>,
    cell: Address,
    watch: Option<(Side, Box<dyn ChangeWatch>)>,
}

impl SidedWatch {
    pub(super) fn new(sides: &Arc<Sided>, usage: &Arc<Usage>, cell: &Address) -> Self {
        Self { sides: Arc::clone(sides), usage: Arc::clone(usage), cell: cell.clone(), watch: None }
    }
}

#[async_trait]
impl ChangeWatch for SidedWatch {
    async fn changed(&mut self) -> Result<()> {
        let mut known = self.usage.known();
        loop {
            let used = known.borrow_and_update().as_ref().and_then(|known| known.whole.values.open());
            let news = async { known.changed().await.map_err(|_| Error::closed()) };
            let Some(side) = used else {
                news.await?;
                continue;
            };
            if self.watch.as_ref().is_none_or(|(on, _)| *on != side) {
                let cell = self.sides.address(side, &self.cell)?;
                self.watch = Some((side, self.sides.backend(side).watch_cell(&cell)));
            }
            let Some((_, watch)) = &mut self.watch else { continue };
            tokio::select! {
                changed = watch.changed() => return changed,
                known = news => known?,
            }
        }
    }
}
