use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork_core::backend::decide::renewal_period;
use latchwork_core::backend::{AT_ONCE, CloseOnce, SingleFlight, Throttle};
use latchwork_core::seen::{self, Rechecks};
use latchwork_core::{Clock, Error, Lease, LostReason, Moment, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::cells::leased::LeasedCells;
use crate::config::{NAME, Settings};
use crate::driver::{Cursor, Driver, Place};
use crate::layout::QueueKeys;
use crate::lease::ClientLease;
use crate::queue::confirmations::Confirmations;
use crate::scripts::{self, Call, Flags, Reply};
use crate::watch::{Attempt, Channels, Inbox};

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    pub(crate) ttl: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) lease: ClientLease,
    pub(crate) leased: LeasedCells,
    /// Background work must not end with the runtime of a caller.
    pub(crate) runtime: Handle,
    pub(crate) cleanup: SingleFlight<()>,
    pub(crate) confirmations: Confirmations,
    pub(crate) rechecks: Rechecks,
    pub(crate) closing: CancellationToken,
    pub(crate) closed: CloseOnce,
    throttles: Throttles,
    large_replies: Throttles,
    warned: AtomicBool,
}

impl Client {
    pub(crate) fn new(
        driver: Driver,
        clock: Clock,
        inbox: Arc<Inbox>,
        channels: Arc<Channels>,
        lease: ClientLease,
        settings: &Settings,
    ) -> Self {
        Self {
            driver,
            clock,
            ttl: settings.ttl,
            request_timeout: settings.request_timeout,
            inbox,
            channels,
            lease,
            leased: LeasedCells::default(),
            runtime: Handle::current(),
            cleanup: SingleFlight::default(),
            confirmations: Confirmations::new(settings.clone()),
            rechecks: Rechecks::new(NAME),
            closing: CancellationToken::new(),
            closed: CloseOnce::default(),
            throttles: Throttles::of(AT_ONCE),
            large_replies: Throttles::of(LARGE_AT_ONCE),
            warned: AtomicBool::new(false),
        }
    }

    /// The time limit of renewals: a renewal longer than its period is late anyway.
    pub(crate) fn renewal_bound(&self) -> Duration {
        self.request_timeout.min(renewal_period(self.ttl))
    }

    pub(crate) fn forget(&self, attempt: &Arc<Attempt>) {
        if !self.closing.is_cancelled() {
            self.inbox.forget(attempt);
        }
    }

    /// Runs a script, until a close. Renewals do not use this method, so that they do not wait for the
    /// throttle.
    pub(crate) async fn run(&self, call: &Call) -> Result<(Moment, Reply)> {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(Error::closed()),
            // Not a separate function: this future exists once for each request, and must be small.
            answer = async {
                let throttle = self.throttles.of_place(self.driver.place_of(call));
                let (_pass, left) = throttle.take(self.request_timeout).await?;
                self.driver.run(call, left).await
            } => answer,
        }
    }

    pub(crate) async fn run_large(&self, call: &Call) -> Result<(Moment, Reply)> {
        let throttle = self.large_replies.of_place(self.driver.place_of(call));
        let (_pass, _) = self.until_closed(throttle.take(self.large_patience())).await?;
        self.run(call).await
    }

    pub(crate) async fn scan(
        &self,
        from: &Cursor,
        pattern: &str,
        count: usize,
    ) -> Result<(Option<Cursor>, Vec<Vec<u8>>)> {
        let throttle = self.large_replies.of_place(Driver::place_of_step(from));
        self.until_closed(async {
            let (_pass, _) = throttle.take(self.large_patience()).await?;
            self.driver.scan(from, pattern, count, self.request_timeout).await
        })
        .await
    }

    /// Half of it is for the wait for a pass: several rounds of requests may be ahead.
    fn large_patience(&self) -> Duration {
        self.request_timeout.saturating_mul(8)
    }

    pub(crate) async fn until_closed<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(Error::closed()),
            answer = answer => answer,
        }
    }

    /// Returns whether the script changed the queue.
    pub(crate) async fn change(self: &Arc<Self>, queue: &QueueKeys, call: &Call) -> Result<bool> {
        let (_, reply) = self.run(call).await?;
        let (was_done, flags) = scripts::was_done(reply)?;
        self.act_on(flags, queue);
        Ok(was_done)
    }

    pub(crate) fn act_on(self: &Arc<Self>, flags: Flags, queue: &QueueKeys) {
        self.warn_of(flags);
        if flags.more() {
            self.runtime.spawn(sweep(Arc::clone(self), queue.clone()));
        }
    }

    pub(crate) fn warn_of(&self, flags: Flags) {
        if flags.publish_refused() && !self.warned.swap(true, Ordering::Relaxed) {
            seen::publish_refused(NAME);
        }
    }

    /// `Forgotten` if the server has become another incarnation since the node was last seen. Otherwise it
    /// was removed.
    pub(crate) fn why_gone(&self, queue: &QueueKeys, lease: &Lease) -> LostReason {
        match last_seen(lease) < self.driver.incarnation_since(queue.tag()) {
            true => LostReason::Forgotten,
            false => LostReason::Revoked,
        }
    }
}

/// The most requests with a large reply in flight at a server: pages of listings, of about 256 KiB
/// (`list.lua`), and steps of walks. A client that listens to channels may have 8 MB of unread replies for a
/// minute, and 32 MB at any time (`client-output-buffer-limit pubsub`). Beyond that, the server closes the
/// connection, which also carries the renewals.
const LARGE_AT_ONCE: usize = 16;

/// One throttle for each server, so that requests to an unreachable server do not block others. Former
/// masters keep theirs.
#[derive(Debug)]
struct Throttles {
    most: usize,
    of_places: Mutex<HashMap<Place, Arc<Throttle>>>,
}

impl Throttles {
    fn of(most: usize) -> Self {
        Self { most, of_places: Mutex::default() }
    }

    fn of_place(&self, place: Place) -> Arc<Throttle> {
        let mut of_places = self.of_places.lock();
        Arc::clone(of_places.entry(place).or_insert_with(|| Arc::new(Throttle::of(self.most))))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// When the request was sent that last proved a node.
pub(crate) fn last_seen(lease: &Lease) -> Moment {
    lease.deadline() - lease.ttl().saturating_sub(lease.margin())
}

/// Repeats a script that handles a bounded number of nodes, until all expired nodes are dropped and all
/// admitted ones notified. After a crash, the waiters' re-checks continue the work.
async fn sweep(client: Arc<Client>, queue: QueueKeys) {
    let call = scripts::renew([(&queue, Vec::new())], client.ttl);
    loop {
        let answer = client.run(&call).await.and_then(|(_, reply)| scripts::renewed(reply));
        match answer {
            Ok((_, queues)) if matches!(queues.first(), Some(Ok((flags, _))) if flags.more()) => {}
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(%error, "could not remove all expired nodes of a queue; the next operation on it continues");
                return;
            }
        }
    }
}
