//! Requests to a cluster: each script goes to the server that has its keys now
//! (`docs/protocol/redis-cluster.md`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{Backoff, Pauses, or_pending};
use latchwork_core::{Error, ErrorKind, Moment, Result};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::connection::{Chosen, Request, Server};
use super::dial::Setup;
use super::link::Wire;
use super::map::Map;
use super::slots::{Range, slot_of_call};
use crate::config::Host;
use crate::error::{Again, closed};
use crate::scripts::{Call, Reply};

const PROMPT: usize = 2;

pub(super) struct Cluster {
    pub(super) setup: Setup,
    pub(super) map: watch::Sender<Map>,
    pub(super) stale: Arc<Notify>,
    /// The runtime of a request may end before the client's.
    runtime: Handle,
    lost: mpsc::UnboundedSender<Arc<Host>>,
}

impl Cluster {
    /// Also returns the hosts whose connections are lost from now on.
    pub(super) fn new(setup: Setup) -> (Self, mpsc::UnboundedReceiver<Arc<Host>>) {
        let (lost, losses) = mpsc::unbounded_channel();
        let (map, stale) = (watch::Sender::new(Map::new()), Arc::default());
        (Self { setup, map, stale, runtime: Handle::current(), lost }, losses)
    }

    /// # Errors
    /// As a request to one server. `Unavailable` also while the script's slot is being moved, or has no
    /// server.
    pub(super) async fn run(&self, call: &Call, within: Duration) -> Result<(Moment, Reply)> {
        let slot = slot_of_call(call);
        let until = Instant::now() + within;
        let (mut pauses, mut redirected) = (Backoff::new(Pauses::IN_REQUEST), 0);
        let mut asks: Option<Host> = None;
        loop {
            let asking = asks.take();
            let found = match &asking {
                Some(host) => self.importing(host, until).await?,
                None => Some(self.owner(slot, until).await?),
            };
            let Some((server, wire)) = found else { continue };
            let from = Arc::clone(&wire.host);
            let chosen = Chosen { wire, asks: asking.is_some(), until };
            let failure = match server.request(Request::Script(call), Some(chosen), within).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            // The request was not carried out.
            match &failure.again {
                Some(Again::Moved(host)) => self.moved(slot, &Host::named(host, &from)?),
                Some(Again::Ask(host)) => asks = Some(Host::named(host, &from)?),
                Some(Again::Later) => self.stale.notify_one(),
                Some(Again::WithText) | None => return Err(failure.error),
            }
            redirected += 1;
            let at_once = redirected <= PROMPT && failure.again != Some(Again::Later);
            let pause = if at_once { Duration::ZERO } else { pauses.next() };
            if Instant::now() + pause >= until {
                let what = "the keys of this slot are being moved";
                return Err(Error::new(ErrorKind::Unavailable, what).because(failure.error));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// `None`: the map drops this server during the wait.
    async fn importing(&self, host: &Host, until: Instant) -> Result<Option<(Arc<Server>, Wire)>> {
        let server = self.server(host);
        match timeout_at(until, server.up()).await {
            Ok(Ok(wire)) => Ok(Some((server, wire))),
            Ok(Err(_)) if !self.map.borrow().closed => Ok(None),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                let what = format!("not connected to {host}, which gets the keys of this slot");
                Err(Error::new(ErrorKind::Unavailable, what))
            }
        }
    }

    pub(super) async fn owner(&self, slot: u16, until: Instant) -> Result<(Arc<Server>, Wire)> {
        let mut map = self.map.subscribe();
        loop {
            let server = {
                let map = map.borrow_and_update();
                if map.closed {
                    return Err(Error::closed());
                }
                map.owner(slot)
            };
            tokio::select! {
                biased;
                wire = or_pending(server.as_ref().map(|server| server.up())) => match (wire, server) {
                    (Ok(wire), Some(server)) => return Ok((server, wire)),
                    _ => match timeout_at(until, map.changed()).await {
                        Ok(changed) => changed.map_err(|_| Error::closed())?,
                        Err(_) => return Err(closed()),
                    },
                },
                changed = map.changed() => changed.map_err(|_| Error::closed())?,
                () = sleep_until(until) => {
                    let what = format!("not connected to the master of slot {slot}");
                    let why = server.and_then(|server| server.why_down());
                    return Err(Error::new(ErrorKind::Unavailable, what).because_of(why));
                }
            }
        }
    }

    pub(super) fn server(&self, host: &Host) -> Arc<Server> {
        let known = self.map.borrow().server(host);
        known.unwrap_or_else(|| {
            let mut server = None;
            self.map.send_modify(|map| server = Some(map.server_or(host, || self.dialling(host))));
            server.unwrap_or_else(|| self.dialling(host))
        })
    }

    fn moved(&self, slot: u16, host: &Host) {
        let master = host.clone();
        self.apply(&[Range { first: slot, last: slot, master }], false);
        self.stale.notify_one();
    }

    /// `all`: servers without any of the slots are not needed.
    pub(super) fn apply(&self, ranges: &[Range], all: bool) {
        let now = self.setup.clock.now();
        let mut gone = Vec::new();
        self.map.send_if_modified(|map| {
            if map.closed {
                return false;
            }
            let mut changed = false;
            for Range { first, last, master } in ranges {
                map.server_or(master, || self.dialling(master));
                changed |= map.set(*first..=*last, master, now);
            }
            if all {
                gone = map.without_slots();
            }
            changed || !gone.is_empty()
        });
        gone.iter().for_each(|server| server.cut());
    }

    fn dialling(&self, host: &Host) -> Arc<Server> {
        let _on_its_own = self.runtime.enter();
        let server = Arc::new(Server::dialling(self.setup.of_shard(host)));
        self.watch_over(host, &server);
        server
    }

    /// A replica may take over, so a lost connection asks for the map.
    pub(super) fn watch_over(&self, host: &Host, server: &Server) {
        let (mut losses, lost) = (server.losses(), self.lost.clone());
        let (host, stale) = (Arc::new(host.clone()), Arc::clone(&self.stale));
        tokio::spawn(async move {
            while losses.next().await.is_some() {
                stale.notify_one();
                if lost.send(Arc::clone(&host)).is_err() {
                    return;
                }
            }
        });
    }

    pub(super) fn servers(&self) -> Vec<Arc<Server>> {
        self.map.borrow().servers()
    }

    pub(super) fn cut(&self) {
        let mut servers = Vec::new();
        self.map.send_modify(|map| {
            map.closed = true;
            servers = map.servers();
        });
        servers.iter().for_each(|server| server.cut());
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::Clock;

    use super::*;
    use crate::config::Settings;

    fn setup(clock: Clock) -> Setup {
        let settings = Settings::of(&"redis-cluster://127.0.0.1:1".parse().unwrap()).unwrap();
        Setup { settings, clock, on_message: Arc::new(|_, _| {}), reconnected: Arc::default() }
    }

    #[tokio::test]
    async fn a_server_without_slots_is_disconnected_by_a_whole_map_alone() {
        let (cluster, _losses) = Cluster::new(setup(Clock::tokio()));
        let [old, new] = [1, 2].map(|port| Host { name: "127.0.0.1".to_owned(), port });
        let all_of = |master: &Host| [Range { first: 0, last: 16_383, master: master.clone() }];
        cluster.apply(&all_of(&old), true);
        // The test must not keep the server in use.
        let link = cluster.server(&old).link.subscribe();
        cluster.apply(&all_of(&new), false);
        assert!(!link.borrow().is_closed());
        cluster.apply(&all_of(&new), true);
        assert!(link.borrow().is_closed(), "it stays connected without slots");
        let ports: Vec<_> = cluster.map.borrow().hosts().iter().map(|(host, _)| host.port).collect();
        assert_eq!(ports, [2]);
    }

    #[test]
    fn a_server_that_a_request_has_learnt_of_is_dialled_on_the_clients_runtime() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (own, callers) = (runtime(), runtime());
        let (cluster, _losses) = own.block_on(async { Cluster::new(setup(Clock::system())) });
        let host = Host { name: "127.0.0.1".to_owned(), port: 1 };
        callers.block_on(async { cluster.moved(0, &host) });
        assert_eq!(callers.metrics().num_alive_tasks(), 0, "it would end with the caller's runtime");
        assert_eq!(own.metrics().num_alive_tasks(), 2, "its dialler, and who hears of its losses");
    }
}
