//! A participant's requests of values under way, by the stage that it knows.

use std::sync::Arc;

use tokio::sync::watch;

use crate::contracts::{Node, Version};
use crate::decide::moving::values::{WholeStage, answer_counts};
use crate::decide::moving::{MovePhase, Side};
use crate::error::{Error, Result};

/// A stage, and the membership under which it was read.
#[derive(Clone, Debug)]
pub(crate) struct KnownStage {
    /// The member node, which existed before the stage was read. A move that is done needs none.
    pub(crate) member: Option<Arc<dyn Node>>,
    /// The version of the stage's cell; `None` if no move has begun.
    pub(crate) version: Option<Version>,
    pub(crate) whole: WholeStage,
}

impl KnownStage {
    /// Whether two have the same content, under one membership.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let no_members = self.member.is_none() && other.member.is_none();
        (no_members || self.is_same_member(other))
            && (self.version, self.whole) == (other.version, other.whole)
    }

    fn is_same_member(&self, other: &Self) -> bool {
        matches!((&self.member, &other.member), (Some(one), Some(other)) if Arc::ptr_eq(one, other))
    }

    fn is_member(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.state().lost().is_none())
    }

    /// Whether answers count only while this client is a member.
    fn needs_membership(&self) -> bool {
        self.whole.stage.phase.needs_membership()
    }

    fn asks(&self) -> Option<Side> {
        let counts = answer_counts(self.whole.stage.phase, self.is_member());
        self.whole.values.open().filter(|_| counts)
    }
}

/// Counts the requests whose answers the participant still accepts (MIGRATE-VALUES-ACK-WAITS).
#[derive(Debug)]
pub(crate) struct Usage {
    known: watch::Receiver<Option<KnownStage>>,
    // Requests after *done* are not counted, since no stage follows.
    under_way: watch::Sender<usize>,
}

impl Usage {
    /// `known`: the known stage; `None` without a membership. A stage is sent before it is acknowledged,
    /// withdrawn before the member's node is removed, and dropped when the client is closed.
    pub(crate) fn new(known: watch::Receiver<Option<KnownStage>>) -> Arc<Self> {
        Arc::new(Self { known, under_way: watch::Sender::new(0) })
    }

    pub(super) fn known(&self) -> watch::Receiver<Option<KnownStage>> {
        self.known.clone()
    }

    /// Waits until a request may be sent: values are used on some side, and this client is a member.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<Asking> {
        let mut known = self.known.clone();
        loop {
            if let Some(asking) = self.try_begin() {
                return Ok(asking);
            }
            known.changed().await.map_err(|_| Error::closed())?;
        }
    }

    fn try_begin(self: &Arc<Self>) -> Option<Asking> {
        let mut begun = None;
        // Under the count's lock: either an acknowledgement counts this request, or this request sees the
        // later stage.
        self.under_way.send_if_modified(|under_way| {
            let known = self.known.borrow().clone();
            begun = known.and_then(|known| Some((known.asks()?, known)));
            let counted = begun.as_ref().is_some_and(|(_, known)| known.needs_membership());
            *under_way += usize::from(counted);
            counted
        });
        begun.map(|(side, known)| Asking { usage: Arc::clone(self), known, side })
    }

    /// Waits until the known stage may be acknowledged. Returns its version; `None` without a stage.
    pub(crate) async fn acknowledges(&self) -> Result<Option<Version>> {
        let (mut news, mut counts) = (self.known.clone(), self.under_way.subscribe());
        loop {
            let known = news.borrow_and_update().clone();
            let under_way = *counts.borrow_and_update();
            match known {
                Some(known) if known.is_member() && known.whole.values.may_acknowledge(under_way) => {
                    return Ok(known.version);
                }
                _ => {}
            }
            tokio::select! {
                known = news.changed() => known.map_err(|_| Error::closed())?,
                // This owns the sender.
                _ = counts.changed() => {}
            }
        }
    }

    /// Waits until all requests of the membership have ended.
    pub(crate) async fn quiet(&self) {
        let _ = self.under_way.subscribe().wait_for(|under_way| *under_way == 0).await;
    }
}

#[derive(Debug)]
pub(crate) struct Asking {
    usage: Arc<Usage>,
    known: KnownStage,
    side: Side,
}

impl Asking {
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    pub(crate) fn phase(&self) -> MovePhase {
        self.known.whole.stage.phase
    }

    pub(crate) fn epoch(&self) -> u16 {
        self.known.whole.stage.epoch
    }

    /// Whether an answer counts (MIGRATE-VALUES-LIVE-MEMBER): this has been the same member since the begin.
    pub(crate) fn counts(&self) -> bool {
        let is_same = |known: &KnownStage| known.is_same_member(&self.known) && known.is_member();
        let is_member = self.usage.known.borrow().as_ref().is_some_and(is_same);
        answer_counts(self.known.whole.stage.phase, is_member)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.known.needs_membership() {
            self.usage.under_way.send_modify(|under_way| *under_way -= 1);
        }
    }
}
