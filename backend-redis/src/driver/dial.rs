//! Dialling: from a name to a connection that may be used.

use std::sync::{Arc, Weak};
use std::time::Duration;

use latchwork_core::decide::renewal_period;
use latchwork_core::{Error, ErrorKind, Eviction};
use redis::aio::ConnectionLike;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind,
    RedisConnectionInfo, Value,
};
use tokio::sync::{Notify, watch};

use super::{Link, OnMessage, Wire, invocation, reply, sha1, take_down};
use crate::config::Settings;
use crate::error::{Failure, from_redis};
use crate::{info, scripts};

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long a connection is silent before the system asks whether it still stands.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Requests that may wait to be written: an acquire must not queue behind a burst of renewals.
const BUFFER: usize = 4096;

/// Makes connections, again and again.
pub(super) struct Dialler {
    pub(super) settings: Settings,
    pub(super) link: Weak<watch::Sender<Link>>,
    pub(super) on_message: OnMessage,
}

impl Dialler {
    /// Dials again whenever the connection is down, until the driver is closed or dropped.
    pub(super) async fn keep_dialling(self, mut link: watch::Receiver<Link>, renewed: Arc<Notify>) {
        let mut generation = 0;
        // Ends with the driver, or when it is closed.
        while let Ok(state) =
            link.wait_for(|link| !matches!(link, Link::Up(_))).await.map(|link| is_closed(&link))
        {
            if state {
                return;
            }
            generation += 1;
            let mut pause = Duration::from_millis(10);
            // When a renewal was not answered in time, a third of the TTL is left: one dialling that hangs is not to take it all.
            let mut bound = renewal_period(self.settings.ttl) / 2;
            let wire = loop {
                let dialled = tokio::select! {
                    dialled = self.dial(generation, bound) => dialled,
                    _ = link.wait_for(is_closed) => return,
                };
                match dialled {
                    Ok((wire, _)) => break wire,
                    Err(failure) => {
                        tracing::debug!(error = %failure.error, "not reconnected yet");
                        let Some(link) = self.link.upgrade() else { return };
                        // Nobody waits for this: who gives up meanwhile says why.
                        link.send_if_modified(|link| {
                            if let Link::Down(why) = link {
                                *why = Some(failure.error);
                            }
                            false
                        });
                    }
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    _ = link.wait_for(is_closed) => return,
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
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
                tracing::info!(host = %self.settings.host, "reconnected");
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
                        take_down(&link, generation);
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
        let client = Client::open(connection_info(settings).map_err(unsent)?).map_err(unsent)?;
        let mut connection =
            client.get_multiplexed_async_connection_with_config(&config).await.map_err(unsent)?;

        let mut name = redis::cmd("CLIENT");
        name.arg("SETNAME").arg(&settings.client_name);
        if let Err(error) = name.exec_async(&mut connection).await {
            tracing::debug!(%error, "the connection has no name");
        }
        let info = match redis::cmd("INFO").query_async::<String>(&mut connection).await {
            Ok(info) => Some(info),
            Err(error) if error.code() == Some("NOPERM") => None,
            Err(error) => return Err(unsent(error)),
        };
        // Before anything is written: a replica refuses that without saying what it is.
        let eviction = info::judge(info.as_deref(), settings.strict).map_err(Failure::said)?;
        for script in scripts::ALL {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.code).exec_async(&mut connection).await.map_err(unsent)?;
        }
        // Answered when the server's Subscribe push is in: from here on no message is lost.
        connection
            .subscribe(&settings.inbox)
            .await
            .map_err(|error| name_forbidden(unsent(error), "SUBSCRIBE"))?;
        let call = scripts::selftest(settings.scratch.clone(), &settings.inbox);
        // The text too: that is what a server gets which has forgotten the scripts.
        for (how, script) in [("EVALSHA", sha1(call.script)), ("EVAL", call.script.code)] {
            let test = invocation(how, script, &call);
            let answer = connection.req_packed_command(&test).await.and_then(Value::extract_error);
            let answer = answer.map_err(|error| name_forbidden(unsent(error), how))?;
            if let Some((command, words)) = scripts::selftested(reply(answer)).map_err(Failure::said)? {
                let error = redis::RedisError::from((redis::ErrorKind::Extension, "self-test", words));
                return Err(name_forbidden(unsent(error), &command));
            }
        }
        Ok((Wire { generation, connection }, eviction))
    }
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

fn connection_info(settings: &Settings) -> redis::RedisResult<redis::ConnectionInfo> {
    let mut login =
        RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_db(settings.database);
    if let Some(user) = &settings.user {
        login = login.set_username(user);
    }
    if let Some(password) = &settings.password {
        login = login.set_password(password.expose());
    }
    let address = ConnectionAddr::Tcp(settings.host.clone(), settings.port);
    // With a long TTL nothing may be said for minutes: neither is a middlebox to forget the connection, nor a waiter to listen
    // on one that was forgotten. (Small requests are not to wait for the answers to others.)
    let probes = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 6);
    let tcp = TcpSettings::default().set_keepalive(probes).set_nodelay(true);
    Ok(address.into_connection_info()?.set_redis_settings(login).set_tcp_settings(tcp))
}
