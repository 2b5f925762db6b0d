//! What changes under those that hold and wait: a writer that turns reader, a limit, a node that is
//! taken away.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, ExpectedLimit, Join, Joined, KeysWith, Leave};
use latchwork_core::{
    Address, Capabilities, Error, ErrorKind, Limit, ListedKey, LostReason, Page, QueuePrefix, Result,
};

use super::order::{ALL, AnyPredecessorAdmits, LOOK, ReadersOneByOne};
use super::states::States;
use super::waits::gone_never;
use super::wrapper::{BrokenNode, Defect};
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "a_downgrade_changes_nothing",
        case: "rwlock_downgrade_keeps_place_and_token",
        beside: "rwlock_writers_are_alone",
        testbed: |name| on_memory(name, Downgrade::Nothing),
    },
    Control {
        name: "a_downgrade_gives_the_place_up",
        case: "rwlock_downgrade_keeps_place_and_token",
        beside: "rwlock_writers_are_alone",
        testbed: |name| on_memory(name, Downgrade::Leaves),
    },
    Control {
        name: "a_downgrade_can_not_be_repeated",
        case: "rwlock_downgrade_survives_a_lost_reply",
        beside: "rwlock_downgrade_keeps_place_and_token",
        testbed: |name| on_memory(name, Downgrade::OnlyOnce),
    },
    Control {
        name: "a_dropped_downgrade_keeps_the_node",
        case: "rwlock_downgrade_can_be_dropped",
        beside: "rwlock_writers_are_alone",
        testbed: |name| on_memory(name, Downgrade::Sticks),
    },
    Control {
        name: "readers_wake_for_departures_only",
        case: "rwlock_downgrade_keeps_place_and_token",
        beside: "rwlock_writers_are_alone",
        testbed: |name| on_memory(name, OnlyDepartures),
    },
    Control {
        name: "readers_behind_a_downgraded_writer_come_in_one_by_one",
        case: "rwlock_downgrade_lets_in_readers_and_no_writer",
        beside: "rwlock_downgrade_is_not_reported_as_a_removal",
        testbed: |name| on_memory(name, ReadersOneByOne),
    },
    Control {
        name: "a_downgrade_of_what_is_gone_is_confirmed",
        case: "rwlock_downgrade_without_a_node_makes_nothing",
        beside: "rwlock_downgrade_keeps_place_and_token",
        testbed: |name| on_memory(name, Downgrade::Confirms),
    },
    Control {
        name: "a_downgrade_hides_a_removal",
        case: "rwlock_downgrade_is_not_reported_as_a_removal",
        beside: "rwlock_downgrade_lets_in_readers_and_no_writer",
        testbed: |name| on_memory(name, States(gone_never)),
    },
    Control {
        name: "a_downgrade_forgets_the_data",
        case: "node_data_admits_no_waiter",
        beside: "rwlock_downgrade_lets_in_readers_and_no_writer",
        testbed: |name| on_memory(name, Downgrade::Forgets),
    },
    Control {
        name: "a_new_limit_is_not_stored",
        case: "semaphore_resize_up_admits_at_once",
        beside: "semaphore_never_exceeds_its_limit",
        testbed: |name| on_memory(name, BrokenLimit::Forgets),
    },
    Control {
        name: "limits_have_one_page",
        case: "node_limits_are_listed_by_the_beginning_of_their_keys",
        beside: "node_limits_are_replaced_where_they_are_known",
        testbed: |name| on_memory(name, Limits::OnePage),
    },
    Control {
        name: "a_limit_is_replaced_whatever_it_is",
        case: "node_limits_are_replaced_where_they_are_known",
        beside: "node_limits_are_listed_by_the_beginning_of_their_keys",
        testbed: |name| on_memory(name, Limits::Overwritten),
    },
    Control {
        name: "a_move_leaves_the_limits_that_nobody_uses",
        case: "migrate_limits_move_with_the_locks",
        beside: "migrate_gate_begins_over_no_outsider",
        testbed: |name| on_memory(name, Limits::Unlisted),
    },
    Control {
        name: "who_waits_for_permits_wakes_for_departures_only",
        case: "semaphore_resize_up_admits_at_once",
        beside: "semaphore_never_exceeds_its_limit",
        testbed: |name| on_memory(name, OnlyDepartures),
    },
    Control {
        name: "a_limit_for_want_of_one_is_stored_over_another",
        case: "semaphore_or_stored_follows_a_limit_that_was_set",
        beside: "semaphore_resize_up_admits_at_once",
        testbed: |name| on_memory(name, OrStored::Overwrites),
    },
    Control {
        name: "a_limit_for_want_of_one_is_expected",
        case: "semaphore_or_stored_follows_a_limit_that_was_set",
        beside: "semaphore_another_limit_is_a_conflict",
        testbed: |name| on_memory(name, OrStored::Expects),
    },
    Control {
        name: "a_limit_for_want_of_one_is_stored_in_a_step_of_its_own",
        case: "semaphore_or_stored_is_stored_once",
        beside: "semaphore_another_limit_is_a_conflict",
        testbed: |name| on_memory(name, OrStored::InTwoSteps),
    },
    Control {
        name: "a_lower_limit_revokes",
        case: "semaphore_resize_down_revokes_nobody",
        beside: "semaphore_resize_up_admits_at_once",
        testbed: |name| on_memory(name, BrokenLimit::Revokes),
    },
    Control {
        name: "whatever_leaves_makes_room",
        case: "semaphore_resize_down_revokes_nobody",
        beside: "semaphore_resize_before_anybody_joins",
        testbed: |name| on_memory(name, AnyPredecessorAdmits),
    },
    Control {
        name: "who_does_not_fit_any_more_waits_on",
        case: "semaphore_resize_ends_who_does_not_fit",
        beside: "semaphore_resize_up_admits_at_once",
        testbed: |name| on_memory(name, BrokenLimit::NeverEnds),
    },
    Control {
        name: "a_forced_release_removes_nothing",
        case: "node_gone_by_a_forced_release_makes_room",
        beside: "rwlock_writers_are_alone",
        testbed: |name| on_memory(name, RevokesNothing),
    },
    Control {
        name: "a_forced_release_is_not_reported",
        case: "node_gone_by_a_forced_release_is_reported",
        beside: "rwlock_writers_are_alone",
        testbed: |name| on_memory(name, States(gone_never)),
    },
    Control {
        name: "a_kept_node_goes_though_it_is_said_to_stay",
        case: "mutex_at_least_outlives_a_close_as_promised",
        beside: "mutex_at_least_keeps_others_out",
        testbed: |name| on_memory(name, SaysItStays),
    },
    Control {
        name: "a_node_is_given_back_while_it_is_kept",
        case: "mutex_at_least_keeps_others_out",
        beside: "mutex_release_is_idempotent",
        testbed: |name| on_memory(name, NeverKeeps),
    },
];

#[derive(Debug, PartialEq)]
enum Downgrade {
    Nothing,
    Leaves,
    OnlyOnce,
    Sticks,
    Confirms,
    Forgets,
}

#[async_trait]
impl Defect for Downgrade {
    async fn downgrade(&self, node: &BrokenNode) -> Result<()> {
        match self {
            Downgrade::Nothing => Ok(()),
            Downgrade::Leaves => node.honest.leave().await.map(drop),
            Downgrade::OnlyOnce if node.leaves.fetch_add(1, Ordering::AcqRel) > 0 => {
                Err(Error::lost(LostReason::Revoked))
            }
            Downgrade::OnlyOnce | Downgrade::Sticks => node.honest.downgrade().await,
            Downgrade::Confirms => match node.honest.downgrade().await {
                Err(error) if !error.may_pass() => Ok(()),
                answer => answer,
            },
            Downgrade::Forgets => {
                node.honest.downgrade().await?;
                node.honest.write_data(&Arc::default()).await
            }
        }
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        let entries = node.backend.list(&node.join.queue, ALL).await?;
        let own = node.honest.state().sequence();
        let turned = entries.iter().any(|entry| entry.sequence == own && entry.claim != node.join.claim);
        match self {
            Downgrade::Sticks if turned => Ok(Leave::Removed),
            _ => node.honest.leave().await,
        }
    }
}

/// A waiter looks again when a node has gone, and for no other reason.
#[derive(Debug)]
struct OnlyDepartures;

#[async_trait]
impl Defect for OnlyDepartures {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        let queue = &node.join.queue;
        let before = node.backend.list(queue, ALL).await?;
        loop {
            let now = node.backend.list(queue, ALL).await?;
            let gone = before.iter().any(|entry| now.iter().all(|there| there.sequence != entry.sequence));
            if gone && let Ok(admitted) = tokio::time::timeout(LOOK, node.honest.admitted()).await {
                return admitted;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[derive(Debug)]
enum BrokenLimit {
    Forgets,
    Revokes,
    NeverEnds,
}

#[async_trait]
impl Defect for BrokenLimit {
    async fn set_limit(
        &self,
        honest: &dyn Backend,
        queue: &Address,
        expected: ExpectedLimit,
        limit: u32,
    ) -> Result<bool> {
        match self {
            BrokenLimit::Forgets => return Ok(true),
            BrokenLimit::Revokes => {
                let lowered = honest.limit(queue).await?.is_some_and(|stored| stored > limit);
                let entries = honest.list(queue, ALL).await?;
                if let Some(last) = entries.iter().rfind(|entry| entry.admitted && lowered) {
                    honest.revoke(queue, last.sequence).await?;
                }
            }
            BrokenLimit::NeverEnds => {}
        }
        honest.set_limit(queue, expected, limit).await
    }

    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        match (self, node.honest.admitted().await) {
            (BrokenLimit::NeverEnds, Err(error)) if error.kind() == ErrorKind::Conflict => {
                std::future::pending().await
            }
            (_, admitted) => admitted,
        }
    }
}

#[derive(Debug)]
enum Limits {
    OnePage,
    Overwritten,
    Unlisted,
}

#[async_trait]
impl Defect for Limits {
    async fn list_keys(
        &self,
        honest: &dyn Backend,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        let page = honest.list_keys(with, of, after, most).await?;
        Ok(match self {
            Limits::OnePage if with == KeysWith::Limit => Page::new(page.items, None),
            Limits::Unlisted if with == KeysWith::Limit => Page::default(),
            _ => page,
        })
    }

    async fn set_limit(
        &self,
        honest: &dyn Backend,
        queue: &Address,
        expected: ExpectedLimit,
        limit: u32,
    ) -> Result<bool> {
        let expected = if let Limits::Overwritten = self { ExpectedLimit::Any } else { expected };
        honest.set_limit(queue, expected, limit).await
    }
}

#[derive(Debug)]
enum OrStored {
    Overwrites,
    Expects,
    InTwoSteps,
}

#[async_trait]
impl Defect for OrStored {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let Limit::UnlessStored(limit) = join.limit else { return honest.join(join).await };
        let queue = &join.queue;
        let limit = match self {
            OrStored::Expects => Limit::Exactly(limit),
            OrStored::Overwrites => {
                honest.set_limit(queue, ExpectedLimit::Any, limit).await?;
                Limit::Stored
            }
            OrStored::InTwoSteps if honest.limit(queue).await?.is_none() && join.claim.weight() <= limit => {
                // One after the other.
                tokio::time::sleep(LOOK * limit).await;
                honest.set_limit(queue, ExpectedLimit::Any, limit).await?;
                Limit::Stored
            }
            OrStored::InTwoSteps => join.limit,
        };
        honest.join(&Join { limit, ..join.clone() }).await
    }
}

#[derive(Debug)]
struct RevokesNothing;

#[async_trait]
impl Defect for RevokesNothing {
    async fn revoke(&self, _honest: &dyn Backend, _queue: &Address, _sequence: u64) -> Result<bool> {
        Ok(true)
    }
}

#[derive(Debug)]
struct SaysItStays;

#[async_trait]
impl Defect for SaysItStays {
    fn capabilities(&self, honest: Capabilities) -> Capabilities {
        Capabilities { minimum_outlives_close: true, ..honest }
    }
}

/// It is not for the backend to decide when: one that gives a node back by itself as soon as it is
/// admitted.
#[derive(Debug)]
struct NeverKeeps;

#[async_trait]
impl Defect for NeverKeeps {
    fn made(&self, node: &std::sync::Arc<BrokenNode>) {
        let node = std::sync::Arc::clone(node);
        tokio::spawn(async move {
            tokio::time::sleep(LOOK).await;
            if node.honest.state().kept_until() != latchwork_core::Moment::PAST {
                // What it answers is nobody's business: the defect is that it is done at all.
                let _ = node.honest.leave().await;
            }
        });
    }
}
