//! MUTEX- and CAPABILITIES.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, Join, Joined, Leave, NodeId, NodeState, Patience};
use latchwork_core::{Capabilities, Kind, Result};

use super::defect::Defect;
use super::leaves::{NeverLeaves, is_admitted};
use super::order::{Admits, at_once};
use super::states::{States, lost_never};
use super::wrapper::BrokenNode;
use super::{Control, broken};

pub(super) const CONTROLS: &[Control] = &[
    broken("two_hold_at_once", || Arc::new(Admits(|_| true)))
        .fails("mutex_excludes")
        .passes("mutex_release_is_idempotent"),
    broken("a_semaphore_does_not_count_what_is_taken", || {
        Arc::new(Admits(|join| join.queue.kind() == Kind::Semaphore))
    })
    .fails("mutex_excludes@semaphore-5")
    .passes("mutex_excludes@rwlock-writer"),
    broken("two_write_at_once", || Arc::new(Admits(|join| join.queue.kind() == Kind::RwLock)))
        .fails("mutex_excludes@rwlock-writer")
        .passes("mutex_excludes@semaphore-1"),
    broken("two_owners_hold_at_once", || Arc::new(Admits(|join| join.queue.kind() == Kind::Mutex)))
        .fails("mutex_excludes@reentrant")
        .passes("mutex_excludes@semaphore-5"),
    broken("the_first_waiter_is_sent_to_the_end", || Arc::new(SendsToTheEnd::default()))
        .fails("mutex_is_fair")
        .passes("mutex_release_is_idempotent"),
    broken("a_refused_try_stays_in_the_queue", || Arc::new(TryJoins))
        .fails("mutex_try_never_waits_or_overtakes")
        .passes("mutex_is_fair"),
    broken("a_try_overtakes_those_who_wait", || Arc::new(TryOvertakes::default()))
        .fails("mutex_try_never_waits_or_overtakes")
        .passes("mutex_is_fair"),
    broken("tries_refuse_each_other", || Arc::new(TriesRefuseEachOther::default()))
        .fails("mutex_try_of_several_at_one_instant")
        .passes("mutex_try_never_waits_or_overtakes"),
    broken("a_try_takes_silence_for_a_no", || Arc::new(SilenceRefuses))
        .fails("mutex_try_answers_in_time_without_a_server")
        .passes("mutex_is_fair"),
    broken("a_timeout_leaves_the_node", || Arc::new(NeverLeaves(|node| !is_admitted(node))))
        .fails("mutex_within_times_out_and_leaves_nothing")
        .passes("mutex_is_fair"),
    broken("a_release_is_confirmed_and_not_carried_out", || Arc::new(NeverLeaves(|_| true)))
        .fails("mutex_release_is_idempotent")
        .passes("mutex_bad_options_are_refused"),
    broken("work_runs_on_under_a_lost_hold", || Arc::new(States(lost_never)))
        .fails("mutex_run_is_dropped_at_the_loss")
        .passes("mutex_is_fair"),
    broken("a_capability_is_claimed_that_is_not_there", || {
        Arc::new(Claims(|honest| Capabilities { survives_failover: true, ..honest }))
    })
    .fails("capabilities_match_the_testbed")
    .passes("mutex_is_fair"),
    broken("a_capability_is_denied_that_is_there", || {
        Arc::new(Claims(|honest| Capabilities { clean_try: false, ..honest }))
    })
    .fails("capabilities_match_the_testbed")
    .passes("mutex_is_fair"),
    broken("an_acquisition_counts_that_no_replica_has_confirmed", || Arc::new(ConfirmsUnasked))
        .fails("node_confirm_is_demanded_or_refused")
        .passes("mutex_is_fair"),
];

/// Only the first waiter goes to the end, once.
#[derive(Default)]
struct SendsToTheEnd(AtomicBool);

#[async_trait]
impl Defect for SendsToTheEnd {
    fn shown<'a>(&self, node: &'a BrokenNode) -> &'a NodeState {
        node.again.get().unwrap_or(&node.honest).state()
    }

    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        node.honest.admitted().await?;
        let others = node.listed().await?.len() > 1;
        if !others || self.0.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        node.honest.leave().await?;
        let join = Join { id: NodeId::random(), repeated: false, ..node.join.clone() };
        if let Joined::Admitted(again) | Joined::Waiting(again) = node.backend.join(&join).await? {
            node.again.get_or_init(|| again).admitted().await?;
        }
        Ok(())
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        node.again.get().unwrap_or(&node.honest).leave().await
    }
}

struct TryJoins;

#[async_trait]
impl Defect for TryJoins {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        if join.patience == Patience::Wait {
            return honest.join(join).await;
        }
        Ok(match honest.join(&Join { patience: Patience::Wait, ..join.clone() }).await? {
            Joined::Waiting(_) => Joined::Refused,
            other => other,
        })
    }
}

/// Overtakes only after a client has begun to wait.
#[derive(Default)]
struct TryOvertakes(AtomicBool);

#[async_trait]
impl Defect for TryOvertakes {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        if join.patience == Patience::Try && self.0.load(Ordering::Acquire) {
            return Ok(at_once(honest.join(&Join { patience: Patience::Wait, ..join.clone() }).await?));
        }
        let joined = honest.join(join).await?;
        self.0.fetch_or(matches!(joined, Joined::Waiting(_)), Ordering::AcqRel);
        Ok(joined)
    }
}

#[derive(Default)]
struct TriesRefuseEachOther(AtomicUsize);

#[async_trait]
impl Defect for TriesRefuseEachOther {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        if join.patience == Patience::Try {
            self.0.fetch_add(1, Ordering::AcqRel);
            tokio::task::yield_now().await;
            let beside = self.0.load(Ordering::Acquire) > 1;
            tokio::task::yield_now().await;
            self.0.fetch_sub(1, Ordering::AcqRel);
            if beside {
                return Ok(Joined::Refused);
            }
        }
        honest.join(join).await
    }
}

struct SilenceRefuses;

#[async_trait]
impl Defect for SilenceRefuses {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        match honest.join(join).await {
            Err(error) if error.may_pass() && join.patience == Patience::Try => Ok(Joined::Refused),
            other => other,
        }
    }
}

pub(super) struct Claims(pub(super) fn(Capabilities) -> Capabilities);

impl Defect for Claims {
    fn capabilities(&self, honest: Capabilities) -> Capabilities {
        (self.0)(honest)
    }
}

/// As Redis, if `WAIT` is sent on a connection without writes.
struct ConfirmsUnasked;

#[async_trait]
impl Defect for ConfirmsUnasked {
    fn capabilities(&self, honest: Capabilities) -> Capabilities {
        Capabilities { confirms_on_replicas: true, ..honest }
    }

    async fn confirm(&self, _node: &BrokenNode, _replicas: u32, _within: Duration) -> Result<()> {
        Ok(())
    }
}
