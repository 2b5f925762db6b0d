//! What an operator does with a namespace.

use super::{Coordinator, CoordinatorParts};
use crate::client::Client;
use crate::decide::moving::gate::GateMarker;
use crate::error::{Error, ErrorKind, Result};
use crate::registry;

impl Coordinator {
    /// Raises the layout of the namespace to the highest that this build works with, and answers
    /// which that is. For operators, once every client runs a newer build: from then on older ones
    /// are refused as they connect. It is refused while one of them is [registered](Self::clients).
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
        let (Client { backend, .. }, CoordinatorParts { place, layout, .. }) = (&**self.client(), &*self.0);
        let raised = self.client().serve(registry::raise(&**backend, place, &self.clients(), *layout)).await;
        raised.map_err(|error| error.in_operation("raise_layout"))
    }

    /// Retires the namespace on this server: from then on nobody connects to it any more, and who tries
    /// is told to use the URL `to`. For an [operator](crate::Config::as_operator) who has moved its services to
    /// another coordinator, so that one which was forgotten cannot hold a lock beside them. It is
    /// refused while any other client than an operator's is [connected](Self::clients), idle or not.
    /// What stands on the server stays. Calling it again changes nothing; [`reopen`](Self::reopen)
    /// takes it back.
    ///
    /// # Errors
    /// `InvalidArgument` naming `to` for what is no URL, is over 1024 bytes or holds a password, since
    /// every client may read it; `Misconfigured` for a client that is no operator's; `Conflict` naming
    /// the clients that are connected, or where the namespace is marked otherwise; `Unavailable` and
    /// `OutcomeUnknown`: call it again. If a call ends half-way, clients may be refused until another call is
    /// answered. `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// As after an error: call it again.
    pub async fn retire(&self, to: &str) -> Result<()> {
        let retired = async {
            self.check_operator()?;
            let (Client { backend, .. }, CoordinatorParts { place, .. }) = (&**self.client(), &*self.0);
            self.client().serve(registry::retire(&**backend, place, &self.clients(), to)).await
        };
        retired.await.map_err(|error| error.in_operation("retire"))
    }

    /// Takes back what [`retire`](Self::retire) did: clients connect again. Answers whether the
    /// namespace was retired. For an [operator](crate::Config::as_operator), once the services that went
    /// elsewhere are stopped.
    ///
    /// # Errors
    /// `Misconfigured` for a client that is no operator's; `Conflict` where the namespace is marked
    /// otherwise; `Unavailable` and `OutcomeUnknown`: call it again. `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// As after an error: call it again.
    pub async fn reopen(&self) -> Result<bool> {
        let reopened = async {
            self.check_operator()?;
            let (Client { backend, .. }, CoordinatorParts { place, .. }) = (&**self.client(), &*self.0);
            self.client().serve(registry::reopen(&**backend, place)).await
        };
        reopened.await.map_err(|error| error.in_operation("reopen"))
    }

    /// What is marked on the namespace: where its clients are sent since it was
    /// [retired](Self::retire), or the move that it takes part in. `None` while it is in use. For
    /// [operators](crate::Config::as_operator) who look: every other client is refused as it connects
    /// where anything is marked. A client that takes part in a move reads the old side's.
    ///
    /// # Errors
    /// `Misconfigured` for a mark of a later version; `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn marker(&self) -> Result<Option<GateMarker>> {
        let CoordinatorParts { place, moving, .. } = &*self.0;
        let client = moving.as_ref().map_or(self.client(), |participant| &participant.old.client);
        let marked = client.serve(registry::marked(&*client.backend, place)).await;
        marked.map_err(|error| error.in_operation("marker"))
    }

    pub(crate) fn check_operator(&self) -> Result<()> {
        match self.0.operator {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Misconfigured,
                "only an operator's client does that: connect with Config::as_operator",
            )),
        }
    }
}
