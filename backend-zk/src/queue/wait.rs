//! Waiting to be admitted.
//!
//! List the queue, decide, watch the node ahead, and list again at any event of it (CHAIN-EVENT-LISTS-AGAIN).
//! The listing that admits shows the own node (CHAIN-OWN-NODE-AND-DEADLINE). The read that arms the watch
//! shows changes since the listing (CHAIN-ARM-THEN-LOOK). A re-check each three quarters of a TTL finds a
//! lost event (NODE-NO-LOST-WAKE). On the fast path, a [`Shortcut`] admits by the event itself.
//!
//! The own node is watched too, except in a short wait, so that its removal is noticed at once. Beyond the
//! budget, the re-checks find it.

mod events;
mod head;

use std::collections::HashSet;
use std::future;
use std::time::Duration;

use latchwork_core::backend::decide::chain::{Standing, standing};
use latchwork_core::{Claim, Error, ErrorKind, Moment, Result};

use super::admission::Admission;
use super::created::KnownPredecessor;
use super::fast_path::{self, Shortcut};
use super::limit::{WrittenLimit, read_limit, stored};
use super::zk_node::{FirstLook, Listing, ZkNode};
use crate::driver::{Armed, Event, QueueReply};
use crate::error::{Answer, Fault, if_there};
use crate::layout::is_admitted;
use crate::queue::woken::Woken;
use events::{Ahead, QueueEvent, next_event};
use head::HeadWatch;

const OWN_WATCHED_AFTER: Duration = Duration::from_millis(250);

pub(super) struct Wait<'a> {
    node: &'a ZkNode,
    own: Option<Armed>,
    own_due: Moment,
    listing: Option<Listing>,
    known: Option<KnownPredecessor>,
    marked: HashSet<String>,
    /// The last event came from another server than the one that lists, which may lack the change.
    sync: bool,
}

enum WaitStep {
    Admitted(Admission, WrittenLimit),
    Again,
    Ended(Error),
}

impl<'a> Wait<'a> {
    pub(super) fn of(node: &'a ZkNode) -> Self {
        let (listing, known) = match node.first_look.lock().take().map(|look| *look) {
            Some(FirstLook::Listing(listing)) => (Some(listing), None),
            Some(FirstLook::Behind(known)) => (None, Some(known)),
            None => (None, None),
        };
        let own_due = node.state.lease().clock().now() + OWN_WATCHED_AFTER;
        Self { node, own: None, own_due, listing, known, marked: HashSet::new(), sync: false }
    }

    pub(super) async fn until_admitted(mut self) -> Result<()> {
        let node = self.node;
        loop {
            if let Some(reason) = node.state.lost() {
                return Err(Error::lost(reason));
            }
            if node.has_entered() {
                return Ok(());
            }
            if node.is_leaving() {
                return Err(Error::new(ErrorKind::NotHeld, "the node left the queue while it waited"));
            }
            let step = match self.known.take() {
                Some(known) => self.behind_known(known).await,
                None => self.stand().await,
            };
            match step {
                Ok(WaitStep::Admitted(admission, limit)) => return node.enter(admission, self.own, limit),
                Ok(WaitStep::Ended(error)) => return Err(error),
                Ok(WaitStep::Again) | Err(Fault::NoNode) => {}
                Err(fault) => heal(node, fault).await?,
            }
        }
    }

    async fn stand(&mut self) -> Answer<WaitStep> {
        let node = self.node;
        let Some(Listing { contenders, limit }) = self.list().await? else { return Ok(WaitStep::Again) };
        if matches!(node.claim, Claim::Permits(weight) if weight > limit.permits) {
            return Ok(outweighed(node).await?.map_or(WaitStep::Again, WaitStep::Ended));
        }
        let Some(at) = contenders.position(node.name()) else {
            node.removed_while_waiting();
            return Ok(WaitStep::Again);
        };
        match standing(&contenders.listed(|name| self.marked.contains(name)), at, limit.permits) {
            Standing::Admitted { mark } => Ok(WaitStep::Admitted(Admission::seen(mark), limit)),
            Standing::Behind { watch, sole } => {
                fast_path::learn_position(node, &contenders, at);
                self.behind(Listing { contenders, limit }, watch, sole).await
            }
            Standing::Head { ahead } => self.head(Listing { contenders, limit }, ahead).await,
        }
    }

    /// `None`: the queue's directory and the own node are gone.
    async fn list(&mut self) -> Answer<Option<Listing>> {
        if let Some(listing) = self.listing.take() {
            return Ok(Some(listing));
        }
        let (node, sync) = (self.node, std::mem::take(&mut self.sync));
        let reply = if_there(node.driver().look(node.queue(), node.limit.as_deref(), sync).await)?;
        let Some(QueueReply { children, limit }) = reply else {
            node.removed_while_waiting();
            return Ok(None);
        };
        fast_path::listed(node, children.len());
        let limit = read_limit(limit)?.unwrap_or_default();
        Ok(Some(Listing { contenders: node.contenders(children), limit }))
    }

    /// `sole`: no other contender is ahead.
    async fn behind(&mut self, listing: Listing, watch: usize, sole: bool) -> Answer<WaitStep> {
        let (node, session) = (self.node, &self.node.session);
        let name = &listing.contenders.0[watch].name;
        let path = node.beside(name);
        if !sole {
            node.set_contended();
        }
        let watcher = session.fast_path.watcher(&session.driver, [path.as_str()]).await;
        self.sync = !watcher.is_own();
        // The own node is armed first, on the same connection, in the same trip.
        let shortcut = async {
            if watcher.is_own() { Shortcut::arm(node, &mut self.own, &path, sole).await } else { Ok(None) }
        };
        let (shortcut, watched) = tokio::join!(biased; shortcut, watcher.watch(&path));
        drop(watcher);
        let shortcut = shortcut?;
        let end_admits = self.own.is_some() && shortcut.as_ref().is_some_and(|shortcut| shortcut.sole);
        let watched: Armed = match watched {
            Ok((data, _, _)) if self.is_permits() && is_admitted(&data) => {
                self.marked.insert(name.clone());
                self.listing = Some(listing);
                return Ok(WaitStep::Again);
            }
            Ok((_, _, watch)) => watch.boxed(),
            // It left after the own node was watched, which equals its event.
            Err(Fault::NoNode) if end_admits => Box::pin(future::ready(Event::Deleted)),
            Err(fault) => return Err(fault),
        };
        let limit = listing.limit;
        drop(listing);
        self.until_its_end(path, watched, shortcut, limit).await
    }

    async fn behind_known(&mut self, known: KnownPredecessor) -> Answer<WaitStep> {
        let KnownPredecessor { path, watched, connection } = known;
        self.node.set_contended();
        let shortcut = match connection {
            Some(connection) => Shortcut::behind_several(self.node, &mut self.own, &path, connection).await?,
            None => None,
        };
        self.until_its_end(path, watched, shortcut, WrittenLimit::default()).await
    }

    async fn until_its_end(
        &mut self,
        path: String,
        watched: Armed,
        mut shortcut: Option<Shortcut>,
        limit: WrittenLimit,
    ) -> Answer<WaitStep> {
        let release = shortcut.as_mut().and_then(|shortcut| shortcut.release.take());
        let woken = self.until(Ahead { watched, release }, Some(&path)).await?;
        let admission = shortcut.and_then(|shortcut| shortcut.admits(woken, self.own.is_some()));
        Ok(admission.map_or(WaitStep::Again, |admission| WaitStep::Admitted(admission, limit)))
    }

    async fn head(&mut self, listing: Listing, ahead: usize) -> Answer<WaitStep> {
        let (node, session) = (self.node, &self.node.session);
        let limit = listing.limit;
        let paths = head::paths_ahead(node, &listing.contenders, ahead);
        let watched = paths.iter().map(String::as_str).chain(node.limit.as_deref());
        let watcher = session.fast_path.watcher(&session.driver, watched).await;
        self.sync = !watcher.is_own();
        match head::arm(node, &watcher, &paths, ahead, limit).await? {
            HeadWatch::Armed(watched) => {
                drop((listing, paths, watcher));
                self.until(Ahead { watched, release: None }, None).await?;
            }
            HeadWatch::Moved(contenders) => self.listing = Some(Listing { contenders, limit }),
            HeadWatch::Changed => {}
        }
        Ok(WaitStep::Again)
    }

    /// Waits for an event of the nodes ahead (at `path`, if it is one node) or of the own node, the loss of
    /// the lease, or a change at a re-check.
    async fn until(&mut self, mut ahead: Ahead, path: Option<&str>) -> Answer<Woken> {
        let (node, own_due, driver) = (self.node, self.own_due, &self.node.session.driver);
        let clock = node.state.lease().clock();
        // NODE-GONE needs this if the own node is not watched.
        let next_look = || clock.now() + node.state.lease().ttl() * 3 / 4;
        let (mut again, mut declined) = (next_look(), false);
        loop {
            let unwatched = self.own.is_none() && !declined;
            tokio::select! {
                biased;
                event = next_event(&mut self.own, &mut ahead, clock) => return Ok(match event {
                    QueueEvent::Own(event) => {
                        self.own = None;
                        if event == Event::Deleted {
                            node.removed_while_waiting();
                        }
                        Woken::Look
                    }
                    QueueEvent::Ahead(woken) => woken,
                }),
                () = clock.sleep_until(own_due), if unwatched => {
                    let Some(budget) = driver.dispensable_budget(&node.path) else {
                        declined = true;
                        continue;
                    };
                    node.arm_own(&mut self.own).await?;
                    drop(budget);
                    if self.own.is_none() {
                        return Ok(Woken::Look);
                    }
                    continue;
                }
                _ = node.state.until_lost() => return Ok(Woken::Look),
                () = clock.sleep_until(again) => {}
            }
            let Some(path) = path.filter(|_| !self.is_permits()) else { return Ok(Woken::Look) };
            let (own, watched) = tokio::join!(driver.stat(&node.path), driver.stat(path));
            if own?.is_none() {
                node.removed_while_waiting();
                return Ok(Woken::Look);
            }
            if watched?.is_none() {
                driver.rechecks.found_admission();
                return Ok(Woken::Look);
            }
            again = next_look();
        }
    }

    fn is_permits(&self) -> bool {
        matches!(self.node.claim, Claim::Permits(_))
    }
}

/// `None`: the weight fits now.
async fn outweighed(node: &ZkNode) -> Answer<Option<Error>> {
    let Some(path) = node.limit.as_deref() else { return Ok(None) };
    let stored = stored(&node.session, path).await?;
    let fits = stored.permits().is_some_and(|limit| node.claim.weight() <= limit);
    Ok((!fits).then(|| node.claim.outweighs(&stored)))
}

async fn heal(node: &ZkNode, fault: Fault) -> Result<()> {
    let healed = if fault.is_transient() { node.driver().recovered().await } else { Err(fault) };
    healed.map_err(|fault| {
        let error = node.session.error(fault, "wait");
        node.state.lost().map_or(error, Error::lost)
    })
}
