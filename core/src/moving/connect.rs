use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::backend::MovingBackend;
use super::participant::Participant;
use super::place::MovePlace;
use super::side::SideClient;
use crate::config::{Config, MoveConfig, Participates};
use crate::contracts::{Backend, NodeId};
use crate::decide::moving::Side;
use crate::error::{Error, ErrorKind, Result};
use crate::registry::Place;

pub(crate) fn client_number() -> String {
    NodeId::random().to_string()
}

/// The configuration of one side. `client`: the number of the participant.
pub(crate) fn side_config(config: &Config, sides: &MoveConfig, client: &str, side: Side) -> Config {
    let of = match side {
        Side::Old => &sides.from,
        Side::New => &sides.to,
    };
    // People recognise the client by one label on both sides.
    let label = of.label.clone().or_else(|| config.label.clone());
    Config { label, ..of.clone() }.as_participant(&sides.name, client)
}

/// Creates a client of the move. While values are copied, requests of values wait for at most
/// `request_timeout`.
///
/// # Errors
/// `Misconfigured`: the sides use different kinds of clocks.
pub(crate) fn participate(
    old: SideClient,
    new: SideClient,
    as_client: &Participates,
    request_timeout: Duration,
) -> Result<(Arc<Participant>, Arc<dyn Backend>)> {
    if old.client.clock().is_tokio() != new.client.clock().is_tokio() {
        let why = "one side of the move uses tokio's clock, and the other side uses the system's clock: use the \
                   same kind of clock on both sides";
        return Err(Error::new(ErrorKind::Misconfigured, why));
    }
    let place = MovePlace::of(&old.namespace().text, &as_client.name)?;
    let stamps = [Place::of(old.namespace())?, Place::of(new.namespace())?];
    let participant = Participant::new(old, new, as_client.clone(), place, stamps, request_timeout);
    let takes_part = CancellationToken::new();
    let task = takes_part.clone().run_until_cancelled_owned(Arc::clone(&participant).take_part());
    tokio::spawn(task);
    let backend = MovingBackend::new(Arc::clone(&participant), takes_part.drop_guard());
    Ok((participant, Arc::new(backend)))
}
