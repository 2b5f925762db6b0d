//! The copy of values to the other side.
//!
//! Each pass reads the stage, takes a separate hold on the target, and writes the same stage again
//! (MIGRATE-VALUES-STAGE-ANEW). One pass copies. The next one writes nothing (MIGRATE-VALUES-FRESH-HOLD): it
//! compares, and takes the step.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;

use super::super::staged::Staged;
use super::mirror::{Compared, Copying};
use crate::contracts::Node;
use crate::decide::moving::values::{WholeStage, WholeStep};
use crate::decide::moving::{Side, Way};
use crate::error::{Error, ErrorKind, Result};

/// An operator's requests other than copying.
#[async_trait]
pub(crate) trait Operates: Send + Sync {
    async fn stage(&self) -> Result<Option<Staged>>;

    /// Writes a stage over the one that was read, perhaps with a later epoch; `None` if that is not the
    /// current one.
    async fn write_stage(&self, over: &Staged, whole: WholeStage) -> Result<Option<Staged>>;

    async fn acknowledged(&self) -> Result<Vec<Option<u64>>>;

    async fn news(&self) -> Result<()>;

    /// Waits for an exclusive hold in the move's queue on this side, with a new node each time.
    async fn hold(&self, on: Side) -> Result<Arc<dyn Node>>;

    /// Removes that node. If this fails, the node expires with its lease.
    async fn give_back(&self, node: Arc<dyn Node>) -> Result<()>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// This stage was written, and this number of values is used on the other side now.
    There(Staged, usize),
    Elsewhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Copies,
    Compares,
}

enum Passed {
    Next(Pass),
    There(Staged, usize),
    Again,
}

/// Copies the values, frozen on this side, to the other side. An operator may die at any point, and two may
/// copy at once.
///
/// # Errors
/// As the operator's requests, and as [`Copying::write_all`]. Another call completes an interrupted copy.
///
/// # Cancel safety
/// The hold of a dropped call is left to its lease.
pub(crate) async fn carry(by: &dyn Operates, copying: &Copying, from: Side) -> Result<Carried> {
    let to = from.other();
    let mut pass = Pass::Copies;
    loop {
        // Read before the join: a version that another operator writes during this hold is not its own.
        let read =
            by.stage().await?.filter(|read| read.values.open().is_none() && read.values.side() == from);
        let Some(read) = read else { return Ok(Carried::Elsewhere) };
        let held = by.hold(to).await?;
        let passed = one_pass(by, copying, pass, &*held, &read).await;
        let given_back = by.give_back(held).await;
        match passed? {
            Passed::There(staged, values) => {
                // The step is taken. A remaining node blocks no client for longer than its lease.
                if let Err(error) = given_back {
                    tracing::debug!(%error, "could not remove the node of a copy of values: it expires with its lease");
                }
                return Ok(Carried::There(staged, values));
            }
            Passed::Next(next) => pass = next,
            Passed::Again => pass = Pass::Copies,
        }
        given_back?;
    }
}

async fn one_pass(
    by: &dyn Operates,
    copying: &Copying,
    pass: Pass,
    held: &dyn Node,
    read: &Staged,
) -> Result<Passed> {
    let whole = read.whole();
    let Some(own) = by.write_stage(read, whole).await? else { return Ok(Passed::Again) };
    if pass == Pass::Copies {
        copying.write_all(held).await?;
        let version = own.version;
        let stands =
            || async move { Ok(by.stage().await?.is_some_and(|now| now.version == version)) }.boxed();
        if !copying.copy_limits(&stands).await? {
            return Ok(Passed::Again);
        }
        return Ok(Passed::Next(Pass::Compares));
    }
    let way = match whole.values.side() {
        Side::Old => Way::Forward,
        Side::New => Way::Back,
    };
    let then = loop {
        match whole.step(&own.version.number(), by.acknowledged().await?, way) {
            WholeStep::Mirror { then, .. } => break then,
            WholeStep::Waits => {
                if by.stage().await?.is_none_or(|now| now.version != own.version) {
                    return Ok(Passed::Again);
                }
                by.news().await?;
            }
            other => {
                let why = format!("no step moves the values from this stage: {other:?} at {whole:?}");
                return Err(Error::new(ErrorKind::Misconfigured, why));
            }
        }
    };
    let values = match copying.compare().await? {
        Compared::Same(values) => values,
        Compared::Differs(kind, key) => {
            tracing::debug!(kind = kind.as_str(), %key, "a value differs on the two sides: all values are copied again");
            return Ok(Passed::Next(Pass::Copies));
        }
    };
    let written = by.write_stage(&own, then).await?;
    Ok(written.map_or(Passed::Again, |written| Passed::There(written, values)))
}
