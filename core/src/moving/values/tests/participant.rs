//! A participant: its membership, and its values.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Both, World, join, members, read_stage, stage_cell};
use crate::contracts::{Backend, Node, Version};
use crate::decide::Claim;
use crate::decide::moving::Side;
use crate::error::Result;
use crate::memory::Link;
use crate::moving::values::cells::{MovingCells, Sided};
use crate::moving::values::usage::{Known, Usage};

pub(super) struct Participant {
    pub(super) cells: Arc<MovingCells>,
    pub(super) links: [Link; 2],
}

impl Participant {
    /// Its membership is a task of `tasks`.
    pub(super) fn new(world: &World, tasks: &mut JoinSet<()>) -> Self {
        let both = world.client();
        let (known, knows) = watch::channel(None);
        let usage = Usage::new(knows);
        let side = |side| {
            let place = both.place(side);
            (place.backend, place.namespace)
        };
        let sided = Sided { old: side(Side::Old), new: side(Side::New) };
        let clock = both.old.0.lease().clock().clone();
        let cells = MovingCells::new(sided, &usage, clock, Duration::from_secs(2));
        let Both { old: (backend, old), new: (_, new) } = both;
        tasks.spawn(async move {
            loop {
                let _ = take_part(&*backend, &known, &usage).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { cells: Arc::new(cells), links: [old, new] }
    }
}

/// Registers, and then follows the stage, until the membership is lost or a request fails.
async fn take_part(backend: &dyn Backend, known: &watch::Sender<Option<Known>>, usage: &Usage) -> Result<()> {
    let member = join(backend, members(), Claim::Shared).await?;
    let followed = tokio::select! {
        never = follow(backend, &member, known, usage) => never,
        _ = member.state().until_lost() => Ok(()),
    };
    if member.state().lost().is_none() {
        // It would be waited for.
        while member.leave().await.is_err_and(|error| error.is_retryable()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    followed
}

async fn follow(
    backend: &dyn Backend,
    member: &Arc<dyn Node>,
    known: &watch::Sender<Option<Known>>,
    usage: &Usage,
) -> Result<()> {
    let mut news = backend.watch_cell(&stage_cell());
    let (mut read, mut acknowledged): (Option<Version>, Option<Version>) = (None, None);
    loop {
        tokio::select! {
            changed = news.changed() => {
                changed?;
                let (version, whole) = read_stage(backend).await?;
                read = Some(version);
                known.send_replace(Some(Known { member: Arc::clone(member), version, whole }));
            }
            version = usage.acknowledges(), if read.is_some() && read != acknowledged => {
                let version = version?;
                member.write_data(&version.number().to_string().into_bytes().into()).await?;
                acknowledged = Some(version);
            }
        }
    }
}
