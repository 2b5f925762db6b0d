use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Both, Fault, World, join, place, read_stage};
use crate::address::{Address, Kind};
use crate::contracts::{Backend, Node, Version};
use crate::decide::Claim;
use crate::decide::moving::Side;
use crate::decide::moving::values::WholeStage;
use crate::error::Result;
use crate::memory::Link;
use crate::moving::staged::Staged;
use crate::moving::values::cells::MovingCells;
use crate::moving::values::sided::Sided;
use crate::moving::values::usage::{KnownStage, Usage};

pub(super) struct Participant {
    pub(super) cells: Arc<MovingCells>,
    pub(super) links: [Link; 2],
}

impl Participant {
    /// A participant whose membership is a task of `tasks`.
    pub(super) fn new(world: &World, tasks: &mut JoinSet<()>, fault: Option<Fault>) -> Self {
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
        let spare = world.client().old.0;
        tasks.spawn(async move {
            // A node of a client without faults.
            let always = join(&*spare, spare_queue(), Claim::Shared).await.expect("joined");
            let follows = Follows { known, usage, fault, always };
            loop {
                let _ = follows.take_part(&*backend).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { cells: Arc::new(cells), links: [old, new] }
    }
}

struct Follows {
    known: watch::Sender<Option<KnownStage>>,
    usage: Arc<Usage>,
    fault: Option<Fault>,
    always: Arc<dyn Node>,
}

impl Follows {
    /// Registers, and follows the stage until the membership is lost or a request fails.
    async fn take_part(&self, backend: &dyn Backend) -> Result<()> {
        let member = join(backend, place().members, Claim::Shared).await?;
        let followed = tokio::select! {
            never = self.follow(backend, &member) => never,
            _ = member.state().until_lost() => Ok(()),
        };
        if self.fault != Some(Fault::CountsAnyAnswer) {
            self.known.send_replace(None);
        }
        if member.state().lost().is_none() {
            // Otherwise operators would wait for this member.
            while member.leave().await.is_err_and(|error| error.may_pass()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        followed
    }

    async fn follow(&self, backend: &dyn Backend, member: &Arc<dyn Node>) -> Result<()> {
        let mut news = backend.watch_cell(&place().stage);
        let (mut read, mut acknowledged): (Option<Version>, Option<Version>) = (None, None);
        loop {
            tokio::select! {
                changed = news.changed() => {
                    changed?;
                    let Staged { version, stage, values, .. } = read_stage(backend).await?;
                    let whole = WholeStage { stage, values };
                    read = Some(version);
                    self.known.send_replace(Some(self.knows(member, version, whole)));
                    if self.fault == Some(Fault::AcknowledgesAtOnce) {
                        acknowledge(member, version).await?;
                        acknowledged = read;
                    }
                }
                version = self.usage.acknowledges(), if read.is_some() && read != acknowledged => {
                    let version = version?.expect("a stage was read");
                    acknowledge(member, version).await?;
                    acknowledged = Some(version);
                }
            }
        }
    }

    fn knows(&self, member: &Arc<dyn Node>, version: Version, mut whole: WholeStage) -> KnownStage {
        if self.fault == Some(Fault::FreezesNothing) {
            whole.values = whole.values.side().into();
        }
        let always = self.fault == Some(Fault::CountsAnyAnswer);
        let member = Arc::clone(if always { &self.always } else { member });
        KnownStage { member: Some(member), version: Some(version), whole }
    }
}

async fn acknowledge(member: &Arc<dyn Node>, version: Version) -> Result<()> {
    member.write_data(&version.number().to_string().into_bytes().into()).await
}

fn spare_queue() -> Address {
    Address::new("move", Kind::Group, "spare").expect("a good key")
}
