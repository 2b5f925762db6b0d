//! What an operator does with a namespace.

use std::sync::Arc;

use super::{Coordinator, CoordinatorParts};
use crate::client::Client;
use crate::config::Config;
use crate::connect::connect;
use crate::connector::Connector;
use crate::decide::moving::gate::GateMarker;
use crate::error::{Error, ErrorKind, Result};
use crate::registry;

/// An operator of a namespace: its client holds nothing, is let in where the namespace moves or is
/// [retired](Operator::retire), and does not keep others from retiring it. Its acquisitions and writes of
/// values are refused (`Misconfigured`). Its [`coordinator`](Operator::coordinator) lists, watches and
/// releases by force. Cloning is cheap.
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
    /// # Errors
    /// As [`connect`](crate::connect()).
    ///
    /// # Cancel safety
    /// As [`connect`](crate::connect()).
    pub async fn connect(connectors: &[Arc<dyn Connector>], config: &Config) -> Result<Self> {
        connect(connectors, &config.clone().as_operator()).await.map(Self)
    }

    /// The operator whose client this is.
    ///
    /// # Errors
    /// `Misconfigured` for a client that was not connected [as an operator](Config::as_operator).
    pub fn of(coordinator: &Coordinator) -> Result<Self> {
        match coordinator.0.operator {
            true => Ok(Self(coordinator.clone())),
            false => {
                let why = "only an operator's client does that: connect by Operator::connect";
                Err(Error::new(ErrorKind::Misconfigured, why))
            }
        }
    }

    /// Its client.
    pub fn coordinator(&self) -> &Coordinator {
        &self.0
    }

    /// Raises the layout of the namespace to the highest that this build works with, and returns
    /// it. Call it once every client runs a newer build: from then on older clients are refused as they
    /// connect. It is refused while one of them is [registered](Coordinator::clients).
    /// Calling it when it is raised already changes nothing.
    ///
    /// # Errors
    /// `Conflict` naming the clients that are too old; `Misconfigured` when another build has raised
    /// it further; `Unavailable` and `OutcomeUnknown`: call it again. If a call ends half-way, older clients
    /// may be refused until another call is answered. `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// As after an error: call it again.
    pub async fn raise_layout(&self) -> Result<u32> {
        let (Client { backend, .. }, CoordinatorParts { place, layout, .. }) =
            (&**self.0.client(), &*self.0.0);
        let clients = self.0.clients();
        let raised = self.0.client().serve(registry::raise(&**backend, place, &clients, *layout)).await;
        raised.map_err(|error| error.in_operation("raise_layout"))
    }

    /// Retires the namespace on this server: from then on only operators can connect to it, and other
    /// clients get an error that names the URL `to`. Call it after the services have moved to another coordinator,
    /// so that a forgotten service cannot hold a lock next to them. It is refused while a client that is
    /// not an operator's is [connected](Coordinator::clients), idle or not. The data on the server stays.
    /// Calling it again changes nothing; [`reopen`](Self::reopen) reverses it.
    ///
    /// # Errors
    /// `InvalidArgument` naming `to` for what is no URL, is over 1024 bytes or holds a password, since
    /// every client may read it; `Conflict` naming the clients that are connected, or if the namespace
    /// is marked otherwise; `Unavailable` and `OutcomeUnknown`: call it again. If a call ends half-way, clients may be refused until another call is
    /// answered. `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// As after an error: call it again.
    pub async fn retire(&self, to: &str) -> Result<()> {
        let (Client { backend, .. }, CoordinatorParts { place, .. }) = (&**self.0.client(), &*self.0.0);
        let clients = self.0.clients();
        let retired = registry::retire(&**backend, place, &clients, to);
        self.0.client().serve(retired).await.map_err(|error| error.in_operation("retire"))
    }

    /// Reverses [`retire`](Self::retire): clients can connect again. Returns whether the namespace was
    /// retired. Call it after the services that use the other coordinator are stopped.
    ///
    /// # Errors
    /// `Conflict` if the namespace is marked otherwise; `Unavailable` and `OutcomeUnknown`: call it again. `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// As after an error: call it again.
    pub async fn reopen(&self) -> Result<bool> {
        let (Client { backend, .. }, CoordinatorParts { place, .. }) = (&**self.0.client(), &*self.0.0);
        let reopened = registry::reopen(&**backend, place);
        self.0.client().serve(reopened).await.map_err(|error| error.in_operation("reopen"))
    }

    /// The mark on the namespace: the URL that its clients are sent to since it was
    /// [retired](Self::retire), or the move that it takes part in. `None` while it is in use.
    ///
    /// # Errors
    /// `Misconfigured` for a mark of a later version; `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn marker(&self) -> Result<Option<GateMarker>> {
        marker_of(&self.0).await
    }
}

/// As [`Operator::marker`], read by any client that was let in. A client of both sides of a move reads the
/// old side's mark.
///
/// # Errors
/// As [`Operator::marker`].
///
/// # Cancel safety
/// Cancel safe.
pub async fn marker_of(coordinator: &Coordinator) -> Result<Option<GateMarker>> {
    let CoordinatorParts { place, moving, .. } = &*coordinator.0;
    let client = moving.as_ref().map_or(coordinator.client(), |participant| &participant.old.client);
    let marked = client.serve(registry::marked(&*client.backend, place)).await;
    marked.map_err(|error| error.in_operation("marker"))
}
