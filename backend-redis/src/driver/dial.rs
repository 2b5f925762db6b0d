use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use latchwork_core::backend::decide::renewal_period;
use latchwork_core::backend::{Backoff, LinkLog, Pauses};
use latchwork_core::{Clock, Error, ErrorKind, Eviction};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, Value};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::handshake::handshake;
use super::incarnation::Incarnation;
use super::link::{Link, Wire, take_down};
use super::open::{connect, login, within};
use super::sentinels;
use super::switches::Word;
use crate::config::{Host, Sentinels, Servers, Settings};
use crate::error::{Answer, Failure, closed, from_redis};

/// The most requests that wait to be written: an acquisition must not wait for a burst of renewals.
const BUFFER: usize = 4096;

/// Called on the connection's task with each message and its channel: it must not block.
pub(crate) type OnMessage = Arc<dyn Fn(&[u8], &[u8]) + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) on_message: OnMessage,
    pub(crate) reconnected: Arc<Notify>,
}

impl Setup {
    pub(super) fn of_shard(&self, host: &Host) -> Self {
        Self { settings: self.settings.of_shard(host.clone()), ..self.clone() }
    }
}

pub(super) struct Dialler {
    pub(super) setup: Setup,
    pub(super) incarnation: Arc<Incarnation>,
    pub(super) link: Weak<watch::Sender<Link>>,
    pub(super) word: Arc<Word>,
}

impl Dialler {
    pub(super) async fn keep_dialling(self, mut link: watch::Receiver<Link>, log: LinkLog) {
        let mut generation = 0;
        let mut was_up = matches!(*link.borrow(), Link::Up(_));
        loop {
            let down = link.wait_for(|link| !matches!(link, Link::Up(_))).await;
            let Some(cause) = down.ok().and_then(|link| link.why()) else { return };
            if was_up {
                log.broken(&cause);
            }
            generation += 1;
            let Some((wire, asked)) = self.redial(generation, &mut link, &log).await else { return };
            let Some(link) = self.link.upgrade() else { return };
            let up = link.send_if_modified(|link| {
                let Link::Down(down) = link else { return false };
                match self.word.against(&wire.host, asked) {
                    None => *link = Link::Up(wire),
                    // The Sentinels have named another master during the dial.
                    Some(why) => *down = why,
                }
                matches!(link, Link::Up(_))
            });
            was_up = up;
            if up {
                log.mended();
                // Messages may have been lost: the client must read all nodes.
                self.setup.reconnected.notify_one();
            }
        }
    }

    /// `None`: the driver is closed or dropped. Also returns the count of the Sentinels' announcements that
    /// it knew.
    async fn redial(
        &self,
        generation: u64,
        link: &mut watch::Receiver<Link>,
        log: &LinkLog,
    ) -> Option<(Wire, u64)> {
        let mut pauses = Backoff::new(Pauses::RECONNECT);
        // After an unanswered renewal a third of the TTL remains, and one attempt must not take all of it.
        let mut bound = renewal_period(self.setup.settings.ttl) / 2;
        loop {
            let asked = self.word.count();
            let attempt = async {
                // Before the first attempt too, because all clients of a server lose their connections at
                // once.
                tokio::time::sleep(pauses.next()).await;
                self.dial(generation, bound).await
            };
            let dialled = tokio::select! {
                dialled = attempt => dialled,
                _ = link.wait_for(Link::is_closed) => return None,
            };
            let failure = match dialled {
                Ok((wire, _)) => return Some((wire, asked)),
                Err(failure) => failure,
            };
            tracing::debug!(host = log.host(), error = %failure.error, "not reconnected yet");
            // The reason for requests that give up now. No task waits for this change.
            self.link.upgrade()?.send_if_modified(|link| {
                if let Link::Down(why) = link {
                    *why = failure.error;
                }
                false
            });
            bound = bound.saturating_mul(2);
        }
    }

    /// Connects, logs in, and checks the server. No answer takes longer than `bound`.
    pub(super) async fn dial(&self, generation: u64, bound: Duration) -> Answer<(Wire, Eviction)> {
        let settings = &self.setup.settings;
        let bound = bound.min(settings.request_timeout).min(settings.connect_timeout / 2);
        let config = within(bound).set_pipeline_buffer_size(BUFFER).set_push_sender(self.on_push(generation));
        let (host, mut connection) = reach(settings, config, bound).await?;
        let shaken = handshake(&mut connection, settings, generation == 0).await;
        let (run_id, eviction) = shaken
            .map_err(|failure| settings.servers.named_it(&host, failure.secured_by(&settings.transport)))?;
        // Before the connection is used: earlier requests went to an earlier server.
        self.incarnation.met(&host.to_string(), run_id, self.setup.clock.now());
        Ok((Wire { generation, host: Arc::new(host), connection }, eviction))
    }

    fn on_push(
        &self,
        generation: u64,
    ) -> impl Fn(PushInfo) -> std::result::Result<(), Infallible> + Send + Sync + 'static {
        let (link, on_message) = (self.link.clone(), Arc::clone(&self.setup.on_message));
        move |push| {
            match push.kind {
                PushKind::Message => {
                    if let [Value::BulkString(channel), Value::BulkString(message)] = push.data.as_slice() {
                        on_message(channel, message);
                    }
                }
                PushKind::Disconnection => {
                    if let Some(link) = link.upgrade() {
                        take_down(&link, generation, &closed());
                    }
                }
                _ => {}
            }
            Ok(())
        }
    }
}

/// Neither the search for the host nor the connection takes longer than `bound`.
pub(super) async fn reach(
    settings: &Settings,
    config: AsyncConnectionConfig,
    bound: Duration,
) -> Answer<(Host, MultiplexedConnection)> {
    let host = match &settings.servers {
        Servers::One(host) | Servers::Shard(host) => host.clone(),
        Servers::Watched(sentinels) => sentinels::master(sentinels, bound).await?,
        // A client of a cluster dials each server separately.
        Servers::Cluster(hosts) => hosts[0].clone(),
    };
    // Asked each time, because a login may change.
    let given = settings.logins.now(settings.request_timeout).await.map_err(Failure::said)?;
    let login = login(given, settings.database);
    let connecting = connect(&host, &login, &settings.transport, config);
    let connected = match timeout(bound, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    };
    match connected {
        Ok(connection) => Ok((host, connection)),
        Err(error) => {
            let failure = from_redis(error, false).secured_by(&settings.transport);
            Err(settings.servers.named_it(&host, failure).of_cluster(&settings.servers))
        }
    }
}

impl Servers {
    /// Marks the failure of a server that Sentinels have named: they may name another one soon.
    pub(crate) fn named_it(&self, host: &Host, failure: Failure) -> Failure {
        let Servers::Watched(Sentinels { service, .. }) = self else { return failure };
        let what = format!("{host}, which the Sentinels name as the master of {service:?}");
        let temporary = !failure.answered || failure.is_replica;
        let kind = if temporary { ErrorKind::Unavailable } else { failure.error.kind() };
        let error = Error::new(kind, what).because(failure.error);
        let silent = (!failure.answered).then(|| host.to_string());
        Failure { error, answered: true, silent, ..failure }
    }
}

impl Failure {
    fn of_cluster(self, servers: &Servers) -> Self {
        let Servers::Shard(host) = servers else { return self };
        let what = format!("{host}, a server of the cluster");
        Failure { error: Error::new(self.error.kind(), what).because(self.error), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_of_a_server_of_a_cluster_names_its_host() {
        let shard = Servers::Shard(Host::parse("10.0.0.7:6379").expect("a host"));
        let refused = Failure { answered: false, ..Failure::said(closed()) };
        for failure in [refused.of_cluster(&shard), Failure::said(closed()).of_cluster(&shard)] {
            assert!(failure.error.to_string().contains("10.0.0.7:6379"), "{}", failure.error);
        }
    }
}
