//! Waiting for admission.
//!
//! *Protocol.* Where a node stands is decided by core from a listing in which the own node must be. It watches what core names:
//! its predecessor, the nearest earlier writer, or, at the head of a queue of permits, every node ahead and the limit. An
//! event means "list again" (RULES B2), with two exceptions. Near the head an exclusive node knows all that are ahead, and the
//! queue's own watch, which is complete from the listing on, tells when the last of them has left. Nobody can come in
//! ahead, since create revisions only grow; an earlier removal of the own node would have been told first, on that same watch, or,
//! if that ran ahead of the join's answer, with that answer; and the own lease's deadline is looked at (RULES B1). So it is admitted
//! without another look.
//!
//! Far from the head of a mutex' queue there is another: by a [`Count`] of releases it may know that its turn has come. It is told so
//! ([`Ticket`]), and admitted without another look if its own node has been watched on the same stream since before its join; else it
//! reads its node and the count, in one transaction. It watches its predecessor all the same: when that leaves and nothing is told with it, as
//! somebody ahead has left in another way, it lists. The server tells one watch's events in order, but two watches' only as long as it
//! is not behind with one of them: a waiter that somebody removes by hand just then may be admitted before it hears of that, as a holder may
//! hold on before it does.
//!
//! *Why it ends.* Every wait ends by an event, the loss of the lease or of the node, or the re-check once a TTL that heals an
//! event which the server or the network lost (NODE-NO-LOST-WAKE).

use std::sync::atomic::Ordering;
use std::time::Duration;

use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::Standing;
use latchwork_core::{Error, LostReason, Result};

use crate::backoff::Backoff;
use crate::count::Count;
use crate::feed::{Seen, Until};
use crate::keys::Queue;
use crate::nodes::{EtcdNode, Waiting};
use crate::terms::{Entry, Only, Order, Step};
use crate::ticket::{Called, Ticket};
use crate::view::{self, Member, View};
use crate::watch::{LONG_WAIT, Subscription};

/// How long a departure waits for the count that may be told with it before the queue is listed: the server tells what one transaction has
/// changed one after the other, in any order, on watches of their own; and who was watched may not have been the last ahead.
const BESIDE: Duration = Duration::from_millis(2);

pub(crate) async fn until_admitted(node: &EtcdNode) -> Result<()> {
    loop {
        node.check_lost()?;
        let Some(waiting) = node.waiting() else {
            return Ok(());
        };
        let queue = &waiting.queue;
        let view = match waiting.take_view() {
            Some(view) => view,
            None => look(node, &waiting).await?,
        };
        let (claim, limit) = (node.value.claim, waiting.limit.load(Ordering::Acquire));
        match view.standing(&node.own.key, claim, limit) {
            None => node.own.state.gone(LostReason::Revoked),
            Some(Standing::Admitted { mark }) => {
                // After the answer: the own deadline may have passed while it was under way.
                node.check_lost()?;
                if view.short {
                    node.client.watches.near_head(&queue.prefix);
                }
                node.settle(queue, mark, view.revision, view.count);
            }
            Some(_) if matches!(claim, Claim::Permits(weight) if weight > limit) => {
                return Err(claim.outweighs(limit));
            }
            Some(Standing::Behind { watch, sole }) => {
                if sole {
                    waiting.near.store(true, Ordering::Release);
                }
                let admitted = match behind(node, &waiting, &view, watch, sole).await {
                    Woken::Next => Some(None),
                    Woken::Called(Called::Next(count)) => Some(Some(count)),
                    Woken::Called(Called::Maybe) => counted(node, &waiting).await.map(Some),
                    Woken::Look => None,
                };
                if let Some(count) = admitted {
                    node.check_lost()?;
                    node.settle(queue, false, view.revision, count);
                }
            }
            Some(Standing::Head { ahead }) => at_head(node, queue, &view, ahead).await,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    /// All that were ahead have left, and the own node had not been removed by then.
    Next,
    /// A release was counted that tells so.
    Called(Called),
    /// Something happened, or may have.
    Look,
}

/// Waits behind one node.
async fn behind(node: &EtcdNode, waiting: &Waiting, view: &View, watch: usize, sole: bool) -> Woken {
    let (watches, target, queue) = (&node.client.watches, &view.members[watch], &waiting.queue);
    let exclusive = node.value.claim == Claim::Exclusive;
    let near = waiting.near.load(Ordering::Acquire);
    // Whether the end of the wait admits: all that are ahead are waited for, on the queue's own watch.
    let all = near && exclusive && !view.more;
    // Far from the head: how many will leave before the one that is watched does in its turn.
    let before_it = if near || !queue.is_one_by_one() { 0 } else { view.hidden + watch as u64 };
    let mut ticket = None;
    let (mut departure, complete) = if near {
        if waiting.counts {
            watches.forget_neighbour(&queue.prefix);
        } else {
            watches.near_head(&queue.prefix);
        }
        let ahead = if all { &view.members[..=watch] } else { std::slice::from_ref(target) };
        let keys = ahead.iter().map(|member| member.key.clone()).collect();
        (watches.departure(&queue.prefix, keys, Until::All, view.revision), true)
    } else {
        watches.far_from_head(&queue.prefix);
        ticket = waiting.turn.and_then(|turn| Ticket::draw(watches, queue, turn, &node.own, view.revision));
        watches.departure_in_turn(&queue.prefix, &target.key, exclusive, view.revision, before_it)
    };
    let mut out_of_turn = None;
    // A writer may turn into a reader, and a holder of permits may be marked, in their places (RULES B6, B12).
    let mut change = (!exclusive).then(|| watches.key(target.key.clone(), Only::Puts, view.revision));
    let (long_wait, healed) = (tokio::time::sleep(LONG_WAIT), no_more_behind(node, target));
    tokio::pin!(long_wait, healed);
    loop {
        tokio::select! {
            biased;
            _ = node.own.state.until_lost() => return Woken::Look,
            called = called(&mut ticket) => return called,
            seen = departure.seen() => {
                return match seen {
                    Seen::Event if near && (all || sole) => Woken::Next,
                    Seen::Event => called_beside(&mut ticket).await,
                    Seen::Look => Woken::Look,
                };
            }
            () = seen(&mut out_of_turn) => return called_beside(&mut ticket).await,
            () = seen(&mut change) => return Woken::Look,
            // It may leave out of its turn too, and may have done so already: nothing since the listing is missed.
            () = &mut long_wait, if !complete && out_of_turn.is_none() => {
                out_of_turn = Some(watches.key(target.key.clone(), Only::Deletes, view.revision));
            }
            // Beside the others: an event that comes while it is asked for is not kept waiting.
            () = &mut healed => return Woken::Look,
        }
    }
}

async fn called(ticket: &mut Option<Ticket>) -> Woken {
    match ticket {
        Some(ticket) => Woken::Called(ticket.called().await),
        None => std::future::pending().await,
    }
}

/// Whether its turn is told beside a departure.
async fn called_beside(ticket: &mut Option<Ticket>) -> Woken {
    if ticket.is_none() {
        return Woken::Look;
    }
    tokio::time::timeout(BESIDE, called(ticket)).await.unwrap_or(Woken::Look)
}

/// What is counted, where that says that all ahead have left.
async fn counted(node: &EtcdNode, waiting: &Waiting) -> Option<Count> {
    let turn = waiting.turn?;
    tokio::select! {
        _ = node.own.state.until_lost() => None,
        // What cannot be read is listed, which goes on trying.
        count = node.look_at_count(&waiting.queue, turn) => count.ok().flatten(),
    }
}

/// Waits as the first that is not admitted: for any node ahead to leave, and for the limit to change.
async fn at_head(node: &EtcdNode, queue: &Queue, view: &View, ahead: usize) {
    let watches = &node.client.watches;
    let keys = view.members[..ahead].iter().map(|member| member.key.clone()).collect();
    let mut departure = watches.departure(&queue.prefix, keys, Until::Any, view.revision);
    let mut limit = watches.key(queue.limit.clone().into_bytes(), Only::Puts, view.revision);
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

/// Waits until a re-check, once a TTL, finds a change that no event has told.
async fn no_more_behind(node: &EtcdNode, target: &Member) {
    let lease = node.own.state.lease();
    loop {
        lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
        if !still_behind(node, target).await {
            return;
        }
    }
}

/// The re-check, by key: whether own and watched node are as they were. A listing costs the server a sort. Where permits stand
/// hangs on the limit and on all that are ahead too: they list.
async fn still_behind(node: &EtcdNode, target: &Member) -> bool {
    if node.value.is_of_permits() {
        return false;
    }
    let key = |key: &[u8]| Step::Get(key.to_vec());
    // What cannot be read is listed again, which goes on trying.
    let Ok(outcome) = node.client.driver.read(vec![key(&node.own.key), key(&target.key)]).await else {
        return false;
    };
    let [own, other] = &*outcome.reads else { return false };
    let is_target = |other: &Entry| (other.created, other.modified) == (target.created, target.modified);
    node.own.is_in(own) && other.entries.first().is_some_and(is_target)
}

/// Lists, again and again until there is an answer or the lease is lost.
async fn look(node: &EtcdNode, waiting: &Waiting) -> Result<View> {
    let mut backoff = Backoff::new();
    loop {
        let order = Order::NewestUpTo(node.own.state.sequence());
        let counter = if waiting.counts { waiting.queue.counter() } else { None };
        let reading = view::read(&node.client.driver, &waiting.queue, node.value.claim, order, counter);
        let read = tokio::select! {
            reason = node.own.state.until_lost() => return Err(Error::lost(reason)),
            read = reading => read,
        };
        match read.map_err(Error::from) {
            Ok((view, limit)) => {
                if let Some(limit) = limit {
                    waiting.limit.store(limit, Ordering::Release);
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
