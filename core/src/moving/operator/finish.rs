//! The end of a move that is done.

use super::Move;
use super::look::ListValues;
use super::side::on;
use crate::decide::moving::obstacles::Wanted;
use crate::decide::moving::{MovePhase, Side};
use crate::error::{Error, ErrorKind, Result};
use crate::seen;

impl Move {
    /// Retires the old side of a move that is *done*, and deletes its values and the stage.
    ///
    /// Call it when all services use the new side alone. A marker stays on the old side, which then admits
    /// only operators and sends late clients to the new side. The keys of idle locks stay too. A repeated
    /// call changes nothing.
    ///
    /// # Errors
    /// * `Conflict`: the move is not done; or clients are connected to the old side, and the error names
    ///   them.
    /// * As [all methods](Self).
    pub async fn finish(&self) -> Result<()> {
        self.serve("finish", self.finishes()).await
    }

    async fn finishes(&self) -> Result<()> {
        let retired = self.retired();
        loop {
            let staged = self.stage().await?;
            let is_done = staged.as_ref().is_some_and(|staged| staged.stage.phase == MovePhase::Done);
            if is_done {
                self.open().await?;
            }
            let looked = self.look(staged, ListValues::Never).await?;
            let read = looked.stamps[0].clone();
            let staged = match &looked.staged {
                None if read.marker.as_ref() == Some(&retired) => return Ok(()),
                Some(_) if !is_done => {
                    let phase = looked.found.phase();
                    return Err(not_done(&format!("the move is in the phase {:?}", phase.as_str())));
                }
                staged => staged.clone(),
            };
            if read.marker.as_ref() != Some(&retired) || staged.is_none() {
                self.refuse(&looked, Wanted::Finish)?;
            }
            let Some(staged) = staged else { return Err(not_done("the move has not begun")) };
            // Written even if it exists: every client in the next list was admitted before.
            let Some(marked) = self.old.mark(&read, Some(&retired)).await? else { continue };
            let looked = self.look(Some(staged.clone()), ListValues::Never).await?;
            if let Err(error) = self.refuse(&looked, Wanted::Finish) {
                // The clients may stay. Another operator that listed no client finds a new version of the
                // stage, and cannot delete it after the marker admits them.
                if self.write_anew(&staged).await?.is_none() {
                    continue;
                }
                self.old.mark(&marked, Some(&self.marker(Side::Old))).await?;
                return Err(error);
            }
            let Some(staged) = self.clears(&staged, Side::Old).await? else { continue };
            if !staged.delete(self.old.backend(), &self.place).await.map_err(on(Side::Old))? {
                continue;
            }
            seen::move_finished(&self.name, &self.new.url);
            return Ok(());
        }
    }
}

fn not_done(how: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("only a move that is done can be finished, but {how}"))
}
