use std::sync::Arc;

use super::{Coordinator, CoordinatorParts};
use crate::client::Client;
use crate::config::Config;
use crate::connect::connect;
use crate::connector::Connector;
use crate::decide::moving::gate::GateMarker;
use crate::error::{Error, ErrorKind, Result};
use crate::registry;

/// An operator of a namespace. Its client may connect while the namespace moves or is
/// [retired](Operator::retire), and does not block `retire`. It cannot acquire locks or write values
/// (`Misconfigured`). Its [`coordinator`](Operator::coordinator) can list, watch and release by force. Clones
/// are cheap.
///
/// ```
/// # use std::sync::Arc;
/// # use latchwork_core::{Config, ErrorKind, Operator, Result, connect, memory};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let (connectors, config) = ([memory::connector()], Config::from_url("memory://retired")?);
/// let operator = Operator::connect(&connectors, &config).await?;
/// operator.retire("redis://the-new-one").await?;
/// let refused = connect(&connectors, &config).await.map(drop).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::Misconfigured);
/// assert!(operator.reopen().await?);
/// # operator.coordinator().close().await }
/// ```
#[derive(Clone, Debug)]
pub struct Operator(Coordinator);

impl Operator {
    /// Connects as an operator.
    ///
    /// # Errors and cancel safety
    /// As [`connect`](crate::connect()).
    pub async fn connect(connectors: &[Arc<dyn Connector>], config: &Config) -> Result<Self> {
        connect(connectors, &config.clone().as_operator()).await.map(Self)
    }

    /// Returns the operator whose client this is.
    ///
    /// # Errors
    /// `Misconfigured`: the client was not connected [as an operator](Config::as_operator).
    pub fn of(coordinator: &Coordinator) -> Result<Self> {
        match coordinator.0.operator {
            true => Ok(Self(coordinator.clone())),
            false => {
                let why = "the client is not an operator's: connect by Operator::connect";
                Err(Error::new(ErrorKind::Misconfigured, why))
            }
        }
    }

    /// Returns the operator's client.
    pub fn coordinator(&self) -> &Coordinator {
        &self.0
    }

    /// Raises the layout of the namespace to the highest one that this build supports, and returns it. From
    /// then on, older clients cannot connect. It fails while an older client is
    /// [registered](Coordinator::clients).
    ///
    /// # Errors
    /// * `Conflict`: clients of an older build are connected. The error lists them.
    /// * `Misconfigured`: a newer build has raised the layout further.
    /// * `Unavailable`, `OutcomeUnknown`: repeat the call. Until a call succeeds, older clients may be
    ///   refused.
    /// * The errors of [every call](ErrorKind).
    ///
    /// # Cancel safety
    /// After a dropped call, repeat it.
    pub async fn raise_layout(&self) -> Result<u32> {
        let (Client { backend, .. }, CoordinatorParts { place, layout, .. }) =
            (&**self.0.client(), &*self.0.0);
        let clients = self.0.clients();
        let raised = self.0.client().serve(registry::raise(&**backend, place, &clients, *layout)).await;
        raised.map_err(|error| error.in_operation("raise_layout"))
    }

    /// Retires the namespace on this server: from then on only operators can connect. Other clients get an
    /// error that contains the URL `to`.
    ///
    /// Call it after all services have moved, so that a forgotten service cannot hold a lock next to them. It
    /// fails while a client other than an operator is [connected](Coordinator::clients). The data remains.
    /// [`reopen`](Self::reopen) reverses it.
    ///
    /// # Errors
    /// * `InvalidArgument` (`to`): the text is not a URL, is longer than 1024 bytes, or contains a password,
    ///   which every client could read.
    /// * `Conflict`: clients are connected (the error lists them), or the namespace has another marker.
    /// * `Unavailable`, `OutcomeUnknown`: repeat the call. Until a call succeeds, clients may be refused.
    /// * The errors of [every call](ErrorKind).
    ///
    /// # Cancel safety
    /// After a dropped call, repeat it.
    pub async fn retire(&self, to: &str) -> Result<()> {
        let (Client { backend, .. }, CoordinatorParts { place, .. }) = (&**self.0.client(), &*self.0.0);
        let clients = self.0.clients();
        let retired = registry::retire(&**backend, place, &clients, to);
        self.0.client().serve(retired).await.map_err(|error| error.in_operation("retire"))
    }

    /// Reverses [`retire`](Self::retire). Returns whether the namespace was retired. First stop the services
    /// that use the coordinator `to`, or two services can hold one lock.
    ///
    /// # Errors
    /// * `Conflict`: the namespace has another marker.
    /// * `Unavailable`, `OutcomeUnknown`: repeat the call.
    /// * The errors of [every call](ErrorKind).
    ///
    /// # Cancel safety
    /// After a dropped call, repeat it.
    pub async fn reopen(&self) -> Result<bool> {
        let (Client { backend, .. }, CoordinatorParts { place, .. }) = (&**self.0.client(), &*self.0.0);
        let reopened = registry::reopen(&**backend, place);
        self.0.client().serve(reopened).await.map_err(|error| error.in_operation("reopen"))
    }

    /// Reads the marker of the namespace, if it has one: it is [retired](Self::retire), or takes part in a
    /// move.
    ///
    /// # Errors
    /// `Misconfigured`: a newer version has written the marker. The errors of [every call](ErrorKind).
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn marker(&self) -> Result<Option<GateMarker>> {
        marker_of(&self.0).await
    }
}

/// Reads the marker as [`Operator::marker`], by any connected client. A client of both sides of a move reads
/// the marker of the old side.
///
/// # Errors and cancel safety
/// As [`Operator::marker`].
pub async fn marker_of(coordinator: &Coordinator) -> Result<Option<GateMarker>> {
    let CoordinatorParts { place, moving, .. } = &*coordinator.0;
    let client = moving.as_ref().map_or(coordinator.client(), |participant| &participant.old.client);
    let marked = client.serve(registry::marked(&*client.backend, place)).await;
    marked.map_err(|error| error.in_operation("marker"))
}
