use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_ok};
use futures_util::stream::{self, BoxStream, StreamExt};
use latchwork_core::{Error, Eviction, Moment, Result};
use tokio::time::Instant;

use super::cluster::Cluster;
use super::command::{by_pattern, scanned};
use super::connection::{Request, Server};
use super::cursor::Cursor;
use super::dial::Setup;
use super::facts::{self, Said};
use super::link::LiveConnection;
use super::refresh;
use super::slots::{slot_of, slot_of_call};
use crate::config::{Host, Servers};
use crate::error::{Answer, closed};
use crate::scripts::{Call, Reply};

#[derive(Debug)]
pub(crate) struct Driver {
    route: Route,
    watched: bool,
}

#[derive(Debug)]
enum Route {
    One(Arc<Server>),
    Cluster(Arc<Cluster>),
}

/// Ends when the driver is closed or dropped.
pub(crate) type Lost = BoxStream<'static, Place>;

/// `None`: the only server, or an unknown host.
pub(crate) type Place = Option<Arc<Host>>;

pub(crate) fn by_server<T>(
    items: impl IntoIterator<Item = T>,
    place: impl Fn(&T) -> Place,
) -> HashMap<Place, Vec<T>> {
    let mut servers: HashMap<Place, Vec<T>> = HashMap::new();
    for item in items {
        servers.entry(place(&item)).or_default().push(item);
    }
    servers
}

impl Driver {
    pub(crate) async fn connect(setup: Setup) -> Answer<(Self, Lost, Eviction)> {
        let watched = matches!(setup.settings.servers, Servers::Watched(_));
        Ok(match setup.settings.servers.clone() {
            Servers::Cluster(seeds) => {
                let (cluster, losses, eviction) = refresh::connect(setup, seeds).await?;
                let losses = stream::unfold(losses, |mut losses| async move {
                    losses.recv().await.map(|host| (Some(host), losses))
                });
                (Self { route: Route::Cluster(cluster), watched }, losses.boxed(), eviction)
            }
            _ => {
                let (server, eviction) = Server::connect(setup).await?;
                let losses = stream::unfold(server.losses(), |mut losses| async move {
                    losses.next().await.map(|()| (None, losses))
                });
                (Self { route: Route::One(Arc::new(server)), watched }, losses.boxed(), eviction)
            }
        })
    }

    fn servers(&self) -> Vec<Arc<Server>> {
        match &self.route {
            Route::One(server) => vec![Arc::clone(server)],
            Route::Cluster(cluster) => cluster.servers(),
        }
    }

    /// Also returns when the script was sent: a proof by the reply counts from there.
    ///
    /// # Errors
    /// `Unavailable` if the script was not carried out, `OutcomeUnknown` if it may have been, `Closed`, or
    /// the server's error.
    pub(crate) async fn run(&self, call: &Call, within: Duration) -> Result<(Moment, Reply)> {
        match &self.route {
            Route::One(server) => Ok(server.request(Request::Script(call), None, within).await?),
            Route::Cluster(cluster) => cluster.run(call, within).await,
        }
    }

    pub(crate) async fn run_all<'a>(
        &self,
        calls: impl IntoIterator<Item = &'a Call>,
        within: Duration,
    ) -> Vec<Result<(Moment, Reply)>> {
        join_all(calls.into_iter().map(|call| self.run(call, within))).await
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.route, Route::Cluster(_))
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    pub(crate) async fn said(&self, within: Duration) -> Vec<Said> {
        join_all(self.servers().iter().map(|server| facts::said(server, within))).await
    }

    /// `None` if all keys are on one server.
    pub(crate) fn slot(&self, key: &str) -> Option<u16> {
        self.is_cluster().then(|| slot_of(key.as_bytes()))
    }

    pub(crate) fn place(&self, key: &str) -> Place {
        self.place_by(|| slot_of(key.as_bytes()))
    }

    pub(crate) fn place_of(&self, call: &Call) -> Place {
        self.place_by(|| slot_of_call(call))
    }

    fn place_by(&self, slot: impl FnOnce() -> u16) -> Place {
        match &self.route {
            Route::One(_) => None,
            Route::Cluster(cluster) => cluster.map.borrow().host(slot()),
        }
    }

    pub(crate) fn place_of_step(from: &Cursor) -> Place {
        from.host.clone().map(Arc::new)
    }

    /// When the server of these keys was first met; `Moment::PAST` for the first server.
    pub(crate) fn incarnation_since(&self, key: &str) -> Moment {
        match &self.route {
            Route::One(server) => server.incarnation.since(),
            Route::Cluster(cluster) => {
                let (slot, map) = (slot_of(key.as_bytes()), cluster.map.borrow());
                let restarted = map.owner(slot).map_or(Moment::PAST, |server| server.incarnation.since());
                map.since(slot).max(restarted)
            }
        }
    }

    pub(crate) fn leads_to(&self, place: &Place, run_id: Option<&str>) -> bool {
        match (&self.route, place) {
            (Route::One(server), _) => server.incarnation.is(run_id),
            (Route::Cluster(cluster), Some(host)) => {
                cluster.map.borrow().server(host).is_some_and(|server| server.incarnation.is(run_id))
            }
            (Route::Cluster(_), None) => false,
        }
    }

    /// Of the current or last connections. `None`: a server does not report its run id.
    pub(crate) fn run_id(&self) -> Option<String> {
        let ids = self.servers().iter().map(|server| server.incarnation.run_id()).collect::<Option<Vec<_>>>();
        // The result does not depend on the names by which a client reaches the servers.
        let mut ids = ids?;
        ids.sort_unstable();
        Some(ids.join("+"))
    }

    /// In a cluster one answer is enough.
    pub(crate) async fn ping(&self, within: Duration) -> Result<Moment> {
        let command = redis::cmd("PING");
        let servers = self.servers();
        let asked: Vec<_> = servers
            .iter()
            .map(|server| Box::pin(server.request(Request::Command("PING", &command), None, within)))
            .collect();
        if asked.is_empty() {
            return Err(closed());
        }
        let ((sent, _), _) = select_ok(asked).await?;
        Ok(sent)
    }

    pub(crate) async fn scan(
        &self,
        from: &Cursor,
        pattern: &str,
        count: usize,
        within: Duration,
    ) -> Result<(Option<Cursor>, Vec<Vec<u8>>)> {
        let command = by_pattern(from.at, pattern, count);
        match &self.route {
            Route::One(server) => {
                let (next, keys) = scanned(server.ask("SCAN", &command, within).await?)?;
                Ok(((next > 0).then_some(Cursor { at: next, host: None }), keys))
            }
            Route::Cluster(cluster) => {
                let found = cluster.map.borrow().server_or_first(from.host.as_ref());
                let Some((host, server)) = found else { return Ok((None, Vec::new())) };
                // If this server has left, the walk begins again: any server may have its slots.
                let begun = from.host.as_ref().is_none_or(|from| *from == *host);
                let command = if begun { command } else { by_pattern(0, pattern, count) };
                let (next, keys) = scanned(server.ask("SCAN", &command, within).await?)?;
                let next = match next {
                    0 => cluster
                        .map
                        .borrow()
                        .behind(&host)
                        .map(|host| Cursor { at: 0, host: Some((*host).clone()) }),
                    at => Some(Cursor { at, host: Some((*host).clone()) }),
                };
                Ok((next, keys))
            }
        }
    }

    pub(crate) async fn standing(&self, channel: &str, within: Duration) -> Result<LiveConnection> {
        match &self.route {
            Route::One(server) => server.standing(within).await,
            Route::Cluster(cluster) => {
                let (slot, until) = (slot_of(channel.as_bytes()), Instant::now() + within);
                let (server, wire) = cluster.owner(slot, until).await?;
                Ok(server.standing_on(&wire))
            }
        }
    }

    pub(crate) async fn listen(
        &self,
        on: &LiveConnection,
        channel: &str,
        listen: bool,
        within: Duration,
    ) -> Result<()> {
        match &self.route {
            Route::One(server) => server.listen(on, channel, listen, within).await,
            Route::Cluster(cluster) => {
                let server = cluster.map.borrow().server(&on.host);
                server.ok_or_else(closed)?.listen(on, channel, listen, within).await
            }
        }
    }

    pub(crate) async fn close(&self, within: Duration) {
        join_all(self.servers().iter().map(|server| server.close(within))).await;
        self.cut();
    }

    pub(crate) fn cut(&self) {
        match &self.route {
            Route::One(server) => server.cut(),
            Route::Cluster(cluster) => cluster.cut(),
        }
    }

    /// All keys of one script must be in one slot: `tag`.
    pub(crate) fn by_slot<T>(
        &self,
        all: impl IntoIterator<Item = T>,
        tag: impl Fn(&T) -> &str,
    ) -> impl Iterator<Item = Vec<T>> {
        let mut slots: BTreeMap<Option<u16>, Vec<T>> = BTreeMap::new();
        for one in all {
            slots.entry(self.slot(tag(&one))).or_default().push(one);
        }
        slots.into_values()
    }

    pub(crate) fn is_stale(&self) {
        if let Route::Cluster(cluster) = &self.route {
            cluster.stale.notify_one();
        }
    }
}

pub(crate) fn of_two_slots() -> Error {
    let why = "on a Redis Cluster, write_while needs a hold of the same key as the value, so that one server has both";
    Error::unsupported("held_writes", why)
}
