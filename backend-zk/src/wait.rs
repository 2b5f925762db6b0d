//! Waiting to be admitted.
//!
//! # Why no wake-up is lost and nobody is admitted by mistake
//!
//! A watch event means "list again", never "admitted" (RULES B2), with two exceptions.
//!
//! * Where the last listing showed nobody ahead but the watched node, its deletion admits, and so does its absence when its
//!   watch is armed. To a reader those ahead are the writers, and that the only one turns reader admits it as well as if it
//!   left. It does not hold for writers of a read/write lock: a writer that turns reader makes a node with its own counter, ahead of us.
//! * In a mutex who had several ahead while it waited tells its release: it makes and deletes a node of its own name in another
//!   directory, and deletes its node, in one transaction. Who stands right behind it, and behind others, watches for that one
//!   too, and is admitted by the two events together, however many were ahead: whoever releases was admitted, so that all before it
//!   are gone. Any other end of a wait or hold is a mere deletion, and a wish of Curator's for revocation a mere change. Not at an
//!   exact address, where those ahead may be others'.
//!
//! Somebody else may make such a node. By itself it admits nobody: the end of the node ahead must come with it, as it does from one
//! transaction. It is not looked for at all where somebody may make it who may not delete nodes of queues (see
//! [`Trust`](crate::trust::Trust)). And a hold that lasts is looked at behind its admission (see [`guard`](crate::guard)).
//!
//! In both nobody can come in between or ahead, since counters only rise; the own node is watched too, on the same connection, whose
//! answers and events come in the server's order, and are looked at in it, so that its removal would be seen first; the own
//! deadline is compared last. Neither holds after a reconnect, which tells of all that was missed in any order (B4).
//!
//! Everywhere else (read/write locks and permits behind several, exact addresses) the listing behind the event decides, and
//! shows whether the own node is there (B1). The own node is watched then too, but for its owner's sake only, to hear at
//! once that somebody has removed it; so a wait of usual length does without that request, and one for which the session has
//! no room is told by its looks.
//!
//! A join may have watched the node right before its own, and not have listed: then its first wait lists unless it ends by a release.
//!
//! A watch is armed by a read: a node that left between the listing and the read is not there, so the
//! queue is listed again (B3), but for that exception; what the read shows (a mark) counts like the listing, and
//! another limit than the one that counted has it listed again. A wait looks again each three quarters of a TTL, in case the
//! server or the network dropped the event.

mod arm;
mod told;

use std::collections::HashSet;
use std::future::{self, Future};
use std::pin::Pin;
use std::time::Duration;

use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::{Standing, standing};
use latchwork_core::{Error, ErrorKind, Kind, Moment, Result};

use crate::driver::{Connection, Event, Look};
use crate::error::Fault;
use crate::limit::{Limit, read_limit, stored};
use crate::names::Queue;
use crate::node::{Entry, First, ZkNode};
use crate::nodes::{View, overtaken};
use crate::tags::is_admitted;
use arm::Ahead;
use told::{Told, next_told};

/// A watch that was armed, as the future of its event.
pub(crate) type Armed = Pin<Box<dyn Future<Output = Event> + Send>>;

/// How long a wait lasts before it watches the own node where no decision hangs on that.
const OWN_WATCHED_AFTER: Duration = Duration::from_millis(250);

/// From so many ahead on a waiter asks for its neighbour rather than for the queue, the next time.
const FAR_FROM_HEAD: usize = 4;

/// The two events of a release come from one transaction, one right behind the other: a deletion that comes later than this behind
/// the first is none of its.
const TOGETHER: Duration = Duration::from_millis(50);

/// Why a wait for events ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// What was watched is gone.
    Left,
    /// It was held, and is released.
    Released,
    /// Anything else: look again.
    Look,
}

impl ZkNode {
    /// Waits until admitted.
    pub(crate) async fn wait(&self) -> Result<()> {
        // Held over the whole wait: whichever event comes first on the session is seen first.
        let mut own: Option<Armed> = None;
        let own_due = self.state.lease().clock().now() + OWN_WATCHED_AFTER;
        let (mut view, mut first) = match self.first.lock().take() {
            Some(First::View(view)) => (Some(*view), None),
            Some(First::Behind(path, watched, connection)) => (None, Some((path, watched, connection))),
            None => (None, None),
        };
        let mut marked = HashSet::new();
        // Whether what was watched last may be further on than what a listing shows.
        let mut ahead_of_us = false;
        loop {
            if let Some(reason) = self.state.lost() {
                return Err(Error::lost(reason));
            }
            if self.has_entered() {
                return Ok(());
            }
            if self.is_leaving() {
                return Err(Error::new(ErrorKind::NotHeld, "it was left while it waited"));
            }
            if let Some((path, watched, connection)) = first.take() {
                self.crowded();
                let told = match connection {
                    Some(_) => self.arm_to_be_told(&mut own, &path).await,
                    None => Ok(None),
                };
                let admitted = match told {
                    Ok(told) => {
                        let ahead = Neighbour { path, watched, told, connection, alone: false };
                        self.behind(&mut own, own_due, ahead).await
                    }
                    Err(fault) => Err(fault),
                };
                match admitted {
                    Ok(Some(entry)) => return self.enter(entry, own, Limit::default()),
                    Ok(None) => {}
                    Err(fault) => self.heal(fault).await?,
                }
                continue;
            }
            let View { queue, limit } = match view.take() {
                Some(view) => view,
                None => match self.look(std::mem::take(&mut ahead_of_us)).await {
                    Ok(view) => view,
                    // The directory is gone, and our node with it.
                    Err(Fault::NoNode) => {
                        self.removed_while_waiting();
                        continue;
                    }
                    Err(fault) => {
                        self.heal(fault).await?;
                        continue;
                    }
                },
            };
            if matches!(self.claim, Claim::Permits(weight) if weight > limit.permits) {
                match self.outweighs().await {
                    Ok(Some(error)) => return Err(error),
                    Ok(None) => {}
                    Err(fault) => self.heal(fault).await?,
                }
                continue;
            }
            let Some(at) = queue.position(self.name()) else {
                self.removed_while_waiting();
                continue;
            };
            let waited = match standing(&queue.listed(|name| marked.contains(name)), at, limit.permits) {
                Standing::Admitted { mark } => return self.enter(Entry::of(mark), own, limit),
                Standing::Behind { watch, sole } => {
                    let name = &queue.0[watch].name;
                    let path = self.beside(name);
                    let place = self.session.place([path.as_str()]).await;
                    ahead_of_us = !place.is_here();
                    let may_be_alone = sole
                        && place.is_here()
                        && !(self.kind == Kind::RwLock && self.claim == Claim::Exclusive);
                    let may_be_told = !sole && place.is_here();
                    if !sole {
                        self.crowded();
                    }
                    let room = if may_be_alone { self.session.driver.room_for(&self.path) } else { None };
                    // Without room for both watches it lists again when its neighbour has left.
                    let alone = may_be_alone && (own.is_some() || room.is_some());
                    self.get_to_know(&queue, at);
                    // Taken before anything is armed on it.
                    let connection = place.is_here().then(|| self.session.driver.connection());
                    let own_first = async {
                        if alone {
                            self.arm_own(&mut own).await.map(|()| None)
                        } else if may_be_told {
                            self.arm_to_be_told(&mut own, &path).await
                        } else {
                            Ok(None)
                        }
                    };
                    let (own_armed, armed) = tokio::join!(biased; own_first, place.watch(&path));
                    drop((room, place));
                    let (told, armed) = match own_armed {
                        Ok(told) => (told, armed),
                        Err(fault) => (None, Err(fault)),
                    };
                    let watched: std::result::Result<Armed, Fault> = match armed {
                        Ok((data, _, _)) if self.is_permits() && is_admitted(&data) => {
                            marked.insert(name.clone());
                            view = Some(View { queue, limit });
                            continue;
                        }
                        Ok((_, _, watch)) => Ok(Box::pin(watch.event())),
                        // It left before it could be watched: as good as the event, behind the watch on the own node.
                        Err(Fault::NoNode) if alone && own.is_some() => {
                            Ok(Box::pin(future::ready(Event::Deleted)))
                        }
                        Err(fault) => Err(fault),
                    };
                    // It is as large as the queue: not kept while it waits.
                    drop(queue);
                    match watched {
                        Ok(watched) => {
                            let ahead = Neighbour { path, watched, told, connection, alone };
                            match self.behind(&mut own, own_due, ahead).await {
                                Ok(Some(entry)) => return self.enter(entry, own, limit),
                                waited => waited.map(drop),
                            }
                        }
                        Err(fault) => Err(fault),
                    }
                }
                Standing::Head { ahead } => {
                    let paths = self.paths_ahead(&queue, ahead);
                    let watched = paths.iter().map(String::as_str).chain(self.limit.as_deref());
                    let place = self.session.place(watched).await;
                    ahead_of_us = !place.is_here();
                    match self.arm_head(&place, &paths, ahead, limit).await {
                        Ok(Ahead::Same(armed)) => {
                            drop((queue, paths, place));
                            self.until(&mut own, own_due, None, armed, None).await.map(drop)
                        }
                        Ok(Ahead::Moved(queue)) => {
                            view = Some(View { queue, limit });
                            continue;
                        }
                        Ok(Ahead::Changed) => continue,
                        Err(fault) => Err(fault),
                    }
                }
            };
            match waited {
                // What was to be watched has left since the listing (RULES B3).
                Ok(_) | Err(Fault::NoNode) => {}
                Err(fault) => self.heal(fault).await?,
            }
        }
    }

    /// What is to be told the next join of this client: who is right before this place of the queue, or that it had to wait.
    fn get_to_know(&self, queue: &Queue, at: usize) {
        if self.claim != Claim::Exclusive {
            return;
        }
        let history = &self.session.history;
        if at < FAR_FROM_HEAD {
            history.near(self.kind, self.queue());
        } else if let Some(prefix) = queue.right_before(at) {
            history.far(self.kind, self.queue(), prefix);
        } else {
            history.forget_neighbour(self.queue());
        }
    }

    fn is_permits(&self) -> bool {
        matches!(self.claim, Claim::Permits(_))
    }

    /// Lists; behind a `sync` where the server may lag behind one that was heard.
    async fn look(&self, behind: bool) -> std::result::Result<View, Fault> {
        let look = self.session.driver.look(self.queue(), self.limit.as_deref(), behind);
        let Look { children, limit } = look.await?;
        // Half of what it takes to be far, or a queue of about that length would be now this and now that.
        if children.len() <= FAR_FROM_HEAD / 2 {
            self.session.history.forget_neighbour(self.queue());
        }
        let queue = self.read_queue(children);
        Ok(View { queue, limit: read_limit(limit)?.unwrap_or_default() })
    }

    /// What counts for this node of a listing: whether somebody follows is asked for permits only (RULES B6).
    pub(crate) fn read_queue(&self, children: Vec<String>) -> Queue {
        match self.claim {
            Claim::Permits(_) => Queue::read(self.kind, children),
            Claim::Exclusive | Claim::Shared => Queue::read_up_to(self.name(), self.kind, children),
        }
    }

    /// Waits behind one node; answers by what its end admits. Else: look again.
    async fn behind(
        &self,
        own: &mut Option<Armed>,
        own_due: Moment,
        ahead: Neighbour,
    ) -> std::result::Result<Option<Entry>, Fault> {
        let Neighbour { path, watched, told, connection, alone } = ahead;
        let woken = self.until(own, own_due, told, watched, Some(&path)).await?;
        let entry = match woken {
            Woken::Released => Some(Entry::Told),
            Woken::Left if alone => Some(Entry::Seen),
            Woken::Left | Woken::Look => None,
        };
        let lasted = own.is_some() && connection.is_some_and(|mut connection| connection.has_lasted());
        Ok(entry.filter(|_| lasted))
    }

    /// Waits for an event of what is watched (at `path`, where that is one node), of the own node, for the loss of
    /// the lease, or for the re-check. The own node is watched from `own_due` on, if it is not yet.
    async fn until(
        &self,
        own: &mut Option<Armed>,
        own_due: Moment,
        mut told: Option<Armed>,
        mut watched: Armed,
        path: Option<&str>,
    ) -> std::result::Result<Woken, Fault> {
        let (clock, mut declined) = (self.state.lease().clock(), false);
        // In time for NODE-GONE, should the own node not be watched.
        let next_look = || clock.now() + self.state.lease().ttl() * 3 / 4;
        let (mut again, mut announced) = (next_look(), None);
        loop {
            let unwatched = own.is_none() && !declined;
            tokio::select! {
                biased;
                news = next_told(own, &mut told, &mut watched) => return Ok(match news {
                    Told::Own(event) => {
                        *own = None;
                        if event == Event::Deleted {
                            self.removed_while_waiting();
                        }
                        Woken::Look
                    }
                    Told::Announced => {
                        announced = Some(clock.now());
                        continue;
                    }
                    Told::Released => Woken::Released,
                    Told::Watched(Event::Deleted) => match announced {
                        Some(at) if clock.now().since(at) <= TOGETHER => Woken::Released,
                        _ => Woken::Left,
                    },
                    Told::Watched(_) => Woken::Look,
                }),
                () = clock.sleep_until(own_due), if unwatched => {
                    let Some(room) = self.session.driver.room_for(&self.path) else {
                        declined = true;
                        continue;
                    };
                    self.arm_own(own).await?;
                    drop(room);
                    if own.is_none() {
                        // Too late: it is gone.
                        return Ok(Woken::Look);
                    }
                    continue;
                }
                _ = self.state.until_lost() => return Ok(Woken::Look),
                () = clock.sleep_until(again) => {}
            }
            let Some(path) = path.filter(|_| !self.is_permits()) else { return Ok(Woken::Look) };
            let driver = &self.session.driver;
            let (own_node, watched_node) = tokio::join!(driver.stat(&self.path), driver.stat(path));
            if own_node?.is_none() {
                self.removed_while_waiting();
                return Ok(Woken::Look);
            }
            if watched_node?.is_none() {
                return Ok(Woken::Look);
            }
            again = next_look();
        }
    }

    /// The end of a wait for permits whose weight does not fit what is stored; `None` where it fits by now.
    async fn outweighs(&self) -> std::result::Result<Option<Error>, Fault> {
        let Some(path) = self.limit.as_deref() else { return Ok(None) };
        let stored = stored(&self.session, path).await?;
        let fits = stored.permits().is_some_and(|limit| self.claim.weight() <= limit);
        Ok((!fits).then(|| self.claim.outweighs(&stored)))
    }

    /// After a request that came to nothing: waits until it makes sense to ask again.
    async fn heal(&self, fault: Fault) -> Result<()> {
        let fault = match fault {
            fault if fault.is_transient() => match self.session.driver.recovered().await {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            },
            fault => fault,
        };
        let error = overtaken(&self.session, fault, "wait");
        Err(self.state.lost().map_or(error, Error::lost))
    }
}

/// The node ahead that is waited for.
struct Neighbour {
    path: String,
    watched: Armed,
    /// Tells of its release.
    told: Option<Armed>,
    /// As it was before anything was armed on it; `None` where another session watches.
    connection: Option<Connection>,
    /// Nobody else is ahead, and the own node is watched.
    alone: bool,
}
