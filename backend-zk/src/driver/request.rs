//! How a request is sent: in its turn, while there is a connection, and within its bounds.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use zookeeper_client::{Client, Error};

use super::Driver;
use crate::error::{Answer, Fault, Tried, Unanswered};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Acl,
    Create,
    /// A create before the requests that wait for the throttle.
    CreateFirst,
    Delete,
    List,
    Multi,
    Read,
    Stat,
    /// A stat before the requests that wait for the throttle. The proof of contact needs it.
    Contact,
    Watch,
    Write,
}

impl RequestKind {
    /// The labels of all kinds.
    pub(super) const LABELS: [&str; 9] =
        ["acl", "create", "delete", "list", "multi", "read", "stat", "watch", "write"];

    /// The label in metrics.
    fn label(self) -> &'static str {
        match self {
            Self::Acl => "acl",
            Self::Create | Self::CreateFirst => "create",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Multi => "multi",
            Self::Read => "read",
            Self::Stat | Self::Contact => "stat",
            Self::Watch => "watch",
            Self::Write => "write",
        }
    }
}

impl Driver {
    /// Sends one request, when the throttle lets it pass, while there is a connection, and within the request
    /// timeout. The crate queues a request when its method is called, not when its future is polled, so several calls
    /// in `send` are one round trip, carried out in that order.
    pub(super) async fn request<T, F>(
        &self,
        kind: RequestKind,
        send: impl FnOnce(Arc<Client>) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (_pass, time) = match kind {
            RequestKind::Contact | RequestKind::CreateFirst => (None, self.request_timeout),
            _ => match self.throttle.take(self.request_timeout).await {
                Ok((pass, left)) => (Some(pass), left),
                Err(_) => return Err(Fault::Throttled),
            },
        };
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
        self.requests.sent(kind.label());
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
