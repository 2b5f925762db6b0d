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
//! Far from the head of a mutex' queue there is another: whoever was admitted says so to the node behind it when it leaves
//! ([`hand_on`](crate::hand_on)), and that one is admitted without another look. It watches its predecessor all the same, which may leave in
//! another way: when that leaves and nothing is said with it, it lists. An admission by what was said is [checked](crate::check) behind it.
//!
//! *Why it ends.* Every wait ends by an event, the loss of the lease or of the node, or the re-check once a TTL that heals an
//! event which the server or the network lost (NODE-NO-LOST-WAKE).

use std::sync::atomic::Ordering;
use std::time::Duration;

use latchwork_core::contracts::StoredLimit;
use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::Standing;
use latchwork_core::{Error, Result};

use crate::backoff::Backoff;
use crate::check;
use crate::feed::{Seen, Until};
use crate::hand_on::{Follower, Message, Word};
use crate::keys::Queue;
use crate::nodes::{EtcdNode, Waiting};
use crate::terms::{Entry, Only, Order, Step};
use crate::view::{self, Member, View};
use crate::watch::Subscription;

/// How long a departure waits for what may be said with it before the queue is listed: the server tells what one transaction has
/// changed one after the other, in any order, on watches of their own.
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
        match view.standing(&node.own.key, limit) {
            None => node.own.state.gone(node.why_gone().await),
            Some(Standing::Admitted { mark }) => {
                // After the answer: the own deadline may have passed while it was under way.
                node.check_lost()?;
                node.settle(queue, mark, view.revision, Vec::new());
            }
            Some(_) if matches!(claim, Claim::Permits(weight) if weight > limit) => {
                return Err(claim.outweighs(&Some(limit).into()));
            }
            Some(Standing::Behind { watch, sole }) => {
                if sole && !queue.hands_on() {
                    waiting.near.store(true, Ordering::Release);
                }
                match behind(node, &waiting, &view, watch, sole).await {
                    Woken::Look => {}
                    Woken::Next => {
                        node.check_lost()?;
                        node.settle(queue, false, view.revision, Vec::new());
                    }
                    Woken::Told(behind) => {
                        node.check_lost()?;
                        node.settle(queue, false, view.revision, behind);
                        check::later(node, queue);
                    }
                }
            }
            Some(Standing::Head { ahead }) => at_head(node, queue, &view, ahead).await,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Woken {
    /// All that were ahead have left, and the own node had not been removed by then.
    Next,
    /// The same, as the last of them said; and who was behind then, as far as that one knew.
    Told(Vec<Follower>),
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
    let (mut departure, mut said) = if near {
        let ahead = if all { &view.members[..=watch] } else { std::slice::from_ref(target) };
        let keys = ahead.iter().map(|member| member.key.clone()).collect();
        (watches.departure(&queue.prefix, keys, Until::All, view.revision), None)
    } else {
        if view.long {
            watches.far_from_head(&queue.prefix);
        }
        let inbox = queue.place_of(&node.own.key);
        let said = inbox.map(|inbox| watches.inbox(&inbox, view.revision));
        (watches.departure_of_key(&queue.prefix, &target.key, view.revision), said)
    };
    // A writer may turn into a reader, and a holder of permits may be marked, in their places (RULES B6, B12).
    let mut change = (!exclusive).then(|| watches.key(target.key.clone(), Only::Puts, view.revision));
    tokio::select! {
        biased;
        _ = node.own.state.until_lost() => Woken::Look,
        word = seen(&mut said) => heard(node, word),
        left = departure.seen() => match left {
            Seen::Event(_) if near && (all || sole) => Woken::Next,
            Seen::Event(_) if said.is_some() => {
                let beside = tokio::time::timeout(BESIDE, seen(&mut said)).await;
                beside.map_or(Woken::Look, |word| heard(node, word))
            }
            Seen::Event(_) | Seen::Look => Woken::Look,
        },
        _ = seen(&mut change) => Woken::Look,
        // Beside the others: an event that comes while it is asked for is not kept waiting.
        () = no_more_behind(node, target) => Woken::Look,
    }
}

/// What was said to this very node, if it was.
fn heard(node: &EtcdNode, said: Seen) -> Woken {
    let Seen::Event(said) = said else { return Woken::Look };
    match Message::parse(&said) {
        Some(Message { to, word: Word::Next, behind }) if to == node.own.state.sequence() => {
            Woken::Told(behind)
        }
        _ => Woken::Look,
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

async fn seen(subscription: &mut Option<Subscription>) -> Seen {
    match subscription {
        Some(subscription) => subscription.seen().await,
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
    let key = |key: &[u8]| Step::See(key.to_vec());
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
        let reading = view::read(&node.client.driver, &waiting.queue, node.value.claim, order);
        let read = tokio::select! {
            reason = node.own.state.until_lost() => return Err(Error::lost(reason)),
            read = reading => read,
        };
        match read.map_err(Error::from) {
            Ok((view, stored)) => {
                match stored {
                    StoredLimit::Permits(limit) => waiting.limit.store(limit, Ordering::Release),
                    StoredLimit::Foreign(_) => return Err(node.value.claim.outweighs(&stored)),
                    // It goes on by the limit that it heard of last.
                    StoredLimit::Absent => {}
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
