//! LEASE-: holders that believe too long, too short, or that nobody tells.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::{
    Backend, Close, Join, Joined, Lease, LeaseKeeper, LeaseState, Leave, Node, NodeKeeper, NodeState, Page,
};
use latchwork_core::{Address, Clock, Error, ErrorKind, Kind, LostReason, Result};

use super::wrapper::{BrokenNode, Defect};
use super::{Control, on_memory};

pub(super) const CONTROLS: &[Control] = &[
    Control {
        name: "the_client_does_not_count_its_renewals",
        case: "lease_alive_is_renewed_in_the_background",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, States(unproven)),
    },
    Control {
        name: "the_server_gets_no_renewals",
        case: "lease_alive_is_renewed_in_the_background",
        beside: "key_opaque_bad_keys_are_refused",
        bed: |name| on_memory(name, DiesWhenAdmitted),
    },
    Control {
        name: "a_fixed_end_gives_the_node_back_at_once",
        case: "lease_fixed_end_has_a_margin",
        beside: "lease_fixed_end_is_kept",
        bed: |name| on_memory(name, LeavesWhenLost(LostReason::MaxHold)),
    },
    Control {
        name: "a_close_gives_back_what_is_held_at_once",
        case: "lease_close_has_a_margin",
        beside: "lease_close_gives_everything_back",
        bed: |name| on_memory(name, LeavesWhenLost(LostReason::Closed)),
    },
    Control {
        name: "a_release_answers_what_the_client_believes",
        case: "node_leave_own_tells_of_a_removal",
        beside: "mutex_release_is_idempotent",
        bed: |name| on_memory(name, Believes { asks: 1 }),
    },
    Control {
        name: "a_repeated_release_takes_what_it_finds_for_its_own_doing",
        case: "node_leave_own_never_guesses",
        beside: "node_leave_own_tells_of_a_removal",
        bed: |name| on_memory(name, Believes { asks: 2 }),
    },
    Control {
        name: "a_repeated_release_takes_its_own_doing_for_anothers",
        case: "node_leave_own_and_nothing_newer",
        beside: "node_leave_own_tells_of_a_removal",
        bed: |name| on_memory(name, ForgetsThatItAsked),
    },
    Control {
        name: "a_lease_is_never_suspended",
        case: "lease_state_suspended_and_live_again",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, States(told_by_a_task)),
    },
    Control {
        name: "a_client_never_says_that_nobody_answers",
        case: "lease_state_fail_fast_does_not_wait",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, NeverSuspended),
    },
    Control {
        name: "waiters_never_hear_that_nobody_answers",
        case: "mutex_within_tells_an_outage_from_others",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, States(told_by_a_task)),
    },
    Control {
        name: "a_loss_is_told_by_a_task_and_not_by_the_clock",
        case: "lease_state_is_a_function_of_the_clock",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, States(told_by_a_task)),
    },
    Control {
        name: "a_join_fails_while_suspended",
        case: "lease_state_acquire_waits_while_suspended",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, RefusesWhileSuspended),
    },
    Control {
        name: "the_deadline_is_counted_to_the_ttl_and_more",
        case: "lease_deadline_is_known_before_another_is_admitted",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, States(too_long)),
    },
    Control {
        name: "in_a_storm_holders_believe_too_long",
        case: "mutex_in_a_storm",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, States(too_long)),
    },
    Control {
        name: "in_a_storm_lost_holds_live_again",
        case: "rwlock_in_a_storm",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, Revives),
    },
    Control {
        name: "a_late_reply_revives_a_lost_hold",
        case: "lease_deadline_loss_is_final",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, Revives),
    },
    Control {
        name: "the_ttl_is_reported_as_half_of_what_was_asked",
        case: "lease_ttl_granted_is_readable",
        beside: "mutex_is_fair",
        bed: |name| {
            on_memory(
                name,
                Reports(|honest| {
                    LeaseKeeper::new(honest.clock().clone(), honest.ttl() / 2, honest.clock().now()).into()
                }),
            )
        },
    },
    Control {
        name: "the_deadline_forgets_the_margin",
        case: "lease_ttl_granted_is_readable",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, Reports(without_margin)),
    },
    Control {
        name: "the_server_is_not_told_of_a_fixed_end",
        case: "lease_fixed_end_is_kept",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, IgnoresFixedEnd),
    },
    Control {
        name: "a_hold_with_a_fixed_end_is_not_renewed",
        case: "lease_fixed_end_is_kept",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, States(unproven)),
    },
    Control {
        name: "a_close_leaves_the_nodes_to_the_lease",
        case: "lease_close_gives_everything_back",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, ClosesHere),
    },
    Control {
        name: "a_close_says_it_once",
        case: "lease_close_outlasts_a_break",
        beside: "lease_close_gives_everything_back",
        bed: |name| on_memory(name, ClosesOnce),
    },
    Control {
        name: "a_drop_leaves_the_nodes_to_the_lease",
        case: "lease_close_by_dropping",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, ClosesHere),
    },
    Control {
        name: "no_new_lease_after_a_loss",
        case: "lease_reopen_after_loss",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, NeverReopens),
    },
    Control {
        name: "a_new_lease_waits_until_the_server_has_forgotten_the_old_one",
        case: "lease_reopen_does_not_wait_behind_our_own_old_node",
        beside: "lease_reopen_after_loss",
        bed: |name| on_memory(name, WaitsBehindItself),
    },
    Control {
        name: "a_dead_client_is_renewed_for_ever",
        case: "lease_expiry_frees_what_a_dead_client_held",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, NeverDies),
    },
    Control {
        name: "the_silence_of_a_dead_keeper_counts_as_life",
        case: "lease_keeper_death_is_a_loss",
        beside: "mutex_is_fair",
        bed: |name| on_memory(name, States(told_nothing)),
    },
];

const FOR_EVER: Duration = Duration::from_secs(3600);

/// Nodes show a state of their own.
#[derive(Debug)]
pub(super) struct States(pub(super) fn(&Arc<dyn Node>) -> Arc<NodeKeeper>);

#[async_trait]
impl Defect for States {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeKeeper>> {
        Some((self.0)(node))
    }
}

fn with_lease(node: &Arc<dyn Node>, lease: LeaseKeeper) -> Arc<NodeKeeper> {
    Arc::new(NodeKeeper::new(lease, node.state().sequence()))
}

pub(super) fn tell_when_lost(node: &Arc<dyn Node>, own: &Arc<NodeKeeper>) {
    let (node, own) = (Arc::clone(node), Arc::downgrade(own));
    tokio::spawn(async move {
        let reason = node.state().until_lost().await;
        if let Some(own) = own.upgrade() {
            own.gone(reason);
        }
    });
}

/// Proven by the join, and by nothing after it.
fn unproven(node: &Arc<dyn Node>) -> Arc<NodeKeeper> {
    let lease = node.state().lease();
    let own = with_lease(node, LeaseKeeper::new(lease.clock().clone(), lease.ttl(), lease.clock().now()));
    tell_when_lost(node, &own);
    own
}

/// On a clock that does not count sleep, and without a deadline: only a task tells of the loss.
fn told_by_a_task(node: &Arc<dyn Node>) -> Arc<NodeKeeper> {
    let clock = Clock::tokio();
    let now = clock.now();
    let own = with_lease(node, LeaseKeeper::new(clock, FOR_EVER, now));
    tell_when_lost(node, &own);
    own
}

/// Nobody tells of any loss.
pub(super) fn told_nothing(node: &Arc<dyn Node>) -> Arc<NodeKeeper> {
    let clock = node.state().lease().clock().clone();
    let now = clock.now();
    with_lease(node, LeaseKeeper::new(clock, FOR_EVER, now))
}

/// Lost half a TTL later than the contract says.
fn too_long(node: &Arc<dyn Node>) -> Arc<NodeKeeper> {
    let own = told_nothing(node);
    let (node, late) = (Arc::clone(node), Arc::downgrade(&own));
    tokio::spawn(async move {
        let reason = node.state().until_lost().await;
        tokio::time::sleep(node.state().lease().ttl() / 2).await;
        if let Some(late) = late.upgrade() {
            late.gone(reason);
        }
    });
    own
}

/// The server's side of a client that was admitted dies, and the client does not hear of it.
#[derive(Debug)]
struct DiesWhenAdmitted;

#[async_trait]
impl Defect for DiesWhenAdmitted {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let joined = honest.join(join).await?;
        if matches!(joined, Joined::Admitted(_)) {
            honest.close(Close::Abrupt).await?;
        }
        Ok(joined)
    }

    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeKeeper>> {
        Some(told_nothing(node))
    }
}

/// Neither its nodes nor the client are ever suspended.
#[derive(Debug)]
struct NeverSuspended;

#[async_trait]
impl Defect for NeverSuspended {
    fn lease(&self, honest: Lease) -> Lease {
        LeaseKeeper::new(honest.clock().clone(), honest.ttl(), honest.clock().now()).into()
    }

    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeKeeper>> {
        Some(told_by_a_task(node))
    }
}

#[derive(Debug)]
struct RefusesWhileSuspended;

#[async_trait]
impl Defect for RefusesWhileSuspended {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        match honest.lease().state() {
            LeaseState::Suspended => Err(Error::new(ErrorKind::Misconfigured, "suspended")),
            _ => honest.join(join).await,
        }
    }
}

/// A hold that was lost by its deadline lives again as soon as the client has contact.
#[derive(Debug)]
struct Revives;

#[async_trait]
impl Defect for Revives {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeKeeper>> {
        Some(told_nothing(node))
    }

    fn shown<'a>(&self, node: &'a BrokenNode) -> &'a NodeState {
        let honest = node.honest.state();
        match (honest.lost(), node.backend.lease().state(), &node.own) {
            (Some(LostReason::Expired), LeaseState::Live, Some(own)) => own,
            _ => honest,
        }
    }
}

/// Another lease is shown than the one that nodes hang on.
#[derive(Debug)]
struct Reports(fn(&Lease) -> Lease);

#[async_trait]
impl Defect for Reports {
    fn lease(&self, honest: Lease) -> Lease {
        (self.0)(&honest)
    }
}

fn without_margin(honest: &Lease) -> Lease {
    let lease = LeaseKeeper::new(honest.clock().clone(), honest.ttl(), honest.clock().now());
    lease.proven_until(lease.opened(), honest.deadline() + honest.margin());
    lease.into()
}

/// What is lost for this reason leaves by itself, at once.
#[derive(Debug)]
struct LeavesWhenLost(LostReason);

#[async_trait]
impl Defect for LeavesWhenLost {
    fn made(&self, node: &Arc<BrokenNode>) {
        let (node, reason) = (Arc::clone(&node.honest), self.0);
        tokio::spawn(async move {
            if node.state().until_lost().await == reason {
                let _ = node.leave().await;
            }
        });
    }
}

/// Hears of no removal, and from its leave of this number on answers as though the node had been there.
#[derive(Debug)]
struct Believes {
    asks: u32,
}

#[async_trait]
impl Defect for Believes {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeKeeper>> {
        Some(told_nothing(node))
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        let left = node.honest.leave().await?;
        let believes = node.leaves.load(Ordering::Acquire) >= self.asks;
        Ok(if believes { Leave::Removed } else { left })
    }
}

/// A leave whose reply was lost is told as one that was not sent, and the next finds nothing.
#[derive(Debug)]
struct ForgetsThatItAsked;

#[async_trait]
impl Defect for ForgetsThatItAsked {
    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        match node.honest.leave().await {
            Err(error) if error.kind() == &ErrorKind::Unknown => {
                Err(Error::new(ErrorKind::Unavailable, "it was not sent, says this one"))
            }
            Ok(Leave::Removed) if node.leaves.load(Ordering::Acquire) > 1 => Ok(Leave::of(false)),
            left => left,
        }
    }
}

#[derive(Debug)]
struct IgnoresFixedEnd;

#[async_trait]
impl Defect for IgnoresFixedEnd {
    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        match node.honest.state().lost() {
            Some(LostReason::MaxHold) => Ok(Leave::Removed),
            _ => node.honest.leave().await,
        }
    }
}

/// The client ends its own side, and tells the server nothing.
#[derive(Debug)]
struct ClosesHere;

#[async_trait]
impl Defect for ClosesHere {
    async fn close(&self, honest: &dyn Backend, _how: Close) -> Result<()> {
        honest.close(Close::Abrupt).await
    }
}

/// The client ends, whether the server could be told or not.
#[derive(Debug)]
struct ClosesOnce;

#[async_trait]
impl Defect for ClosesOnce {
    async fn close(&self, honest: &dyn Backend, how: Close) -> Result<()> {
        let anything = Address::new("latchwork", Kind::Mutex, "anything")?;
        match honest.list(&anything, Page { after: 0, most: 1 }).await {
            Err(unreached) if unreached.is_retryable() => {
                ClosesHere.close(honest, how).await.and(Err(unreached))
            }
            _ => honest.close(how).await,
        }
    }
}

#[derive(Debug)]
struct NeverReopens;

#[async_trait]
impl Defect for NeverReopens {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        match honest.lease().lost() {
            Some(_) => Err(Error::new(ErrorKind::Unavailable, "the lease is gone")),
            None => honest.join(join).await,
        }
    }
}

#[derive(Debug)]
struct WaitsBehindItself;

#[async_trait]
impl Defect for WaitsBehindItself {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let lease = honest.lease();
        if lease.lost().is_some() {
            lease.clock().sleep_until(lease.deadline() + lease.margin()).await;
        }
        honest.join(join).await
    }
}

/// What a crashed client had is kept alive by somebody.
#[derive(Debug)]
pub(super) struct NeverDies;

#[async_trait]
impl Defect for NeverDies {
    async fn close(&self, honest: &dyn Backend, how: Close) -> Result<()> {
        match how {
            Close::Orderly => honest.close(how).await,
            Close::Abrupt => Ok(()),
        }
    }
}
