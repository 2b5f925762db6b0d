//! Waiting for admission.
//!
//! *Protocol.* Where a node stands is decided by core from a listing in which the own node must be. It watches what core names:
//! its predecessor, the nearest earlier writer, or, at the head of a queue of permits, every node ahead and the limit. An
//! event means "list again" (RULES B2), with one exception: when the listing showed nobody else ahead, the departure itself
//! admits, since nobody can come in ahead. That holds only where an earlier removal of the own node would be told first
//! (RULES B1): on the queue's own watch, or when the own node's watch is as old.
//!
//! *Why it ends.* Every wait ends by an event, the loss of the lease or of the node, or the re-check once a TTL that heals an
//! event which the server or the network lost (NODE-NO-LOST-WAKE).

use std::sync::atomic::Ordering;

use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::Standing;
use latchwork_core::{Error, LostReason, Result};

use crate::backoff::Backoff;
use crate::feed::Seen;
use crate::nodes::EtcdNode;
use crate::terms::{Only, Order, Step};
use crate::view::{self, Member, View};
use crate::watch::{SHORT, Subscription};

pub(crate) async fn until_admitted(node: &EtcdNode) -> Result<()> {
    let mut seen = node.take_view();
    loop {
        node.check_lost()?;
        if node.is_admitted() {
            return Ok(());
        }
        let view = match seen.take() {
            Some(view) => view,
            None => look(node).await?,
        };
        let (claim, limit) = (node.value.claim, node.limit.load(Ordering::Acquire));
        match view.standing(&node.own.key, claim, limit) {
            None => node.own.state.gone(LostReason::Revoked),
            Some(Standing::Admitted { mark }) => {
                // After the answer: the own deadline may have passed while it was under way.
                node.check_lost()?;
                node.settle(mark, view.revision);
            }
            Some(_) if matches!(claim, Claim::Permits(weight) if weight > limit) => {
                return Err(claim.outweighs(limit));
            }
            Some(Standing::Behind { watch, sole }) => {
                if sole {
                    node.near.store(true, Ordering::Release);
                }
                match behind(node, &view, watch, sole).await? {
                    Woken::Next => {
                        node.check_lost()?;
                        node.settle(false, view.revision);
                    }
                    Woken::Look(view) => seen = view,
                }
            }
            Some(Standing::Head { ahead }) => at_head(node, &view, ahead).await,
        }
    }
}

enum Woken {
    /// The only one ahead has left, and the own node had not been removed by then.
    Next,
    /// Something happened, or may have; what the queue looked like since, if it was looked at.
    Look(Option<View>),
}

/// Waits behind one node.
async fn behind(node: &EtcdNode, view: &View, watch: usize, mut sole: bool) -> Result<Woken> {
    let (watches, target) = (&node.client.watches, &view.members[watch]);
    let departs = |member: &Member, after| watches.key(member.key.clone(), Only::Deletes, after);
    let near = node.near.load(Ordering::Acquire);
    // Far from the head: how many will leave before the one that is watched does in its turn.
    let before_it = if near || !view.more { 0 } else { view.hidden + watch as u64 };
    let mut departure = if near {
        watches.departure(&node.queue.prefix, vec![target.key.clone()], view.revision)
    } else {
        watches.far_from_head(&node.queue.prefix);
        departs(target, view.revision + before_it)
    };
    let exclusive = node.value.claim == Claim::Exclusive;
    // Far from the head the one before the predecessor is watched too: when it leaves, the predecessor's turn has come, and
    // there is time to see that nobody else is ahead.
    let ahead = |view: &View, watch: usize| {
        let before = watch.checked_sub(1).filter(|_| exclusive && !near)?;
        Some(departs(&view.members[before], view.revision))
    };
    let (mut out_of_turn, mut before) = (None, None);
    let mut is_short = !near;
    // A writer may turn into a reader, and a holder of permits may be marked, in their places (RULES B6, B12).
    let mut change = (!exclusive).then(|| watches.key(target.key.clone(), Only::Puts, view.revision));
    let clock = node.own.state.lease().clock();
    let told_first = || near || watches.hears_in_order(&node.own.key);
    loop {
        tokio::select! {
            biased;
            _ = node.own.state.until_lost() => return Ok(Woken::Look(None)),
            seen = departure.seen() => {
                let next = seen == Seen::Event && sole && told_first();
                return Ok(if next { Woken::Next } else { Woken::Look(None) });
            }
            () = seen(&mut out_of_turn) => return Ok(Woken::Look(None)),
            () = seen(&mut change) => return Ok(Woken::Look(None)),
            // Where the own removal might be told late, the departure must be followed by a look anyway.
            () = seen(&mut before) => {
                if !told_first() {
                    before = None;
                    continue;
                }
                let later = look(node).await?;
                match later.standing(&node.own.key, node.value.claim, 0) {
                    Some(Standing::Behind { watch, sole: next }) if later.members[watch].created == target.created => {
                        sole = next;
                        before = ahead(&later, watch);
                    }
                    _ => return Ok(Woken::Look(Some(later))),
                }
            }
            () = tokio::time::sleep(SHORT), if is_short => {
                is_short = false;
                // It may leave out of its turn too, and may have done so already: nothing since the listing is missed.
                out_of_turn = (before_it > 0).then(|| departs(target, view.revision));
                before = ahead(view, watch);
            }
            () = clock.sleep_until(clock.now() + node.own.state.lease().ttl()) => {
                if !still_behind(node, target).await {
                    return Ok(Woken::Look(None));
                }
            }
        }
    }
}

/// Waits as the first that is not admitted: for any node ahead to leave, and for the limit to change.
async fn at_head(node: &EtcdNode, view: &View, ahead: usize) {
    let watches = &node.client.watches;
    let keys = view.members[..ahead].iter().map(|member| member.key.clone()).collect();
    let mut departure = watches.departure(&node.queue.prefix, keys, view.revision);
    let mut limit = watches.key(node.queue.limit.clone().into_bytes(), Only::Puts, view.revision);
    let clock = node.own.state.lease().clock();
    tokio::select! {
        biased;
        _ = node.own.state.until_lost() => {}
        _ = departure.seen() => {}
        _ = limit.seen() => {}
        () = clock.sleep_until(clock.now() + node.own.state.lease().ttl()) => {}
    }
}

async fn seen(subscription: &mut Option<Subscription>) {
    match subscription {
        Some(subscription) => {
            subscription.seen().await;
        }
        None => std::future::pending().await,
    }
}

/// The re-check, by key: whether own and watched node are as they were. A listing costs the server a sort.
async fn still_behind(node: &EtcdNode, target: &Member) -> bool {
    let key = |key: &[u8]| Step::Get(key.to_vec());
    // What cannot be read is listed again, which goes on trying.
    let Ok(outcome) = node.client.driver.read(vec![key(&node.own.key), key(&target.key)]).await else {
        return false;
    };
    let entry = |at: usize| outcome.reads.get(at).and_then(|found| found.entries.first());
    entry(0).is_some_and(|own| own.created == node.own.state.sequence())
        && entry(1).is_some_and(|other| (other.created, other.modified) == (target.created, target.modified))
}

/// Lists, again and again until there is an answer or the lease is lost.
async fn look(node: &EtcdNode) -> Result<View> {
    let mut backoff = Backoff::new();
    loop {
        let order = Order::NewestUpTo(node.own.state.sequence());
        let reading = view::read(&node.client.driver, &node.queue, node.value.claim, order);
        let read = tokio::select! {
            reason = node.own.state.until_lost() => return Err(Error::lost(reason)),
            read = reading => read,
        };
        match read.map_err(Error::from) {
            Ok((view, limit)) => {
                if let Some(limit) = limit {
                    node.limit.store(limit, Ordering::Release);
                }
                return Ok(view);
            }
            Err(error) if error.is_retryable() => {
                tracing::debug!(%error, "a waiter could not list its queue");
                tokio::select! {
                    _ = node.own.state.until_lost() => {}
                    () = backoff.pause() => {}
                }
            }
            Err(error) => return Err(error),
        }
    }
}
