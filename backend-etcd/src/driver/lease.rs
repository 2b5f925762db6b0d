use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    GetOptions, GetResponse, LeaseGrantOptions, LeaseKeepAliveStream, LeaseKeeper, ResponseHeader,
};
use latchwork_core::ErrorKind;
use latchwork_core::backend::decide::renewal_counts;
use latchwork_core::seen::Requests;

use super::connection::Driver;
use super::encode::unsigned;
use super::request_kind::RequestKind;
use crate::error::{Answer, Failure, as_harmless, lease_exists};

impl Driver {
    /// Returns the id, and the TTL that the server granted.
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

    /// Returns `false` if a lease with this id exists.
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

    /// The remaining whole seconds of a lease, rounded down. `None`: it does not exist.
    pub(crate) async fn lease_left(&self, lease: i64) -> Answer<Option<Duration>> {
        let answer = self
            .call(RequestKind::LEASE_LEFT, |mut client| async move {
                client.lease_time_to_live(lease, None).await
            })
            .await
            .map_err(as_harmless)?;
        // The server answers -1 if the lease does not exist.
        Ok(u64::try_from(answer.ttl()).ok().map(Duration::from_secs))
    }

    pub(crate) async fn revoke(&self, lease: i64) -> Answer<()> {
        self.call(RequestKind::REVOCATION, |mut client| async move { client.lease_revoke(lease).await })
            .await
            .map(|_| ())
    }

    /// The client crate sends a first renewal and hides the term of its answer, so this renewal never counts.
    pub(crate) async fn keep_alive(&self, lease: i64) -> Answer<RenewalStream> {
        let (keeper, stream) = self
            .call(RequestKind::RENEWAL, |mut client| async move { client.lease_keep_alive(lease).await })
            .await?;
        Ok(RenewalStream { keeper, stream, requests: Arc::clone(&self.requests) })
    }

    /// Returns whether this renewal counts (LEASE-RENEWAL-IN-ONE-TERM), by a quorum read.
    pub(crate) async fn confirms(&self, renewal: Renewal) -> Answer<bool> {
        let read = self.ask(RequestKind::CONFIRMATION, GetResponse::header, |mut kv| {
            let key = Arc::clone(&self.scratch);
            async move { kv.get(key.as_bytes(), Some(GetOptions::new().with_count_only())).await }
        });
        let confirmed = match read.await.map_err(as_harmless) {
            Ok(answer) => term(answer.header()),
            // A hold stays while its rights are missing. A grant needs a quorum, and no right.
            Err(Failure::Other(error)) if error.kind() == ErrorKind::Forbidden => {
                self.term_of_a_grant().await?
            }
            Err(failure) => return Err(failure),
        };
        Ok(renewal_counts(renewal.term, confirmed))
    }

    /// The term of the grant of the shortest lease, which expires.
    async fn term_of_a_grant(&self) -> Answer<u64> {
        let before = self.incarnations.known();
        let granted = self
            .call(RequestKind::CONFIRMATION, |mut client| async move { client.lease_grant(1, None).await })
            .await?;
        self.answered(before, granted.header());
        Ok(term(granted.header()))
    }
}

fn term(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, ResponseHeader::raft_term)
}

/// An answer. It counts only if the driver [confirms](Driver::confirms) it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewal {
    pub(crate) ttl: Duration,
    term: u64,
}

fn seconds(ttl: Duration) -> i64 {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

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

    /// Returns the next answer; `None` at the end of the stream.
    ///
    /// # Errors
    /// `LeaseGone`: the server does not know the lease.
    ///
    /// Cancel-safe: no answer is lost.
    pub(crate) async fn answer(&mut self) -> Answer<Option<Renewal>> {
        let Some(answer) = self.stream.message().await? else { return Ok(None) };
        match unsigned(answer.ttl()) {
            0 => Err(Failure::LeaseGone),
            ttl => Ok(Some(Renewal { ttl: Duration::from_secs(ttl), term: term(answer.header()) })),
        }
    }
}
