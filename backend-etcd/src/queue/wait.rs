//! Waiting for admission.
//!
//! Core decides about a node by a listing that contains it. A waiter watches its own node and the node that
//! core names, at the head of a queue of permits every node ahead and the limit. An event means "list again"
//! (CHAIN-EVENT-LISTS-AGAIN). The [fast path](super::fast_path) admits an exclusive node without another
//! listing (CHAIN-OWN-NODE-AND-DEADLINE). A re-check once a TTL finds a lost event (NODE-NO-LOST-WAKE).

use std::sync::atomic::Ordering;

use latchwork_core::backend::decide::chain::Standing;
use latchwork_core::backend::{Backoff, Pauses, StoredLimit, or_pending};
use latchwork_core::{Claim, Error, Result};

use super::fast_path::{Woken, verify_in_background};
use super::list::{Listing, Member, read};
use super::node::{EtcdNode, Waiting};
use crate::driver::{EventKind, Op, Order, StoredKey};
use crate::layout::Queue;
use crate::watch::{Subscription, Until};

pub(crate) async fn until_admitted(node: &EtcdNode) -> Result<()> {
    loop {
        node.check_lost()?;
        let Some(waiting) = node.waiting() else {
            return Ok(());
        };
        let queue = &waiting.queue;
        let listing = match waiting.take_listing() {
            Some(listing) => listing,
            None => list(node, &waiting).await?,
        };
        let (claim, limit) = (node.data.claim, waiting.limit.load(Ordering::Acquire));
        match listing.standing(&node.own.key, limit) {
            None => node.own.state.gone(node.why_gone().await),
            Some(Standing::Admitted { mark }) => {
                // It may have passed during the listing.
                node.check_lost()?;
                node.admit(queue, mark, listing.revision, Vec::new());
            }
            Some(_) if matches!(claim, Claim::Permits(weight) if weight > limit) => {
                return Err(claim.outweighs(&Some(limit).into()));
            }
            Some(Standing::Behind { watch, sole }) => {
                match behind(node, &waiting, &listing, watch, sole).await {
                    Woken::List => {}
                    Woken::First => {
                        node.check_lost()?;
                        node.admit(queue, false, listing.revision, Vec::new());
                    }
                    Woken::Released(successors) => {
                        node.check_lost()?;
                        node.admit(queue, false, listing.revision, successors);
                        verify_in_background(&node.context, &node.own, queue);
                    }
                }
            }
            Some(Standing::Head { ahead }) => at_head(node, queue, &listing, ahead).await,
        }
    }
}

async fn behind(node: &EtcdNode, waiting: &Waiting, listing: &Listing, watch: usize, sole: bool) -> Woken {
    let (watches, own, target) = (&node.context.watches, &*node.own, &listing.members[watch]);
    let exclusive = node.data.claim == Claim::Exclusive;
    let deletion = |key: &[u8]| watches.key(key.to_vec(), EventKind::Deletes, listing.revision);
    let (mut fast, mut removal, mut departure) = match &waiting.fast_path {
        Some(fast) => {
            let behind = (listing, watch, sole);
            (Some(fast.behind(watches, &waiting.queue, own, exclusive, behind)), None, None)
        }
        None => (None, Some(deletion(&own.key)), Some(deletion(&target.key))),
    };
    // A writer may become a reader in place, and permits may be marked (CHAIN-PERMITS-HEAD-AND-MARKS,
    // CHAIN-DOWNGRADE-IN-PLACE).
    let mut change = (!exclusive).then(|| watches.key(target.key.clone(), EventKind::Puts, listing.revision));
    tokio::select! {
        biased;
        _ = own.state.until_lost() => Woken::List,
        woken = or_pending(fast.as_mut().map(|fast| fast.woken(own))) => woken,
        _ = or_pending(removal.as_mut().map(Subscription::notified)) => Woken::List,
        _ = or_pending(departure.as_mut().map(Subscription::notified)) => Woken::List,
        _ = or_pending(change.as_mut().map(Subscription::notified)) => Woken::List,
        // Inside the `select!`, so that it delays no event.
        () = no_more_behind(node, target) => Woken::List,
    }
}

async fn at_head(node: &EtcdNode, queue: &Queue, listing: &Listing, ahead: usize) {
    let (watches, lease) = (&node.context.watches, node.own.state.lease());
    let keys = listing.members[..ahead].iter().map(|member| member.key.clone()).collect();
    let mut departure = watches.departure(&queue.prefix, keys, Until::Any, listing.revision);
    let mut limit = watches.key(queue.limit.clone().into_bytes(), EventKind::Puts, listing.revision);
    let clock = lease.clock();
    tokio::select! {
        biased;
        _ = node.own.state.until_lost() => {}
        _ = departure.notified() => {}
        _ = limit.notified() => {}
        () = clock.sleep_until(clock.now() + lease.ttl()) => {}
    }
}

async fn no_more_behind(node: &EtcdNode, target: &Member) {
    let lease = node.own.state.lease();
    loop {
        lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
        if !still_behind(node, target).await {
            return;
        }
    }
}

/// Reads the two keys, because a listing costs the server a sort. Permits list: they also wait for the limit
/// and for all nodes ahead.
async fn still_behind(node: &EtcdNode, target: &Member) -> bool {
    if node.data.is_of_permits() {
        return false;
    }
    let key = |key: &[u8]| Op::GetKey(key.to_vec());
    // A failed read counts as a change: the following listing is retried.
    let Ok(read) = node.context.driver.read(vec![key(&node.own.key), key(&target.key)]).await else {
        return false;
    };
    let [own, other] = &*read.reads else { return false };
    let is_target = |other: &StoredKey| (other.created, other.modified) == (target.created, target.modified);
    let unchanged = node.own.is_in(own) && other.keys.first().is_some_and(is_target);
    if !unchanged {
        node.context.driver.rechecks.found_admission();
    }
    unchanged
}

async fn list(node: &EtcdNode, waiting: &Waiting) -> Result<Listing> {
    let mut backoff = Backoff::new(Pauses::OUTAGE);
    loop {
        let order = Order::NewestUpTo(node.own.state.sequence());
        let reading = read(&node.context.driver, &waiting.queue, node.data.claim, order);
        let read = tokio::select! {
            reason = node.own.state.until_lost() => return Err(Error::lost(reason)),
            read = reading => read,
        };
        match read.map_err(Error::from) {
            Ok((listing, stored)) => {
                match stored {
                    StoredLimit::Permits(limit) => waiting.limit.store(limit, Ordering::Release),
                    StoredLimit::Foreign(_) => return Err(node.data.claim.outweighs(&stored)),
                    StoredLimit::Absent => {}
                }
                return Ok(listing);
            }
            Err(error) if error.may_pass() => {
                tracing::debug!(%error, "a waiter could not list its queue; it tries again");
                tokio::select! {
                    _ = node.own.state.until_lost() => {}
                    () = backoff.wait(node.own.state.lease().clock()) => {}
                }
            }
            Err(error) => return Err(error),
        }
    }
}
