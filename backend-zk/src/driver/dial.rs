use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::{Moment, Secret, seen};
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Client, Connector, SessionInfo, SessionState, StateWatcher};

use super::relay::{self, Relay};
use super::sasl;
use super::tasks::Tasks;
use crate::config::{NAME, Settings};
use crate::error::{Answer, Fault, Tried};

/// Opens a new session, or connects `again`. Returns the instants before the request and after the answer.
pub(super) async fn dial(
    settings: &Settings,
    tasks: &Arc<Tasks>,
    again: Option<SessionInfo>,
) -> Answer<(Client, Moment, Moment)> {
    // Rounded up: the server must not seem to grant less than requested.
    let millis = settings.ttl.as_nanos().div_ceil(1_000_000);
    let ask = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
    let mut connector =
        Client::connector().with_session_timeout(ask).with_connection_timeout(settings.host_timeout());
    if let Some(session) = again {
        connector = connector.with_session(session);
    }
    let login = settings.login().await.map_err(Fault::NoLogin)?;
    let relay = relay(settings, tasks).await?;
    let hosts = relay.as_ref().map_or_else(|| settings.hosts.join(","), Relay::addresses);
    if let Some(relay) = &relay {
        connector = connector.with_auth(relay::SCHEME, relay.secret());
    }
    if let Some((user, password)) = login {
        connector = logged_in(connector, settings, user, &password);
    }
    let sent = settings.clock.now();
    let client = tasks.within(connector.connect(&hosts)).await?;
    let answered = settings.clock.now();
    if let Some(relay) = relay {
        tasks.runtime.spawn(end_with_session(relay, client.state_watcher(), tasks.killed.clone()));
    }
    Ok((client, sent, answered))
}

fn logged_in(connector: Connector, settings: &Settings, user: String, password: &Secret) -> Connector {
    match settings.sasl {
        true => sasl::logged_in(connector, user, password.expose().to_owned()),
        false => connector.with_auth("digest", format!("{user}:{}", password.expose()).as_bytes()),
    }
}

/// Opens the relay of a client with TLS or SASL. With SASL it delays repeated watches until after the login.
async fn relay(settings: &Settings, tasks: &Tasks) -> Answer<Option<Relay>> {
    if !settings.transport.is_tls() && !settings.sasl {
        return Ok(None);
    }
    let opened = Relay::open(&settings.hosts, &settings.transport, settings.sasl, &tasks.runtime).await;
    opened.map(Some).map_err(|error| {
        seen::relay_failed(NAME, &error);
        Fault::Unsent(Tried { hosts: Ipv4Addr::LOCALHOST.to_string(), took: Duration::ZERO })
    })
}

/// Keeps the relay until the client crate needs no connection: later than the client itself, whose session is
/// closed in the background.
async fn end_with_session(relay: Relay, state: StateWatcher, killed: CancellationToken) {
    killed.run_until_cancelled(reached(state, SessionState::is_terminated)).await;
    drop(relay);
}

pub(super) async fn reached(
    mut watcher: StateWatcher,
    is_wanted: impl Fn(SessionState) -> bool,
) -> SessionState {
    let mut state = watcher.state();
    while !is_wanted(state) {
        state = watcher.changed().await;
    }
    state
}
