//! The end of a move that is done: what is left of it on the old side.

use super::side::on;
use super::{Move, MoveBlocker};
use crate::decide::moving::{MovePhase, Side};
use crate::error::{Error, ErrorKind, Result};
use crate::seen;

impl Move {
    /// Ends a move that is *done*, once its services are connected to the new side alone: nobody may
    /// connect to the old side any more, and the cell with the stage goes. A marker stays, which sends
    /// whoever was forgotten to the new side, and so do the keys that idle locks leave behind. The old
    /// side's values are deleted: the new side has them. Calling it again changes nothing.
    ///
    /// # Errors
    /// `Conflict` while the move is not done, or naming those that are connected to the old side; as
    /// [all methods](Self).
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
                None => return Err(not_done("it has not begun")),
                Some(staged) if staged.stage.phase != MovePhase::Done => {
                    return Err(not_done(&format!("it is in the phase {:?}", staged.stage.phase.as_str())));
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
            // Anew also where it stands, so that what is listed now was let in before.
            let Some(marked) = self.old.mark(&read, Some(&retired)).await? else { continue };
            if let Err(error) = self.check_left().await {
                // They may stay for as long as they are needed. Whoever found nobody here before goes on over the stage
                // as it was, and finds another; else the cell would go behind a marker that lets them in.
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

    /// Whether all but operators have left the old side.
    async fn check_left(&self) -> Result<()> {
        let left: Vec<_> = self.old.outside(&self.retired(), self.old.clients().await?).collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(MoveBlocker::StillConnected(left).into()),
        }
    }
}

fn not_done(how: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("only a move that is done is finished, and {how}"))
}
