//! The watch of a cell or a queue: a subscription to its channel, and a look when a node or the cell may have
//! expired, which Redis does not publish.
//!
//! The look drops expired nodes, notifies all watches of the queue, and answers when the next node expires.
//! Redis removes an expired cell itself, so each watch that has seen the cell reports the change.
//!
//! *Why no change is missed.* The first look follows the confirmed subscription, and the first report follows
//! the look. If a later node or cell may expire, its message says so, and the watch looks soon after, within
//! the shortest TTL.
//!
//! *Cost.* While nodes and cells are renewed, at most one look per watch in each two thirds of the TTL. Many
//! messages at one time cost one look.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use latchwork_core::backend::ChangeWatch;
use latchwork_core::{Clock, Error, Result};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::channels::{Channel, Subscription};
use super::next_look::NextLook;
use crate::client::Client;
use crate::driver::LiveConnection;
use crate::error::only_read;
use crate::layout::{CellKey, QueueKeys};
use crate::scripts::{self, Looked};

#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Cell(CellKey),
    Queue(QueueKeys),
}

impl Subject {
    fn channel(&self) -> Arc<str> {
        match self {
            Subject::Cell(cell) => Arc::clone(cell.channel()),
            Subject::Queue(queue) => queue.news(),
        }
    }

    /// The flag: the script has just notified the watches.
    async fn look(&self, client: &Arc<Client>) -> Result<(Looked, bool)> {
        match self {
            Subject::Cell(cell) => {
                let (_, reply) = client.run(&scripts::look_cell(cell)).await.map_err(only_read)?;
                Ok((scripts::cell_looked(reply)?, false))
            }
            Subject::Queue(queue) => {
                let (_, reply) = client.run(&scripts::look(queue)).await.map_err(only_read)?;
                let (looked, told, flags) = scripts::looked(reply)?;
                client.act_on(flags, queue);
                Ok((looked, told))
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct RedisWatch {
    client: Weak<Client>,
    closing: CancellationToken,
    clock: Clock,
    subject: Result<Subject>,
    listening: Option<Listening>,
}

impl RedisWatch {
    pub(crate) fn new(client: &Arc<Client>, subject: Result<Subject>) -> Self {
        let (closing, clock) = (client.closing.clone(), client.clock.clone());
        Self { client: Arc::downgrade(client), closing, clock, subject, listening: None }
    }

    async fn next(&mut self) -> Result<()> {
        let subject = self.subject.clone()?;
        let client = || self.client.upgrade().ok_or_else(Error::closed);
        while let Some(listening) = &mut self.listening
            && let Some(on) = &mut listening.on
        {
            let look_at = listening.next_look.at;
            let looking = async {
                self.clock.sleep_until(look_at).await;
                subject.look(&client()?).await
            };
            tokio::select! {
                // Never an error: the channel has the sender.
                _ = listening.news.changed() => {
                    let may_end = *listening.news.borrow_and_update();
                    listening.next_look.told(self.clock.now(), may_end);
                    return Ok(());
                }
                looked = looking => {
                    if listening.next_look.looked(self.clock.now(), looked)? {
                        return Ok(());
                    }
                }
                // Messages may have been lost.
                () = on.ended() => listening.on = None,
            }
        }
        let client = client()?;
        let listening = self.listening.get_or_insert_with(|| Listening::new(&client, &subject));
        listening.subscribe(&client, &subject).await
    }
}

#[async_trait]
impl ChangeWatch for RedisWatch {
    async fn changed(&mut self) -> Result<()> {
        let closing = self.closing.clone();
        tokio::select! {
            biased;
            () = closing.cancelled() => Err(Error::closed()),
            answer = self.next() => answer,
        }
    }
}

#[derive(Debug)]
struct Listening {
    client: Weak<Client>,
    channel: Arc<Channel>,
    // `true`: a node or cell may expire.
    news: watch::Receiver<bool>,
    on: Option<LiveConnection>,
    next_look: NextLook,
}

impl Listening {
    fn new(client: &Arc<Client>, subject: &Subject) -> Self {
        let (channel, news) = client.channels.join(&subject.channel());
        Self { client: Arc::downgrade(client), channel, news, on: None, next_look: NextLook::NEVER }
    }

    /// Waits for a connection within the request timeout.
    async fn subscribe(&mut self, client: &Arc<Client>, subject: &Subject) -> Result<()> {
        let until = Instant::now() + client.request_timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let on = client.driver.standing(&self.channel.name, left).await?;
            // A message from here on is a change after this state.
            self.news.mark_unchanged();
            let asking = async {
                confirmed(client, &self.channel, &on).await?;
                subject.look(client).await
            };
            match timeout_at(until, asking).await.unwrap_or_else(|_| Err(crate::error::closed())) {
                Ok(looked) => {
                    self.next_look.looked(client.clock.now(), Ok(looked))?;
                    self.on = Some(on);
                    return Ok(());
                }
                Err(error) if error.may_pass() && !on.is_up() && Instant::now() < until => {}
                Err(error) => return Err(error),
            }
        }
    }
}
async fn confirmed(client: &Client, channel: &Channel, on: &LiveConnection) -> Result<()> {
    let mut subscription = channel.subscription.lock().await;
    if subscription.as_ref().is_some_and(|known| known.confirmed && known.on.is(on)) {
        return Ok(());
    }
    // Recorded first: a dropped request may be carried out, and must then be undone.
    *subscription = Some(Subscription { on: on.clone(), confirmed: false });
    client.driver.listen(on, &channel.name, true, client.request_timeout).await?;
    *subscription = Some(Subscription { on: on.clone(), confirmed: true });
    Ok(())
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Some(client) = self.client.upgrade().filter(|client| !client.closing.is_cancelled()) else {
            return;
        };
        // The receiver that is being dropped must not count.
        self.news = watch::Sender::new(false).subscribe();
        if !self.channel.is_watched() {
            let (runtime, channel) = (client.runtime.clone(), Arc::clone(&self.channel));
            runtime.spawn(async move {
                let closing = client.closing.clone();
                closing.run_until_cancelled(leave(&client, &channel)).await;
            });
        }
    }
}

async fn leave(client: &Client, channel: &Arc<Channel>) {
    let mut subscription = channel.subscription.lock().await;
    if channel.is_watched() {
        return;
    }
    if let Some(Subscription { on, .. }) = subscription.take()
        && on.is_up()
        && let Err(error) = client.driver.listen(&on, &channel.name, false, client.request_timeout).await
    {
        tracing::debug!(%error, "could not unsubscribe from a channel; the subscription ends with its connection");
    }
    client.channels.forget(channel);
}
