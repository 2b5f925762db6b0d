use std::sync::Arc;

use futures_util::future::join;

use crate::config::{Config, MoveConfig, Participates};
use crate::connector::Connector;
use crate::contracts::Close;
use crate::coordinator::Coordinator;
use crate::decide::moving::Side;
use crate::error::{Error, Result};
use crate::label::default_label;
use crate::moving::{Participant, SideClient, client_number, participate, side_config};
use crate::registry::Registered;
use crate::support::no_tls;

/// Connects to the coordinator that `config` names, with the connector of that name. The client registers
/// itself ([`Coordinator::clients`] lists it), and checks the layout of its namespace.
///
/// # Errors
/// * `InvalidArgument` naming `backend` if no connector has the name, or naming the wrong field.
/// * `Unavailable` at `connect_timeout`.
/// * `Misconfigured` if the namespace has a newer layout than this build supports.
/// * `Forbidden` if the client may not register.
/// * The errors of [`Connector::connect`].
///
/// # Cancel safety
/// A dropped connect leaves at most a lease on the server, which expires.
pub async fn connect(connectors: &[Arc<dyn Connector>], config: &Config) -> Result<Coordinator> {
    if let Some(sides) = &config.moving {
        return connect_both(connectors, config, sides).await;
    }
    let (connector, config) = choose(connectors, config)?;
    let client = Registered::connected(Arc::clone(&connector), config.clone()).await?;
    Ok(Coordinator::with(client.client(), &config, connector))
}

/// Returns a coordinator at once, and [connects](connect) in the first operation: for services that must
/// start without their coordinator. Each operation tries until an attempt succeeds; an attempt continues in
/// the background. Until then, [`lease`](Coordinator::lease) is suspended; its handles follow the real lease
/// afterwards.
///
/// # Errors
/// `InvalidArgument` naming the wrong field.
///
/// # Panics
/// Outside a tokio runtime.
pub fn connect_lazy(connectors: &[Arc<dyn Connector>], config: &Config) -> Result<Coordinator> {
    if let Some(sides) = &config.moving {
        let (config, client) = (labelled(config), client_number());
        let lazily = |side| {
            let (connector, config) = choose(connectors, &side_config(&config, sides, &client, side))?;
            Ok::<_, Error>(SideClient::new(Registered::lazy(connector, config.clone()).client(), &config))
        };
        let (old, new) = (lazily(Side::Old)?, lazily(Side::New)?);
        return Ok(take_part(old, new, sides, &client, &config)?.1);
    }
    let (connector, config) = choose(connectors, config)?;
    let client = Registered::lazy(Arc::clone(&connector), config.clone());
    Ok(Coordinator::with(client.client(), &config, connector))
}

/// Checks the fields, options and backend of a configuration without I/O, as [`connect`] does first.
///
/// # Errors
/// `InvalidArgument` naming the wrong field or option.
pub fn check(connectors: &[Arc<dyn Connector>], config: &Config) -> Result<()> {
    let Some(sides) = &config.moving else { return choose(connectors, config).map(drop) };
    config.validate()?;
    [&sides.from, &sides.to].into_iter().try_for_each(|side| choose(connectors, side).map(drop))
}

/// Connects to both sides of a move, and waits until it is a member there.
async fn connect_both(
    connectors: &[Arc<dyn Connector>],
    config: &Config,
    sides: &MoveConfig,
) -> Result<Coordinator> {
    config.validate()?;
    let (config, client) = (labelled(config), client_number());
    let connected = async |side| {
        let (connector, config) = choose(connectors, &side_config(&config, sides, &client, side))?;
        let client = Registered::connected(connector, config.clone()).await?;
        Ok::<_, Error>(SideClient::new(client.client(), &config))
    };
    let (old, new) = match join(connected(Side::Old), connected(Side::New)).await {
        (Ok(old), Ok(new)) => (old, new),
        // This client is useless without the other side, and would be listed until its lease ends.
        (Ok(connected), Err(error)) | (Err(error), Ok(connected)) => {
            if let Err(error) = connected.client.backend.close(Close::Orderly).await {
                tracing::debug!(%error, "a client of one side could not be closed: it remains until its lease expires");
            }
            return Err(error);
        }
        (Err(error), Err(_)) => return Err(error),
    };
    let (participant, coordinator) = take_part(old, new, sides, &client, &config)?;
    match participant.ready_within(sides.from.connect_timeout).await {
        Ok(()) => Ok(coordinator),
        Err(error) => {
            if let Err(error) = coordinator.close_now().await {
                tracing::debug!(%error, "a client that did not join its move could not be closed: it remains until its lease expires");
            }
            Err(error.in_operation("connect"))
        }
    }
}

pub(crate) fn take_part(
    old: SideClient,
    new: SideClient,
    sides: &MoveConfig,
    client: &str,
    config: &Config,
) -> Result<(Arc<Participant>, Coordinator)> {
    let as_client = Participates { name: sides.name.as_str().into(), client: client.into() };
    let (participant, backend) = participate(old, new, &as_client, config.request_timeout)?;
    // Each side's URL says how many replicas confirm.
    let (name, min_replicas) = (config.name.clone(), 0);
    let config = Config { name, min_replicas, ..side_config(config, sides, client, Side::Old) };
    let coordinator = Coordinator::moving(backend, &config, Arc::clone(&participant));
    Ok((participant, coordinator))
}

/// A client must show the same label on every connection, and on both sides of a move.
fn labelled(config: &Config) -> Config {
    let mut config = config.clone();
    config.label.get_or_insert_with(|| default_label().to_string());
    config
}

fn choose(connectors: &[Arc<dyn Connector>], config: &Config) -> Result<(Arc<dyn Connector>, Config)> {
    config.validate()?;
    let connector =
        connectors.iter().find(|connector| connector.name() == config.backend).ok_or_else(|| {
            let known: Vec<_> = connectors.iter().map(|connector| connector.name()).collect();
            Error::invalid(
                "backend",
                format!(
                    "this build has no backend {:?} (it has {}): enable its cargo feature, or correct the name",
                    config.backend,
                    known.join(", ")
                ),
            )
        })?;
    if config.tls && !connector.speaks_tls() {
        return Err(no_tls(&config.backend));
    }
    check_options(connectors, &**connector, config)?;
    connector.validate(config)?;
    Ok((Arc::clone(connector), labelled(config)))
}

/// Refuses an option that the backend does not have, because the user relies on it.
fn check_options(connectors: &[Arc<dyn Connector>], of: &dyn Connector, config: &Config) -> Result<()> {
    let min_replicas = (config.min_replicas != 0).then_some("min_replicas");
    let unknown = config.options.names().chain(min_replicas).find(|name| !of.options().contains(name));
    let Some(unknown) = unknown else { return Ok(()) };
    let at_home = connectors.iter().find_map(|other| {
        let option = other.options().iter().find(|option| **option == unknown)?;
        Some((*option, other.name()))
    });
    let backend = of.name();
    Err(match at_home {
        Some((option, home)) => {
            let why = format!("is an option of {home}://, not of {backend}://: remove it");
            Error::invalid(option, why)
        }
        None => Error::invalid(
            "options",
            format!("{backend}:// has no option {unknown:?}: correct its name, or remove it"),
        ),
    })
}
