//! The knowledge of a client about its server's memory, for quorums
//! ([`decide::trial`](crate::decide::trial)).
//!
//! Once the server counts, the client does not ask again: a later answer comes from the same memory if the
//! incarnation is the same, or, on a server that stores holds on disk, the lease (QUORUM-SAME-MEMORY).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::contracts::{Backend, Incarnation, Lease};
use crate::decide::trial::{Terms, Trial};
use crate::error::Result;
use crate::support::SingleFlight;

#[derive(Debug, Default)]
pub(crate) struct ServerTrial {
    pub(crate) trial: Mutex<Trial>,
    /// One background task asks for all callers, and answers for these terms.
    pub(crate) asking: SingleFlight<(Arc<Terms>, Result<Counted>)>,
    proven: Mutex<Option<Proven>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Now,
    /// Only after this time.
    After(Duration),
}

/// The server counted, at this incarnation and under this lease.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) terms: Arc<Terms>,
    pub(crate) server: Incarnation,
    pub(crate) lease: Lease,
}

impl ServerTrial {
    /// Returns whether an answer under this lease comes from a server that counts.
    pub(crate) fn proves(&self, backend: &dyn Backend, terms: &Arc<Terms>, lease: &Lease) -> bool {
        let proven = self.proven.lock();
        let Some(proven) = proven.as_ref().filter(|proven| proven.terms == *terms) else { return false };
        match &proven.server {
            Incarnation::Durable => proven.lease.same_as(lease),
            server => *server == backend.incarnation(),
        }
    }

    /// Records that the server counts.
    pub(crate) fn is_proven(&self, proven: Proven) {
        *self.proven.lock() = Some(proven);
    }
}
