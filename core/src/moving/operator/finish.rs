//! The end of a move that is done: removes its remains on the old side.

use super::side::on;
use super::{Move, MoveBlocker};
use crate::decide::moving::{MovePhase, Side};
use crate::error::{Error, ErrorKind, Result};
use crate::seen;

impl Move {
    /// Retires the old side of a move that is *done*, and deletes its values and the stage.
    ///
    /// Call it once all services are connected to the new side alone. The old side then refuses every client
    /// except operators: a marker stays there, which sends late clients to the new side. The keys of idle
    /// locks stay too. Calling it again changes nothing.
    ///
    /// # Errors
    /// * `Conflict`: the move is not done; or clients are still connected to the old side, and the error
    ///   names them.
    /// * As [all methods](Self).
    pub async fn finish(&self) -> Result<()> {
        self.serve("finish", self.finishes()).await
    }

    async fn finishes(&self) -> Result<()> {
        let retired = self.retired();
        loop {
            let staged = self.stage().await?;
            let read = self.old.stamped().await?;
            let stands = read.marker.as_ref() == Some(&retired);
            match &staged {
                None if stands => return Ok(()),
                None => return Err(not_done("the move has not begun")),
                Some(staged) if staged.stage.phase != MovePhase::Done => {
                    return Err(not_done(&format!(
                        "the move is in the phase {:?}",
                        staged.stage.phase.as_str()
                    )));
                }
                Some(_) => self.open().await?,
            }
            if !stands {
                if read.marker.is_none() {
                    return Err(MoveBlocker::MarkerLost(Side::Old).into());
                }
                if read.marker.as_ref() != Some(&self.marker(Side::Old)) {
                    return Err(self.old.marked_otherwise(read.marker.as_ref()));
                }
                self.check_left().await?;
            }
            // Also if it exists, so that every client listed now was admitted before.
            let Some(marked) = self.old.mark(&read, Some(&retired)).await? else { continue };
            if let Err(error) = self.check_left().await {
                // The clients may stay as long as they are needed. Another operator that listed no client before finds
                // a new version of the stage. Otherwise it would delete the cell after a marker that admits the clients.
                if let Some(staged) = &staged
                    && self.write_anew(staged).await?.is_none()
                {
                    continue;
                }
                self.old.mark(&marked, Some(&self.marker(Side::Old))).await?;
                return Err(error);
            }
            let staged = match staged {
                Some(staged) => match self.clears(&staged, Side::Old).await? {
                    Some(own) => Some(own),
                    None => continue,
                },
                None => None,
            };
            if let Some(staged) = staged
                && !staged.delete(self.old.backend(), &self.place).await.map_err(on(Side::Old))?
            {
                continue;
            }
            seen::move_finished(&self.name, &self.new.url);
            return Ok(());
        }
    }

    /// Checks that all clients except operators have left the old side.
    async fn check_left(&self) -> Result<()> {
        let left: Vec<_> = self.old.outside(&self.retired(), self.old.clients().await?).collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(MoveBlocker::StillConnected(left).into()),
        }
    }
}

fn not_done(how: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("only a move that is done can be finished, but {how}"))
}
