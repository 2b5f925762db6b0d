//! The operator's work on the values of a move.
//!
//! [`carry`](carry()) describes the copy. At the end of a move, the values of the unused side are deleted in
//! such a pass. So no other operator has continued the move when it begins, and one that continues later
//! joins the queue after this node. The server refuses a late deletion, since the node is gone
//! (MIGRATE-VALUES-CLEAR).

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::mpsc;

use super::super::hold::hold;
use super::super::member::MemberRecord;
use super::super::staged::Staged;
use super::super::values::carry::{Carried, Operates, carry};
use super::super::values::mirror::{Copying, Place};
use super::late::is_late;
use super::look::ListValues;
use super::side::{OperatorSide, on};
use super::step::Stepped;
use super::wait::News;
use super::{Move, MoveProgress, MoveStatus};
use crate::contracts::{CellLife, ListedKey, Node};
use crate::decide::Claim;
use crate::decide::moving::obstacles::Wanted;
use crate::decide::moving::values::WholeStage;
use crate::decide::moving::{Side, Way};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::held_node::HeldNode;
use crate::registry::writers;
use crate::seen;

/// The values of one kind on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ValuesInUse {
    /// The side: `old` or `new`.
    pub side: &'static str,
    /// The kind, as the server's keys name it.
    pub kind: &'static str,
    /// The keys; the first ones, if there are very many.
    pub keys: Vec<String>,
    /// Whether some of the values expire when unused.
    pub go_idle: bool,
    /// The keys of values that expire when unused.
    #[serde(skip)]
    pub(super) idle: Vec<String>,
}

impl OperatorSide {
    fn values(&self) -> Place {
        Place { backend: Arc::clone(self.coordinator.backend()), namespace: self.namespace.clone() }
    }

    /// Whether an operator can write values here.
    pub(super) fn takes_values(&self) -> bool {
        self.coordinator.capabilities().held_writes
    }

    pub(super) async fn values_in_use(&self) -> Result<Vec<ValuesInUse>> {
        let found = self.values().some().await.map_err(on(self.side))?;
        let in_use = found.into_iter().map(|(kind, cells)| {
            let key = |cell: &ListedKey| cell.address.name().to_owned();
            let goes_idle = |cell: &&ListedKey| matches!(cell.life, CellLife::Idle(_));
            let idle: Vec<_> = cells.iter().filter(goes_idle).map(key).collect();
            ValuesInUse {
                side: self.side.as_str(),
                kind: kind.as_str(),
                keys: cells.iter().map(key).collect(),
                go_idle: !idle.is_empty(),
                idle,
            }
        });
        Ok(in_use.collect())
    }
}

impl Move {
    /// Moves the values to the other side, and takes the next step.
    pub(super) async fn carries(
        &self,
        from: Side,
        progress: &mut impl FnMut(&MoveProgress<'_>),
    ) -> Result<Stepped> {
        let walk = self.seen.walks();
        let (tells, mut told) = mpsc::unbounded_channel();
        let news = tokio::sync::Mutex::new(News::of(self));
        let writes = WritesValues { of: self, news, tells, held: Mutex::default() };
        let copying = self.copying(from);
        let mut carried = Box::pin(carry(&writes, &copying, from));
        let carried = loop {
            tokio::select! {
                biased;
                Some(status) = told.recv() => {
                    walk.waits_for(status.waits_for.len());
                    progress(&MoveProgress::Waits(&status));
                }
                carried = &mut carried => break carried.map_err(frozen)?,
            }
        };
        Ok(match carried {
            Carried::There(staged, values) => {
                seen::values_moved(&self.name, from.other().as_str(), values);
                progress(&MoveProgress::ValuesMoved(values));
                Stepped::To(staged.stage)
            }
            Carried::Elsewhere => Stepped::Changed,
        })
    }

    pub(super) fn copying(&self, from: Side) -> Copying {
        Copying { source: self.side(from).values(), target: self.side(from.other()).values() }
    }

    /// Deletes the values of an unused side, after it wrote the stage again. Returns the new stage; `None` if
    /// another operator has written since.
    pub(super) async fn clears(&self, read: &Staged, side: Side) -> Result<Option<Staged>> {
        let of = self.side(side);
        let held = self.writes_alone(side).await.map_err(lost_hold)?;
        let cleared = async {
            let Some(own) = self.write_anew(read).await? else { return Ok(None) };
            // On a side without held writes, no move has written or moved values.
            if of.takes_values() {
                of.values().clear(&*held.node).await.map_err(on(side))?;
            }
            Ok(Some(own))
        };
        let cleared: Result<_> = cleared.await;
        let given_back = held.release().await.map_err(on(side));
        let cleared = cleared.map_err(lost_hold)?;
        let _ = given_back?;
        Ok(cleared)
    }

    /// Waits for the hold under which values are written on a side.
    async fn writes_alone(&self, side: Side) -> Result<HeldNode> {
        let of = self.side(side);
        let client = of.coordinator.client();
        let queue = writers(&of.namespace, &self.name)?;
        hold(client, queue, Claim::Exclusive, Arc::default()).boxed().await.map_err(on(side))
    }
}

/// Another try takes a lost hold again.
fn lost_hold(error: Error) -> Error {
    match error.lost_reason() {
        None | Some(LostReason::Closed) => error,
        Some(_) => {
            let why = "the operator lost the lock under which it writes values: another try takes it again";
            Error::new(ErrorKind::Unavailable, why).because(error)
        }
    }
}

/// Adds the consequence for values, if another try does not help.
fn frozen(error: Error) -> Error {
    let error = lost_hold(error);
    if error.may_pass() {
        return error;
    }
    let why = "the values cannot be used until they are copied: remove the cause and continue (`latchwork \
               migrate run`, Move::run), or take the move back \
               (`latchwork migrate abort`, Move::abort)";
    Error::new(error.kind(), why).because(error)
}

/// An operator that moves values.
struct WritesValues<'a> {
    of: &'a Move,
    news: tokio::sync::Mutex<News>,
    tells: mpsc::UnboundedSender<MoveStatus>,
    // Also released if the call is dropped.
    held: Mutex<Option<HeldNode>>,
}

#[async_trait]
impl Operates for WritesValues<'_> {
    async fn stage(&self) -> Result<Option<Staged>> {
        self.of.stage().await
    }

    async fn write_stage(&self, over: &Staged, whole: WholeStage) -> Result<Option<Staged>> {
        let written = async {
            if over.stage.phase != whole.stage.phase {
                let way = if over.stage.phase < whole.stage.phase { Way::Forward } else { Way::Back };
                self.of
                    .refuse(&self.of.look(Some(over.clone()), ListValues::Never).await?, Wanted::Step(way))?;
            }
            self.of.write_over(over, whole).await
        };
        match written.await {
            Err(error) => self.of.unless_overtaken(Some(over.version), error).await.map(|()| None),
            written => written,
        }
    }

    async fn acknowledged(&self) -> Result<Vec<Option<u64>>> {
        self.news.lock().await.heard();
        let (staged, members) = self.of.staged_and_members().await?;
        let id = staged.map(|staged| staged.id);
        Ok(members.iter().map(|member| member.says_of(id).acknowledged).collect())
    }

    async fn news(&self) -> Result<()> {
        let (staged, members) = self.of.staged_and_members().await?;
        let late = |staged: &Staged| members.iter().any(|member: &MemberRecord| is_late(member, staged));
        if let Some(staged) = staged.filter(late) {
            // The receiver is gone if the call was dropped.
            let _ = self.tells.send(self.of.status_at(&staged, &members, &[]));
            self.news.lock().await.changed().await?;
        }
        Ok(())
    }

    async fn hold(&self, on: Side) -> Result<Arc<dyn Node>> {
        let held = self.of.writes_alone(on).await?;
        let node = Arc::clone(&held.node);
        *self.held.lock() = Some(held);
        Ok(node)
    }

    async fn give_back(&self, _node: Arc<dyn Node>) -> Result<()> {
        let held = self.held.lock().take();
        match held {
            Some(held) => held.release().await.map(drop),
            None => Ok(()),
        }
    }
}
