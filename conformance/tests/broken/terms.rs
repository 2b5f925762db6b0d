use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, ExpectedLimit, Join, Joined, KeysWith, Leave};
use latchwork_core::{Address, Capabilities, Error, ErrorKind, Limit, LostReason, Moment, Page, Result};

use super::defect::Defect;
use super::listings::ListsKeys;
use super::mutex::Claims;
use super::order::{AnyPredecessorAdmits, LOOK, ReadersOneByOne};
use super::states::States;
use super::waits::{SleepsThrough, gone_never};
use super::wrapper::{ALL, BrokenNode};
use super::{Control, broken};

pub(super) const CONTROLS: &[Control] = &[
    broken("a_downgrade_changes_nothing", || Arc::new(Downgrade::Nothing))
        .fails("rwlock_downgrade_keeps_place_and_token")
        .passes("rwlock_writers_are_alone"),
    broken("a_downgrade_gives_the_place_up", || Arc::new(Downgrade::Leaves))
        .fails("rwlock_downgrade_keeps_place_and_token")
        .passes("rwlock_writers_are_alone"),
    broken("a_downgrade_can_not_be_repeated", || Arc::new(Downgrade::OnlyOnce))
        .fails("rwlock_downgrade_survives_a_lost_reply")
        .passes("rwlock_downgrade_keeps_place_and_token"),
    broken("a_dropped_downgrade_keeps_the_node", || Arc::new(Downgrade::Sticks))
        .fails("rwlock_downgrade_can_be_dropped")
        .passes("rwlock_writers_are_alone"),
    broken("readers_wake_for_departures_only", || Arc::new(OnlyDepartures))
        .fails("rwlock_downgrade_keeps_place_and_token")
        .passes("rwlock_writers_are_alone"),
    broken("readers_behind_a_downgraded_writer_come_in_one_by_one", || Arc::new(ReadersOneByOne))
        .fails("rwlock_downgrade_lets_in_readers_and_no_writer")
        .passes("rwlock_downgrade_is_not_reported_as_a_removal"),
    broken("a_downgrade_of_what_is_gone_is_confirmed", || Arc::new(Downgrade::Confirms))
        .fails("rwlock_downgrade_without_a_node_makes_nothing")
        .passes("rwlock_downgrade_keeps_place_and_token"),
    broken("a_downgrade_hides_a_removal", || Arc::new(States(gone_never)))
        .fails("rwlock_downgrade_is_not_reported_as_a_removal")
        .passes("rwlock_downgrade_lets_in_readers_and_no_writer"),
    broken("a_downgrade_forgets_the_data", || Arc::new(Downgrade::Forgets))
        .fails("node_data_admits_no_waiter")
        .passes("rwlock_downgrade_lets_in_readers_and_no_writer"),
    broken("a_new_limit_is_not_stored", || Arc::new(BrokenLimit::Forgets))
        .fails("semaphore_resize_up_admits_at_once")
        .passes("semaphore_never_exceeds_its_limit"),
    broken("limits_have_one_page", || Arc::new(ListsKeys::in_one_page(KeysWith::Limit, 0)))
        .fails("node_limits_are_listed_by_the_beginning_of_their_keys")
        .passes("node_limits_are_replaced_where_they_are_known"),
    broken("a_limit_is_replaced_whatever_it_is", || Arc::new(BrokenLimit::Overwrites))
        .fails("node_limits_are_replaced_where_they_are_known")
        .passes("node_limits_are_listed_by_the_beginning_of_their_keys"),
    broken("a_move_leaves_the_limits_that_nobody_uses", || {
        Arc::new(ListsKeys { with: KeysWith::Limit, at_least: 0, answered: |_| Page::default() })
    })
    .fails("migrate_limits_move_with_the_locks")
    .passes("migrate_gate_begins_over_no_outsider"),
    broken("who_waits_for_permits_wakes_for_departures_only", || Arc::new(OnlyDepartures))
        .fails("semaphore_resize_up_admits_at_once")
        .passes("semaphore_never_exceeds_its_limit"),
    broken("a_limit_for_want_of_one_is_stored_over_another", || Arc::new(OrStored::Overwrites))
        .fails("semaphore_or_stored_follows_a_limit_that_was_set")
        .passes("semaphore_resize_up_admits_at_once"),
    broken("a_limit_for_want_of_one_is_expected", || Arc::new(OrStored::Expects))
        .fails("semaphore_or_stored_follows_a_limit_that_was_set")
        .passes("semaphore_another_limit_is_a_conflict"),
    broken("a_limit_for_want_of_one_is_stored_in_a_step_of_its_own", || Arc::new(OrStored::InTwoSteps))
        .fails("semaphore_or_stored_is_stored_once")
        .passes("semaphore_another_limit_is_a_conflict"),
    broken("a_lower_limit_revokes", || Arc::new(BrokenLimit::Revokes))
        .fails("semaphore_resize_down_revokes_no_hold")
        .passes("semaphore_resize_up_admits_at_once"),
    broken("whatever_leaves_makes_room", || Arc::new(AnyPredecessorAdmits))
        .fails("semaphore_resize_down_revokes_no_hold")
        .passes("semaphore_resize_before_anybody_joins"),
    broken("who_does_not_fit_any_more_waits_on", || {
        Arc::new(SleepsThrough(|error| error.kind() == ErrorKind::Conflict))
    })
    .fails("semaphore_resize_ends_who_does_not_fit")
    .passes("semaphore_resize_up_admits_at_once"),
    broken("a_forced_release_removes_nothing", || Arc::new(RevokesNothing))
        .fails("node_gone_by_a_forced_release_makes_room")
        .passes("rwlock_writers_are_alone"),
    broken("a_forced_release_is_not_reported", || Arc::new(States(gone_never)))
        .fails("node_gone_by_a_forced_release_is_reported")
        .passes("rwlock_writers_are_alone"),
    broken("a_kept_node_goes_though_it_is_said_to_stay", || {
        Arc::new(Claims(|honest| Capabilities { minimum_outlives_close: true, ..honest }))
    })
    .fails("mutex_at_least_outlives_a_close_as_promised")
    .passes("mutex_at_least_keeps_others_out"),
    broken("a_node_is_given_back_while_it_is_kept", || Arc::new(NeverKeeps))
        .fails("mutex_at_least_keeps_others_out")
        .passes("mutex_release_is_idempotent"),
];

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
        let entries = node.listed().await?;
        let own = node.sequence();
        let turned = entries.iter().any(|entry| entry.sequence == own && entry.claim != node.join.claim);
        match self {
            Downgrade::Sticks if turned => Ok(Leave::Removed),
            _ => node.honest.leave().await,
        }
    }
}

struct OnlyDepartures;

#[async_trait]
impl Defect for OnlyDepartures {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        let before = node.listed().await?;
        loop {
            let now = node.listed().await?;
            let gone = before.iter().any(|entry| now.iter().all(|there| there.sequence != entry.sequence));
            if gone && let Ok(admitted) = tokio::time::timeout(LOOK, node.honest.admitted()).await {
                return admitted;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

enum BrokenLimit {
    Forgets,
    Revokes,
    Overwrites,
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
            BrokenLimit::Forgets => Ok(true),
            BrokenLimit::Revokes => {
                let lowered = honest.limit(queue).await?.is_some_and(|stored| stored > limit);
                let entries = honest.list(queue, ALL).await?;
                if let Some(last) = entries.iter().rfind(|entry| entry.admitted && lowered) {
                    honest.revoke(queue, last.sequence).await?;
                }
                honest.set_limit(queue, expected, limit).await
            }
            BrokenLimit::Overwrites => honest.set_limit(queue, ExpectedLimit::Any, limit).await,
        }
    }
}

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
                // Each limit has a different delay, so the limits are stored at different times.
                tokio::time::sleep(LOOK * limit).await;
                honest.set_limit(queue, ExpectedLimit::Any, limit).await?;
                Limit::Stored
            }
            OrStored::InTwoSteps => join.limit,
        };
        honest.join(&Join { limit, ..join.clone() }).await
    }
}

struct RevokesNothing;

#[async_trait]
impl Defect for RevokesNothing {
    async fn revoke(&self, _honest: &dyn Backend, _queue: &Address, _sequence: u64) -> Result<bool> {
        Ok(true)
    }
}

/// Only the client may give a node back.
struct NeverKeeps;

impl Defect for NeverKeeps {
    fn made(&self, node: &Arc<BrokenNode>) {
        let node = Arc::clone(node);
        tokio::spawn(async move {
            tokio::time::sleep(LOOK).await;
            if node.honest.state().kept_until() != Moment::PAST {
                let _ = node.honest.leave().await;
            }
        });
    }
}
