use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::entrance::{Entrance, Entry};
use super::lease_report::LeaseReport;
use super::presence::{Entered, Own, Presence};
use super::stamp::Refusal;
use crate::cleanup::Task;
use crate::contracts::{Backend, Close, Node, RegistrationBound};
use crate::error::{Error, ErrorKind, LostReason};
use crate::seen;
use crate::support::{Backoff, Pauses};

const PAUSE: Duration = Duration::from_millis(20);

/// The task that keeps a client registered until it is closed.
pub(super) struct Keeper {
    entrance: Entrance,
    stands: watch::Sender<Presence>,
    wanted: Arc<Notify>,
}

impl Keeper {
    pub(super) fn start(entrance: Entrance, backend: Arc<dyn Backend>, entry: Entry) -> Entered {
        let (presence, registered) = match entry {
            Entry::Registered(node) => {
                let bound = RegistrationBound::new(node.state().lease());
                let own = (node, bound);
                (Presence::Entered(own.clone()), Some(own))
            }
            Entry::Reads(why) => (Presence::Away(why), None),
        };
        let (stands, presence) = watch::channel(presence);
        let wanted = Arc::new(Notify::new());
        let (operator, request_timeout) = (entrance.operator, entrance.request_timeout);
        let report = LeaseReport::of(backend.name());
        let (clients, record) = (entrance.place.clients.clone(), Arc::clone(&entrance.record));
        let keeper = Self { entrance, stands, wanted: Arc::clone(&wanted) };
        tokio::spawn(keeper.keep(Arc::downgrade(&backend), registered, report));
        Entered { backend, operator, request_timeout, presence, wanted, clients, record }
    }

    /// Registers the client again after each loss of its node, until the client is closed. Reports the node's
    /// lease, which shows the state of all leases.
    async fn keep(self, backend: Weak<dyn Backend>, mut registered: Option<Own>, mut report: LeaseReport) {
        loop {
            if let Some((node, _)) = &registered {
                let reason = report.until_lost(&**node).await;
                if reason == LostReason::Closed {
                    return;
                }
                seen::registered_anew(report.backend(), reason);
            }
            let lost = registered.as_ref().map(|(node, _)| node);
            let Some(node) = self.enter_anew(&backend, lost).await else { return };
            let lease = node.state().lease();
            let continued = registered.take().map(|(_, bound)| bound).filter(|bound| bound.continues(lease));
            let bound = continued.unwrap_or_else(|| RegistrationBound::new(lease));
            let own = (node, bound);
            self.stands.send_replace(Presence::Entered(own.clone()));
            registered = Some(own);
        }
    }

    /// Returns `None` when the client has ended.
    async fn enter_anew(
        &self,
        backend: &Weak<dyn Backend>,
        lost: Option<&Arc<dyn Node>>,
    ) -> Option<Arc<dyn Node>> {
        let lease = backend.upgrade()?.lease();
        let mut backoff = Backoff::new(Pauses::of_watch(lease.ttl()));
        if let Some(lost) = lost {
            // The lost node may still exist on the server.
            let left = Task::leave(&self.entrance.place.clients, lost);
            self.entrance.undo(&backend.upgrade()?, left);
        }
        let mut may_repeat = true;
        loop {
            let client = backend.upgrade()?;
            let error = match self.entrance.enter(&client).await {
                Ok(node) => return Some(node),
                Err(Refusal::Older(error)) => {
                    seen::layout_ended(client.name(), &error);
                    return self.end(&*client, error).await;
                }
                Err(Refusal::Moved(error)) => {
                    seen::move_ended(client.name(), &error);
                    return self.end(&*client, error).await;
                }
                Err(Refusal::Unregistered(error) | Refusal::Unread(error)) => match error.kind() {
                    ErrorKind::Closed => return None,
                    _ => error,
                },
            };
            drop(client);
            tracing::debug!(%error, "this client is not registered yet");
            // The loss of the node is noticed before the loss of its lease. A try on the old lease makes
            // nothing, so only the next one's answer counts.
            if error.lost_reason().is_some() && std::mem::take(&mut may_repeat) {
                continue;
            }
            self.stands.send_replace(Presence::Away(error));
            let clock = lease.clock();
            tokio::select! {
                () = backoff.wait(clock) => {}
                // A request waits: try soon, but not at once, since there may be many.
                () = async {
                    clock.sleep_until(clock.now() + PAUSE).await;
                    self.wanted.notified().await;
                } => {}
            }
        }
    }

    /// Ends a client that is no longer admitted. Its holds expire, so their work ends before another client
    /// is admitted.
    async fn end(&self, client: &dyn Backend, why: Error) -> Option<Arc<dyn Node>> {
        self.stands.send_replace(Presence::Out(why));
        // An abrupt close sends nothing, and cannot fail.
        let _ = client.close(Close::Abrupt).await;
        None
    }
}
