//! What goes on beside a hold: the own node is watched, and marked for those behind it.
//!
//! One task of the session does it for all of its holds: nothing is started for an acquisition that is over at once,
//! and a hold that lasts keeps little more than what the client crate keeps of a watch.
//!
//! A hold that began by a release that was told, without a listing, is looked at in its queue when it is watched. Who is not the first
//! there was told by somebody who does not keep to the protocol: the hold is lost as if it had been revoked, and its place is given back.
//!
//! Where the session watches much already, further holds are looked at instead, all of them in each three quarters of a TTL,
//! which is soon enough for NODE-GONE: more watches than the client crate can set again would cost the session at the next
//! break of its connection (see [`Driver::room_for`](crate::driver::Driver::room_for)).

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, FutureExt};
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, stream};
use latchwork_core::LostReason;
use latchwork_core::contracts::Node;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use crate::driver::{Driver, Event, Share, Watch};
use crate::error::Fault;
use crate::lease::Session;
use crate::limit::Limit;
use crate::node::{Turn, ZkNode};
use crate::tags::admitted;
use crate::wait::Armed;

/// How long a node is held before it is watched: arming shows what has happened by then, so a removal by hand in that time is
/// told at its end. Under load most holds are over by then, and cost neither a watch nor a timer of their own.
const ARMED_AFTER: Duration = Duration::from_millis(50);

/// How much longer permits are held before the stored limit is watched.
const SHORT_HOLD: Duration = Duration::from_millis(100);

/// An admitted node that is to be watched.
pub(crate) struct Guard {
    pub(crate) node: Weak<ZkNode>,
    /// The own watch, where the wait has armed one.
    pub(crate) own: Option<Armed>,
    /// The limit that counted at the admission, where a change of it is to be marked.
    pub(crate) limit: Option<Limit>,
    /// It was let in by a release that was told.
    pub(crate) told: bool,
}

impl Guard {
    /// Nothing to watch: it was over before.
    fn is_moot(&self) -> bool {
        self.own.is_none() && self.node.upgrade().is_none_or(|node| node.is_leaving())
    }
}

/// Looks under way at a time.
const LOOKS_AT_ONCE: usize = 64;

/// What a session holds and does not watch yet, or not at all.
#[derive(Default)]
pub(crate) struct Guards {
    new: Mutex<Vec<Guard>>,
    first: Notify,
    looked_at: Mutex<Vec<Looked>>,
}

/// A hold that there is no room to watch.
struct Looked {
    node: Weak<ZkNode>,
    /// As in [`Guard`], until it was marked.
    limit: Option<Limit>,
}

impl Guards {
    /// Has a node watched, soon. No request, no task and, but for the first in a while, no wake-up.
    pub(crate) fn add(&self, guard: Guard) {
        let mut new = self.new.lock();
        new.push(guard);
        if new.len() == 1 {
            self.first.notify_one();
        }
    }

    /// Waits until the first of those that are new is due.
    async fn due(&self) {
        self.first.notified().await;
        tokio::time::sleep(ARMED_AFTER).await;
    }

    fn take(&self) -> Vec<Guard> {
        std::mem::take(&mut *self.new.lock())
    }
}

impl std::fmt::Debug for Guards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guards").field("new", &self.new.lock().len()).finish_non_exhaustive()
    }
}

/// Sees to all that a session holds, until it falls silent.
pub(crate) async fn watch_over(session: Arc<Session>) {
    let guards = &session.guards;
    let mut watched = FuturesUnordered::new();
    let mut due = pin!(guards.due());
    let all = async {
        loop {
            tokio::select! {
                () = &mut due => {
                    watched.extend(guards.take().into_iter().filter_map(|guard| guarded(guard, &session)));
                    due.set(guards.due());
                }
                Some(()) = watched.next() => {}
            }
        }
    };
    tokio::select! {
        biased;
        () = session.driver.silent() => {}
        () = all => {}
        () = look_at_the_rest(&session) => {}
    }
}

/// Has a hold watched or looked at, and marks a holder of permits when the limit changes. Boxed where it is large and not
/// always there: this future lives as long as the hold.
fn guarded(guard: Guard, session: &Session) -> Option<impl Future<Output = ()> + Send + use<>> {
    if guard.is_moot() {
        return None;
    }
    let Guard { node, own, limit, told } = guard;
    let held = node.upgrade()?;
    if told {
        session.runtime.spawn(look_behind(Weak::clone(&node)));
    }
    let room = || {
        let own = session.driver.room_for(&held.path)?;
        // Counted for each holder of the limit, though the client crate names its path once: on the safe side.
        let limit = match (&held.limit, limit) {
            (Some(path), Some(limit)) => Some((limit, session.driver.room_for(path)?)),
            _ => None,
        };
        Some((own, limit))
    };
    let Some((room, limit)) = room() else {
        session.guards.looked_at.lock().push(Looked { node, limit });
        return None;
    };
    // One that the wait has armed is counted since.
    let watch = watch(node.clone(), own.ok_or(room), limit.as_ref().map(|(limit, _)| *limit));
    let Some((limit, limit_room)) = limit else { return Some(Either::Left(watch)) };
    Some(Either::Right(Box::pin(async move {
        let mut watch = pin!(watch);
        tokio::select! {
            biased;
            () = &mut watch => {}
            () = mark_when_limit_changes(node, limit, limit_room) => watch.await,
        }
    })))
}

/// Looks at the queue of a hold that was let in by what was told: it must be the first there. Behind a `sync`, since what has left is
/// still there on another server that lags.
async fn look_behind(node: Weak<ZkNode>) {
    while let Some(held) = node.upgrade().filter(|held| !held.is_leaving() && held.state.lost().is_none()) {
        match held.session.driver.sync_children(held.queue()).await {
            Ok(children) => match held.read_queue(children).position(held.name()) {
                // Where it is gone the watch on it tells.
                Some(0) | None => return,
                Some(ahead) => {
                    tracing::warn!(
                        path = %held.path,
                        ahead,
                        "a release was told to it that was none: its hold is given up. Somebody else writes into this namespace"
                    );
                    held.state.gone(LostReason::Revoked);
                    return give_back_place(&held).await;
                }
            },
            Err(fault) if fault.is_transient() && held.session.driver.recovered().await.is_ok() => {}
            Err(_) => return,
        }
    }
}

/// A node that is not held stands in nobody's way.
async fn give_back_place(node: &ZkNode) {
    while node.leave().await.is_err() {
        if node.session.driver.recovered().await.is_err() {
            return;
        }
    }
}

/// Looks at what there was no room to watch.
async fn look_at_the_rest(session: &Session) {
    let guards = &session.guards;
    // From the beginning of one round to that of the next.
    let mut due = tokio::time::interval(session.lease().ttl() * 3 / 4);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let round = std::mem::take(&mut *guards.looked_at.lock());
        let mut looks = stream::iter(round).map(look).buffer_unordered(LOOKS_AT_ONCE);
        while let Some(looked) = looks.next().await {
            guards.looked_at.lock().extend(looked);
        }
    }
}

/// Answers what is to be looked at again.
async fn look(mut looked: Looked) -> Option<Looked> {
    let node = looked.node.upgrade().filter(|node| !node.is_leaving())?;
    // Without an answer the next look tells, or the lease.
    if let Ok(false) = is_there(&node).await {
        node.removed();
        return None;
    }
    if let (Some(path), Some(limit)) = (&node.limit, looked.limit)
        && let Ok(stat) = node.session.driver.stat(path).await
        && stat.is_none_or(|stat| stat.mzxid != limit.written)
    {
        looked.limit = None;
        mark_admitted(Weak::clone(&looked.node)).await;
    }
    Some(looked)
}

/// Watches a node, under whichever name it has, and tells its owner when somebody else removes it. Armed by a request
/// of its own; a watch that the wait has armed is taken over. Where there is no room for another one it is looked at from then on, and
/// `limit` with it.
#[expect(clippy::manual_async_fn, reason = "an async fn would keep its arguments twice")]
fn watch(
    node: Weak<ZkNode>,
    own: Result<Armed, Share>,
    limit: Option<Limit>,
) -> impl Future<Output = ()> + Send {
    async move {
        let (mut own, mut room) = own.map_or_else(|room| (None, Some(room)), |own| (Some(own), None));
        loop {
            let event = match own.take() {
                Some(armed) => armed.await,
                None => match Box::pin(arm_own(&node)).await {
                    Some(watch) => {
                        // Which has its own share from now on.
                        drop(room.take());
                        watch.event_unless_silent().await
                    }
                    None => return,
                },
            };
            match event {
                Event::Deleted => {
                    let Some(node) = node.upgrade().filter(|node| !node.is_leaving()) else { return };
                    if node.turn() == Turn::None {
                        return node.removed();
                    }
                    // By its own downgrade, or not: the read that arms the next watch tells.
                }
                // Its data were written (a mark; a peer's wish for revocation): watched on.
                Event::Created | Event::Changed => {}
                // The lease tells of that.
                Event::SessionOver => return,
            }
            // The watch took its share with it, and others may have that by now.
            let Some(held) = node.upgrade() else { return };
            let Some(again) = held.session.driver.room_for(&held.path) else {
                return held.session.guards.looked_at.lock().push(Looked { node: Weak::clone(&node), limit });
            };
            room = Some(again);
        }
    }
}

/// Arms the watch on an own node; `None` where there is nothing more to watch.
async fn arm_own(node: &Weak<ZkNode>) -> Option<Watch> {
    loop {
        let node = node.upgrade()?;
        match watch_own(&node).await {
            Ok(watch) => return Some(watch),
            Err(Fault::NoNode) => {
                node.removed();
                return None;
            }
            Err(fault) if fault.is_transient() => node.session.driver.recovered().await.ok()?,
            Err(fault) => {
                tracing::debug!(?fault, path = %node.path, "an own node cannot be watched");
                return None;
            }
        }
    }
}

/// `NoNode`: it is gone under every name that it may have.
async fn watch_own(node: &ZkNode) -> Result<Watch, Fault> {
    under_any_name(node, |driver, path| {
        async move { driver.watch(&path).await.map(|(_, _, watch)| watch) }.boxed()
    })
    .await
}

/// Whether it is there under any name that it may have.
async fn is_there(node: &ZkNode) -> Result<bool, Fault> {
    let found = under_any_name(node, |driver, path| {
        async move { driver.stat(&path).await?.ok_or(Fault::NoNode) }.boxed()
    })
    .await;
    match found {
        Err(Fault::NoNode) => Ok(false),
        found => found.map(|_| true),
    }
}

/// Asks for a node by each name that it may have; `NoNode` where it has none of them.
async fn under_any_name<T>(
    node: &ZkNode,
    ask: for<'a> fn(&'a Driver, String) -> BoxFuture<'a, Result<T, Fault>>,
) -> Result<T, Fault> {
    loop {
        let turn = node.turn();
        for path in node.paths(turn) {
            match ask(&node.session.driver, path).await {
                Err(Fault::NoNode) => {}
                answer => return answer,
            }
        }
        // Asked to turn meanwhile, it may have another name by now.
        if node.turn() == turn {
            return Err(Fault::NoNode);
        }
    }
}

/// Marks the own node once the stored limit was written after the admission: those behind cannot tell from the sums who
/// is in then (RULES B6b), nor can who listed meanwhile where it was set back since.
async fn mark_when_limit_changes(node: Weak<ZkNode>, limit: Limit, room: Share) {
    // A short hold costs no watch; one that is armed late sees the change in the read that arms it.
    tokio::time::sleep(SHORT_HOLD).await;
    loop {
        let Some(held) = node.upgrade() else { return };
        let Some(path) = &held.limit else { return };
        let watch = match held.session.driver.watch(path).await {
            Ok((_, stat, watch)) if stat.mzxid == limit.written => watch,
            Ok(_) | Err(Fault::NoNode) => break,
            Err(fault) if fault.is_transient() && held.session.driver.recovered().await.is_ok() => continue,
            Err(_) => return,
        };
        // Not kept alive by its own watch.
        drop(held);
        // Which has its own share from now on.
        drop(room);
        match watch.event().await {
            Event::Created | Event::Changed | Event::Deleted => break,
            // The lease tells of that.
            Event::SessionOver => return,
        }
    }
    mark_admitted(node).await;
}

/// Marks the own node, so that the next one knows that it is the head: until it is confirmed (RULES B7).
pub(crate) async fn mark_admitted(node: Weak<ZkNode>) {
    while let Some(node) = node.upgrade().filter(|node| !node.is_leaving()) {
        let data = admitted(&node.label);
        match node.session.driver.write(&node.path, &data).await {
            Err(fault) if fault.is_transient() => {
                if node.session.driver.recovered().await.is_err() {
                    return;
                }
            }
            // Written; or gone, which the next one sees as well; or refused for good.
            _ => return,
        }
    }
}
