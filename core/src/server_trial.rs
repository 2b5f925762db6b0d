//! What a client knows of its server's memory, for quorums: [`decide::trial`](crate::decide::trial)
//! has the rules, and the recipe asks the server.
//!
//! Once the server counts, the client asks no more. An answer that it has later is of the same
//! memory if the server is of the same incarnation, or, on a server that keeps what it confirms, if
//! the lease is the one under which the marker was read: a server that has lost all does not know
//! that lease (QUORUM-SAME-MEMORY).

use std::sync::Arc;

use parking_lot::Mutex;

use crate::contracts::{Backend, Incarnation, Lease};
use crate::decide::trial::{Terms, Trial};

/// What a client knows of its server's memory.
#[derive(Debug, Default)]
pub(crate) struct ServerTrial {
    /// What it has seen of the marker. One task asks at a time.
    pub(crate) trial: tokio::sync::Mutex<Trial>,
    proven: Mutex<Option<Proven>>,
}

/// The server counted, at this incarnation and under this lease.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) terms: Arc<Terms>,
    pub(crate) server: Incarnation,
    pub(crate) lease: Lease,
}

impl ServerTrial {
    /// Whether what was answered under this lease is of a server that counts.
    pub(crate) fn proves(&self, backend: &dyn Backend, terms: &Arc<Terms>, lease: &Lease) -> bool {
        let proven = self.proven.lock();
        let Some(proven) = proven.as_ref().filter(|proven| proven.terms == *terms) else { return false };
        match &proven.server {
            Incarnation::Durable => proven.lease.same_as(lease),
            server => *server == backend.incarnation(),
        }
    }

    /// The server counts.
    pub(crate) fn is_proven(&self, proven: Proven) {
        *self.proven.lock() = Some(proven);
    }
}
