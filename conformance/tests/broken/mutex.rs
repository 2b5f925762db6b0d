//! MUTEX- and CAPABILITIES: what the recipe promises, broken below it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, Join, Joined, Leave, NodeId, NodeState, Patience};
use latchwork_core::{Capabilities, Kind, Result};

use super::leaves::LeavesOnlyTheAdmitted;
use super::order::{ALL, AdmitsEverybody};
use super::states::{States, lost_never};
use super::wrapper::{BrokenNode, Defect};
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "two_hold_at_once",
        case: "mutex_excludes",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, AdmitsEverybody),
    },
    Control {
        name: "a_semaphore_does_not_count_what_is_taken",
        case: "mutex_excludes@semaphore-5",
        beside: "mutex_excludes@rwlock-writer",
        testbed: |name| on_memory(name, AdmitsAll(Kind::Semaphore)),
    },
    Control {
        name: "two_write_at_once",
        case: "mutex_excludes@rwlock-writer",
        beside: "mutex_excludes@semaphore-1",
        testbed: |name| on_memory(name, AdmitsAll(Kind::RwLock)),
    },
    Control {
        name: "two_owners_hold_at_once",
        case: "mutex_excludes@reentrant",
        beside: "mutex_excludes@semaphore-5",
        testbed: |name| on_memory(name, AdmitsAll(Kind::Mutex)),
    },
    Control {
        name: "the_first_waiter_is_sent_to_the_end",
        case: "mutex_is_fair",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, SendsToTheEnd::default()),
    },
    Control {
        name: "a_refused_try_stays_in_the_queue",
        case: "mutex_try_never_waits_or_overtakes",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, TryJoins),
    },
    Control {
        name: "a_try_overtakes_those_who_wait",
        case: "mutex_try_never_waits_or_overtakes",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, TryOvertakes::default()),
    },
    Control {
        name: "tries_refuse_each_other",
        case: "mutex_try_of_several_at_one_instant",
        beside: "mutex_try_never_waits_or_overtakes",
        testbed: |name| on_memory(name, TriesRefuseEachOther::default()),
    },
    Control {
        name: "a_try_takes_silence_for_a_no",
        case: "mutex_try_answers_in_time_without_a_server",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, SilenceRefuses),
    },
    Control {
        name: "a_timeout_leaves_the_node",
        case: "mutex_within_times_out_and_leaves_nothing",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, LeavesOnlyTheAdmitted),
    },
    Control {
        name: "a_release_is_confirmed_and_not_carried_out",
        case: "mutex_release_is_idempotent",
        beside: "mutex_bad_options_are_refused",
        testbed: |name| on_memory(name, NeverLeaves),
    },
    Control {
        name: "work_runs_on_under_a_lost_hold",
        case: "mutex_run_is_dropped_at_the_loss",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, States(lost_never)),
    },
    Control {
        name: "a_capability_is_claimed_that_is_not_there",
        case: "capabilities_are_what_was_promised",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, Claims(|honest| Capabilities { survives_failover: true, ..honest })),
    },
    Control {
        name: "a_capability_is_denied_that_is_there",
        case: "capabilities_are_what_was_promised",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, Claims(|honest| Capabilities { clean_try: false, ..honest })),
    },
    Control {
        name: "an_acquisition_counts_that_no_replica_has_confirmed",
        case: "node_confirm_is_demanded_or_refused",
        beside: "mutex_is_fair",
        testbed: |name| on_memory(name, ConfirmsUnasked),
    },
];

/// Everybody, in the queues of one kind.
#[derive(Debug)]
struct AdmitsAll(Kind);

#[async_trait]
impl Defect for AdmitsAll {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        match join.queue.kind() == self.0 {
            true => AdmitsEverybody.join(honest, join).await,
            false => honest.join(join).await,
        }
    }
}

/// The first waiter whose turn comes is put behind all others, once.
#[derive(Debug, Default)]
struct SendsToTheEnd(AtomicBool);

#[async_trait]
impl Defect for SendsToTheEnd {
    fn shown<'a>(&self, node: &'a BrokenNode) -> &'a NodeState {
        node.again.get().unwrap_or(&node.honest).state()
    }

    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        node.honest.admitted().await?;
        let others = node.backend.list(&node.join.queue, ALL).await?.len() > 1;
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

#[derive(Debug)]
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

/// Once somebody waits, a try comes in as though the lock were free.
#[derive(Debug, Default)]
struct TryOvertakes(AtomicBool);

#[async_trait]
impl Defect for TryOvertakes {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        if join.patience == Patience::Try && self.0.load(Ordering::Acquire) {
            let waiting = honest.join(&Join { patience: Patience::Wait, ..join.clone() }).await?;
            return Ok(match waiting {
                Joined::Waiting(node) => Joined::Admitted(node),
                other => other,
            });
        }
        let joined = honest.join(join).await?;
        self.0.fetch_or(matches!(joined, Joined::Waiting(_)), Ordering::AcqRel);
        Ok(joined)
    }
}

/// A try beside another is refused.
#[derive(Debug, Default)]
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

/// No answer is taken for a no.
#[derive(Debug)]
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

#[derive(Debug)]
struct NeverLeaves;

#[async_trait]
impl Defect for NeverLeaves {
    async fn leave(&self, _node: &BrokenNode) -> Result<Leave> {
        Ok(Leave::Removed)
    }
}

#[derive(Debug)]
struct Claims(fn(Capabilities) -> Capabilities);

#[async_trait]
impl Defect for Claims {
    fn capabilities(&self, honest: Capabilities) -> Capabilities {
        (self.0)(honest)
    }
}

/// As where `WAIT` is sent on a connection that has written nothing.
#[derive(Debug)]
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
