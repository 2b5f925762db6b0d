//! Requests about leases.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{LeaseGrantOptions, LeaseKeepAliveStream, LeaseKeeper};
use latchwork_core::seen::Requests;

use super::connection::Driver;
use super::encode::unsigned;
use super::request_kind::RequestKind;
use crate::error::{Answer, as_read, lease_exists};

impl Driver {
    /// Grants a lease. Returns its id, and the TTL that the server granted.
    pub(crate) async fn grant(&self, ttl: Duration) -> Answer<(i64, Duration)> {
        let seconds = seconds(ttl);
        let before = self.incarnations.known();
        let granted = self
            .call(RequestKind::GRANT, |mut client| async move { client.lease_grant(seconds, None).await })
            .await?;
        self.answered(before, granted.header());
        self.incarnations.granted();
        Ok((granted.id(), Duration::from_secs(unsigned(granted.ttl()))))
    }

    /// Grants a lease with this id. Returns whether it did: otherwise the lease already exists.
    pub(crate) async fn grant_as(&self, lease: i64, ttl: Duration) -> Answer<bool> {
        let seconds = seconds(ttl);
        let options = || Some(LeaseGrantOptions::new().with_id(lease));
        let before = self.incarnations.known();
        let granted = self
            .call(RequestKind::CELL_GRANT, |mut client| async move {
                match client.lease_grant(seconds, options()).await {
                    Err(error) if lease_exists(&error) => Ok(None),
                    answer => answer.map(Some),
                }
            })
            .await?;
        if let Some(granted) = &granted {
            self.answered(before, granted.header());
        }
        Ok(granted.is_some())
    }

    /// Returns the remaining time of a lease, in whole seconds, rounded down; `None` if the lease does not
    /// exist.
    pub(crate) async fn lease_left(&self, lease: i64) -> Answer<Option<Duration>> {
        let answer = self
            .call(RequestKind::LEASE_LEFT, |mut client| async move {
                client.lease_time_to_live(lease, None).await
            })
            .await
            .map_err(as_read)?;
        // The server answers -1 if the lease does not exist.
        Ok(u64::try_from(answer.ttl()).ok().map(Duration::from_secs))
    }

    /// Ends a lease, and deletes all keys on it.
    pub(crate) async fn revoke(&self, lease: i64) -> Answer<()> {
        self.call(RequestKind::REVOCATION, |mut client| async move { client.lease_revoke(lease).await })
            .await
            .map(|_| ())
    }

    /// Opens a stream of renewals. It sends the first renewal, and waits for its answer.
    pub(crate) async fn keep_alive(&self, lease: i64) -> Answer<RenewalStream> {
        let (keeper, stream) = self
            .call(RequestKind::RENEWAL, |mut client| async move { client.lease_keep_alive(lease).await })
            .await?;
        Ok(RenewalStream { keeper, stream, requests: Arc::clone(&self.requests) })
    }
}

/// Whole seconds, rounded up.
fn seconds(ttl: Duration) -> i64 {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// A stream of renewals of one lease. Its answers come in the order of the sends.
pub(crate) struct RenewalStream {
    keeper: LeaseKeeper,
    stream: LeaseKeepAliveStream,
    requests: Arc<Requests>,
}

impl RenewalStream {
    pub(crate) async fn send(&mut self) -> Answer<()> {
        self.requests.sent(RequestKind::RENEWAL.label);
        Ok(self.keeper.keep_alive().await?)
    }

    /// Returns the TTL of the next answer (zero: the lease is gone); `None` at the end of the stream.
    pub(crate) async fn answer(&mut self) -> Answer<Option<Duration>> {
        let answer = self.stream.message().await?;
        Ok(answer.map(|answer| Duration::from_secs(unsigned(answer.ttl()))))
    }
}
