use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::OptionFuture;
use zookeeper_client::{Client, Error, Stat};

use super::Driver;
use super::kind::RequestKind;
use crate::error::{Answer, Fault, Tried, Unanswered};

impl Driver {
    /// Waits for the throttle and a connection, within the request timeout. The crate queues a request when
    /// its method is called, so several calls in `send` are one round trip.
    pub(super) async fn request<T>(
        &self,
        kind: RequestKind,
        send: impl AsyncFnOnce(Arc<Client>) -> Result<T, Error>,
    ) -> Answer<T> {
        let (_pass, time) = match kind.is_first {
            true => (None, self.request_timeout),
            false => match self.throttle.take(self.request_timeout).await {
                Ok((pass, left)) => (Some(pass), left),
                Err(_) => return Err(Fault::Throttled),
            },
        };
        let begun = Instant::now();
        let tried = || Tried { hosts: self.link.host().to_owned(), took: begun.elapsed() };
        let timeout = tokio::time::sleep(time);
        tokio::pin!(timeout);
        let answer = async {
            if !self.is_connected() {
                tokio::select! {
                    connected = self.connected() => connected?,
                    () = &mut timeout => return Err(Fault::Unsent(tried())),
                }
            }
            let client = self.client()?;
            self.requests.sent(kind.label);
            tokio::select! {
                biased;
                answer = send(client) => answer.map_err(|error| Fault::from(error).after(tried())),
                _ = self.lease().until_lost() => Err(Fault::SessionOver),
                () = &mut timeout => Err(Fault::Unknown(Unanswered { answer: None, tried: Some(tried()) })),
            }
        };
        answer.await.map_err(|fault| if self.only_watches { fault.of_watch_session() } else { fault })
    }
}

pub(super) async fn behind<T>(
    sync: Option<impl Future<Output = Result<(), Error>>>,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    OptionFuture::from(sync).await.transpose()?;
    answer.await
}

pub(super) async fn found(
    read: Option<impl Future<Output = Result<(Vec<u8>, Stat), Error>>>,
) -> Option<Answer<(Vec<u8>, Stat)>> {
    Some(read?.await.map_err(Fault::from))
}

pub(super) fn if_there<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(Error::NoNode) => Ok(None),
        answer => answer.map(Some),
    }
}

pub(super) async fn answers<T, R>(
    requests: Vec<impl Future<Output = Result<T, Error>>>,
    read: impl Fn(Result<T, Error>) -> Result<R, Error>,
) -> Result<Vec<R>, Error> {
    let mut answers = Vec::with_capacity(requests.len());
    for request in requests {
        answers.push(read(request.await)?);
    }
    Ok(answers)
}
