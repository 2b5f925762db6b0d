//! The tries of an operation whose requests may be repeated.

use crate::client::Client;
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::support::{Backoff, Pauses};

/// An operation is tried for one TTL.
pub(super) struct Tries<'a> {
    client: &'a Client,
    // The error if a reply was lost and no later answer shows the outcome.
    unknown: &'static str,
    // A request without a reply may be carried out later.
    in_doubt: bool,
    until: Moment,
    pauses: Backoff,
}

impl<'a> Tries<'a> {
    pub(super) fn new(client: &'a Client, unknown: &'static str) -> Self {
        let lease = client.lease();
        let until = lease.clock().now() + lease.ttl();
        let pauses = Backoff::new(Pauses::OUTAGE);
        Self { client, unknown, in_doubt: false, until, pauses }
    }

    pub(super) fn of_count(client: &'a Client) -> Self {
        Self::new(
            client,
            "the reply to a request was lost: the change may have been applied, so read the count",
        )
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// After an answer that changed nothing.
    pub(super) fn again_at_once(&self) -> Result<()> {
        if self.client.clock().now() > self.until {
            let why = "other clients changed the count before each try: try again later";
            return Err(self.or_unknown(Error::new(ErrorKind::Timeout, why)));
        }
        Ok(())
    }

    /// After a request or a read that failed.
    pub(super) async fn again_after(&mut self, error: Error) -> Result<()> {
        match error.kind() {
            ErrorKind::OutcomeUnknown => self.in_doubt = true,
            ErrorKind::Unavailable => {}
            _ => return Err(self.or_unknown(error)),
        }
        let clock = self.client.clock();
        let next = clock.now() + self.pauses.next();
        // The whole TTL: a hold that ends during it is reported as lost.
        clock.sleep_until(next.min(self.until)).await;
        if next > self.until { Err(self.or_unknown(error)) } else { Ok(()) }
    }

    /// Returns `OutcomeUnknown` if an earlier request may have been carried out.
    pub(super) fn or_unknown(&self, error: Error) -> Error {
        if !self.in_doubt || error.kind() == ErrorKind::OutcomeUnknown {
            return error;
        }
        Error::new(ErrorKind::OutcomeUnknown, self.unknown).because(error)
    }
}

pub(super) fn does_not_fit() -> Error {
    Error::invalid("number", "the sum does not fit into an i64")
}

pub(super) fn untold() -> Error {
    let why =
        "the change may have been applied: many other writes have removed its record, so read the count";
    Error::new(ErrorKind::OutcomeUnknown, why)
}
