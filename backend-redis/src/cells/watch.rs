//! The watch of a cell: a subscription to its channel.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use latchwork_core::contracts::ChangeWatch;
use latchwork_core::{Address, Error, Result};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::driver::Standing;
use crate::layout::CellKey;
use crate::watch::{Channel, Subscription};

/// It does not keep the client alive, nor its connection open.
#[derive(Debug)]
pub(crate) struct RedisCellWatch {
    client: Weak<Client>,
    closing: CancellationToken,
    cell: Address,
    listening: Option<Listening>,
}

impl RedisCellWatch {
    pub(crate) fn new(client: &Arc<Client>, cell: Address) -> Self {
        let closing = client.closing.clone();
        Self { client: Arc::downgrade(client), closing, cell, listening: None }
    }

    async fn next(&mut self) -> Result<()> {
        if let Some(listening) = &mut self.listening
            && let Some(on) = &mut listening.on
        {
            tokio::select! {
                // Never an error: the channel that it holds has the sender.
                _ = listening.news.changed() => return Ok(()),
                () = on.ended() => {}
            }
            // Messages may have been lost: it subscribes anew, and answers.
            listening.on = None;
        }
        let client = self.client.upgrade().ok_or_else(Error::closed)?;
        if self.listening.is_none() {
            self.listening = Some(Listening::new(&client, &self.cell)?);
        }
        match &mut self.listening {
            Some(listening) => listening.subscribe(&client).await,
            None => Err(Error::closed()),
        }
    }
}

#[async_trait]
impl ChangeWatch for RedisCellWatch {
    async fn changed(&mut self) -> Result<()> {
        let closing = self.closing.clone();
        tokio::select! {
            biased;
            () = closing.cancelled() => Err(Error::closed()),
            answer = self.next() => answer,
        }
    }
}

/// A watch's part of a channel.
#[derive(Debug)]
struct Listening {
    client: Weak<Client>,
    channel: Arc<Channel>,
    news: watch::Receiver<()>,
    // The connection on which the server has confirmed the subscription.
    on: Option<Standing>,
}

impl Listening {
    fn new(client: &Arc<Client>, cell: &Address) -> Result<Self> {
        let key = CellKey::of(cell)?;
        let (channel, news) = client.channels.join(key.channel());
        Ok(Self { client: Arc::downgrade(client), channel, news, on: None })
    }

    /// Subscribes on the connection that stands, or the next one, within the request timeout.
    async fn subscribe(&mut self, client: &Client) -> Result<()> {
        let until = Instant::now() + client.request_timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let on = client.driver.standing(left).await?;
            // A message from here on is news after the answer.
            self.news.mark_unchanged();
            let asking = timeout_at(until, confirmed(client, &self.channel, &on));
            match asking.await.unwrap_or_else(|_| Err(crate::error::closed())) {
                Ok(()) => {
                    self.on = Some(on);
                    return Ok(());
                }
                // Another connection follows.
                Err(error) if error.is_retryable() && !on.is_up() && Instant::now() < until => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Asks for the subscription unless another watch has it on this connection.
async fn confirmed(client: &Client, channel: &Channel, on: &Standing) -> Result<()> {
    let mut subscription = channel.subscription.lock().await;
    let generation = on.generation();
    if subscription.as_ref().is_some_and(|known| known.confirmed && known.on.generation() == generation) {
        return Ok(());
    }
    // Noted first: a request that is dropped may still be carried out, and must be undone.
    *subscription = Some(Subscription { on: on.clone(), confirmed: false });
    client.driver.listen(on, &channel.name, true, client.request_timeout).await?;
    *subscription = Some(Subscription { on: on.clone(), confirmed: true });
    Ok(())
}

impl Drop for Listening {
    fn drop(&mut self) {
        // A closed or dropped client has no connection, and so no subscription.
        let Some(client) = self.client.upgrade().filter(|client| !client.closing.is_cancelled()) else {
            return;
        };
        // The receiver of a watch that is being dropped must not count.
        self.news = watch::Sender::new(()).subscribe();
        if !self.channel.is_watched() {
            let (runtime, channel) = (client.runtime.clone(), Arc::clone(&self.channel));
            runtime.spawn(async move {
                let closing = client.closing.clone();
                closing.run_until_cancelled(leave(&client, &channel)).await;
            });
        }
    }
}

/// Ends a subscription that no watch needs any more.
async fn leave(client: &Client, channel: &Arc<Channel>) {
    let mut subscription = channel.subscription.lock().await;
    if channel.is_watched() {
        // Another watch came in the meantime.
        return;
    }
    if let Some(Subscription { on, .. }) = subscription.take()
        && on.is_up()
        && let Err(error) = client.driver.listen(&on, &channel.name, false, client.request_timeout).await
    {
        tracing::debug!(%error, "a subscription was not ended; it ends with its connection");
    }
    client.channels.forget(channel);
}
