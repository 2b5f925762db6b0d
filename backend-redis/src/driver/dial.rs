//! Dialling: from a name to a connection that may be used.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use latchwork_core::contracts::LinkLog;
use latchwork_core::decide::renewal_period;
use latchwork_core::{Clock, Error, ErrorKind, Eviction, Pauses};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, Value};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

use super::guard::Guarded;
use super::{Incarnation, Link, OnMessage, Wire, invocation, reply, sha1, take_down};
use crate::config::Settings;
use crate::error::{Failure, closed, from_redis};
use crate::{info, scripts};

/// The shortest and the longest pause before an attempt; there may be twice as much of it, which is left to chance.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));
/// How long a connection is silent before the system asks whether it still stands.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Requests that may wait to be written: an acquire must not queue behind a burst of renewals.
const BUFFER: usize = 4096;

/// Makes connections, again and again.
pub(super) struct Dialler {
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) incarnation: Arc<Incarnation>,
    pub(super) link: Weak<watch::Sender<Link>>,
    pub(super) on_message: OnMessage,
}

impl Dialler {
    /// Dials again whenever the connection is down, until the driver is closed or dropped.
    pub(super) async fn keep_dialling(self, mut link: watch::Receiver<Link>, renewed: Arc<Notify>) {
        let (mut generation, log) = (0, LinkLog::new(self.settings.address()));
        // Ends with the driver, or when it is closed.
        while let Ok(state) =
            link.wait_for(|link| !matches!(link, Link::Up(_))).await.map(|link| is_closed(&link))
        {
            if state {
                return;
            }
            generation += 1;
            if let Some(cause) = link.borrow().why() {
                log.broken(&cause);
            }
            let mut pauses = Pauses::new(PAUSES.0, PAUSES.1);
            // When a renewal was not answered in time, a third of the TTL is left: one dialling that hangs is not to take it all.
            let mut bound = renewal_period(self.settings.ttl) / 2;
            let wire = loop {
                // Before the first attempt too: all clients of a server have lost their connections at one instant.
                tokio::select! {
                    () = tokio::time::sleep(pauses.next()) => {}
                    _ = link.wait_for(is_closed) => return,
                }
                let dialled = tokio::select! {
                    dialled = self.dial(generation, bound) => dialled,
                    _ = link.wait_for(is_closed) => return,
                };
                match dialled {
                    Ok((wire, _)) => break wire,
                    Err(failure) => {
                        tracing::debug!(host = log.host(), error = %failure.error, "not reconnected yet");
                        let Some(link) = self.link.upgrade() else { return };
                        // Nobody waits for this: who gives up meanwhile says why.
                        link.send_if_modified(|link| {
                            if let Link::Down(why) = link {
                                *why = failure.error;
                            }
                            false
                        });
                    }
                }
                bound = bound.saturating_mul(2);
            };
            let Some(link) = self.link.upgrade() else { return };
            let up = link.send_if_modified(|link| {
                let down = matches!(link, Link::Down(_));
                if down {
                    *link = Link::Up(wire);
                }
                down
            });
            if up {
                log.mended();
                // Messages may have been lost meanwhile: all nodes are to be looked at.
                renewed.notify_one();
            }
        }
    }

    /// TCP, login, database, name, what the server is, scripts, inbox, and the self-test. No answer takes longer than `bound`.
    pub(super) async fn dial(
        &self,
        generation: u64,
        bound: Duration,
    ) -> std::result::Result<(Wire, Eviction), Failure> {
        let settings = &self.settings;
        let link = self.link.clone();
        let on_message = Arc::clone(&self.on_message);
        let on_push = move |push: PushInfo| -> std::result::Result<(), std::convert::Infallible> {
            match push.kind {
                PushKind::Message => {
                    if let Some(Value::BulkString(message)) = push.data.get(1) {
                        on_message(message);
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
        };
        let bound = bound.min(settings.request_timeout).min(settings.connect_timeout / 2);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(bound))
            .set_response_timeout(Some(bound))
            .set_pipeline_buffer_size(BUFFER)
            .set_push_sender(on_push);
        let unsent = |error| from_redis(error, false);
        let late = |_| unsent(io::Error::from(io::ErrorKind::TimedOut).into());
        let connecting = tokio::time::timeout(bound, connect(settings, config)).await.map_err(late)?;
        let mut connection = connecting.map_err(unsent)?;

        let mut name = redis::cmd("CLIENT");
        name.arg("SETNAME").arg(&settings.client_name);
        if let Err(error) = name.exec_async(&mut connection).await {
            tracing::debug!(%error, "the connection has no name");
        }
        // All of it costs the server as much as twenty joins, most of that for its memory: which is looked at once, where nothing is
        // refused for it. (Several sections in one request are new in 7.0.)
        let brief = generation > 0 && !settings.strict;
        let sections: &[Option<&str>] = if brief { &[Some("server"), Some("replication")] } else { &[None] };
        let mut info = Some(String::new());
        for section in sections {
            match redis::cmd("INFO").arg(section).query_async::<String>(&mut connection).await {
                Ok(text) => info.iter_mut().for_each(|info| info.push_str(&text)),
                Err(error) if error.code() == Some("NOPERM") => info = None,
                Err(error) => return Err(unsent(error)),
            }
        }
        // Before anything is written: a replica refuses that without saying what it is.
        let eviction = info::judge(info.as_deref(), settings.strict).map_err(Failure::said)?;
        load_missing(&mut connection).await.map_err(unsent)?;
        // Answered when the server's Subscribe push is in: from here on no message is lost.
        connection
            .subscribe(&settings.inbox)
            .await
            .map_err(|error| name_forbidden(unsent(error), "SUBSCRIBE"))?;
        let call = scripts::selftest(settings.scratch.clone(), &settings.inbox);
        // The text too: that is what a server gets which does not know a script.
        for (how, script) in [("EVALSHA", sha1(call.script)), ("EVAL", call.script.text())] {
            let test = invocation(how, script, &call);
            let answer = connection.req_packed_command(&test).await.and_then(Value::extract_error);
            let answer = match answer.map_err(unsent) {
                // It may be called, and that is all there was to find out.
                Err(failure) if failure.noscript && how == "EVALSHA" => continue,
                answer => answer.map_err(|failure| name_forbidden(failure, how))?,
            };
            if let Some((command, words)) = scripts::selftested(reply(answer)).map_err(Failure::said)? {
                let error = redis::RedisError::from((redis::ErrorKind::Extension, "self-test", words));
                return Err(name_forbidden(unsent(error), &command));
            }
            if generation > 0 {
                // Both were allowed when it connected: one of them is enough to see whether keys and channels still are.
                break;
            }
        }
        // Of the connections only the last is used: what was asked before this one was asked of what was there before.
        self.incarnation.met(info.as_deref().and_then(info::run_id), self.clock.now());
        Ok((Wire { generation, connection }, eviction))
    }
}

/// Loads those of the scripts of every hold that the server does not know, so that no join, leave or renewal of a client that is
/// connected takes a second trip. All others are sent when they are called and found missing. Mostly this is one small request.
async fn load_missing(connection: &mut MultiplexedConnection) -> redis::RedisResult<()> {
    let mut exists = redis::cmd("SCRIPT");
    exists.arg("EXISTS");
    scripts::LOADED.iter().for_each(|script| {
        exists.arg(sha1(script));
    });
    let known: Vec<bool> = exists.query_async(connection).await?;
    for (script, _) in scripts::LOADED.iter().zip(known).filter(|(_, known)| !known) {
        redis::cmd("SCRIPT").arg("LOAD").arg(script.text()).exec_async(connection).await?;
    }
    Ok(())
}

fn is_closed(link: &Link) -> bool {
    matches!(link, Link::Closed)
}

/// What was forbidden, by name.
fn name_forbidden(failure: Failure, command: &str) -> Failure {
    if !matches!(failure.error.kind(), ErrorKind::Forbidden { .. }) {
        return failure;
    }
    let what = format!("{command} (needed on the keys and channels of the namespace)");
    let words = failure.error.to_string();
    Failure { error: Error::new(ErrorKind::Forbidden { what }, words), ..failure }
}

/// A connection whose replies have a bound, logged in.
async fn connect(
    settings: &Settings,
    config: AsyncConnectionConfig,
) -> redis::RedisResult<MultiplexedConnection> {
    let mut login =
        RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_db(settings.database);
    if let Some(user) = &settings.user {
        login = login.set_username(user);
    }
    if let Some(password) = &settings.password {
        login = login.set_password(password.expose());
    }
    let stream = TcpStream::connect((settings.host.as_str(), settings.port)).await?;
    // Small requests are not to wait for the answers to others.
    stream.set_nodelay(true)?;
    // With a long TTL nothing may be said for minutes: neither is a middlebox to forget the connection, nor a waiter to listen
    // on one that was forgotten.
    let probes = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 6);
    SockRef::from(&stream).set_tcp_keepalive(&probes)?;
    let (connection, work) =
        MultiplexedConnection::new_with_config(&login, Guarded::new(stream), config).await?;
    // Ends with the last handle of the connection.
    tokio::spawn(work);
    Ok(connection)
}
