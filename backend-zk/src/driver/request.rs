//! How a request is sent: in its turn, while there is a connection, and within its bounds.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zookeeper_client::{Client, Error};

use super::Driver;
use crate::error::{Answer, Fault, Tried, Unanswered};

/// The kinds of requests that are counted.
pub(super) const KINDS: [&str; 9] =
    ["acl", "create", "delete", "list", "multi", "read", "stat", "watch", "write"];

impl Driver {
    /// One request, behind those of this client that came before. The crate queues a request when
    /// its method is called, not when its future is polled, so several calls in `send` are one
    /// round trip, carried out in that order.
    pub(super) async fn request<T, F>(
        &self,
        kind: &'static str,
        send: impl FnOnce(Arc<Client>) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let Ok((_pass, left)) = self.throttle.take(self.request_timeout).await else {
            return Err(Fault::Throttled);
        };
        self.request_within(kind, left, send).await
    }

    /// One request, before those that wait for their turn. The proof of contact needs it.
    pub(super) async fn request_first<T, F>(
        &self,
        kind: &'static str,
        send: impl FnOnce(Arc<Client>) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.request_within(kind, self.request_timeout, send).await
    }

    async fn request_within<T, F>(
        &self,
        kind: &'static str,
        time: Duration,
        send: impl FnOnce(Arc<Client>) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let begun = Instant::now();
        let tried = || Tried { hosts: self.link.host().to_owned(), took: begun.elapsed() };
        let timeout = tokio::time::sleep(time);
        tokio::pin!(timeout);
        if !self.is_connected() {
            tokio::select! {
                connected = self.connected() => connected?,
                () = &mut timeout => return Err(Fault::Unsent(tried())),
            }
        }
        let client = self.client()?;
        self.requests.sent(kind);
        tokio::select! {
            biased;
            answer = send(client) => answer.map_err(|error| Fault::from(error).after(tried())),
            _ = self.lease().until_lost() => Err(Fault::SessionOver),
            () = &mut timeout => Err(Fault::Unknown(Unanswered { answer: None, tried: Some(tried()) })),
        }
    }
}

/// Asks, behind a `sync` in the same trip if `sync` is set.
pub(super) async fn behind_sync<T, F>(
    client: &Client,
    path: &str,
    sync: bool,
    ask: impl FnOnce() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    // Both are called, and so queued, before the first is awaited.
    let synced = sync.then(|| client.sync(path));
    let answer = ask();
    if let Some(synced) = synced {
        synced.await?;
    }
    answer.await
}

/// The answer of an optional read.
pub(super) async fn found<F>(read: Option<F>) -> Option<Answer<(Vec<u8>, super::Stat)>>
where
    F: Future<Output = Result<(Vec<u8>, zookeeper_client::Stat), Error>>,
{
    Some(read?.await.map(|(data, stat)| (data, stat.into())).map_err(Fault::from))
}
