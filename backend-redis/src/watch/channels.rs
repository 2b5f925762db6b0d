//! The channels of cells and queues that this client listens to.
//!
//! All watches of one channel share one subscription. The last one to go ends it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Mutex as Gate, watch};

use crate::driver::LiveConnection;

/// The subscription to a channel, as far as it was asked for.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// On this connection, with which it ends.
    pub(crate) on: LiveConnection,
    /// The server has confirmed it.
    pub(crate) confirmed: bool,
}

/// One channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) name: Arc<str>,
    /// Held while the server is asked, so that the requests of one channel keep their order.
    pub(crate) subscription: Gate<Option<Subscription>>,
    // Changes with each message: whether something is there that may end by itself. Its receivers
    // are the watches.
    news: watch::Sender<bool>,
}

impl Channel {
    pub(crate) fn is_watched(&self) -> bool {
        self.news.receiver_count() > 0
    }
}

/// The channels that are watched, and those that are about to be left.
#[derive(Debug, Default)]
pub(crate) struct Channels(Mutex<HashMap<Arc<str>, Arc<Channel>>>);

impl Channels {
    /// Another watch of a channel, and what tells it of messages.
    pub(crate) fn join(&self, name: &Arc<str>) -> (Arc<Channel>, watch::Receiver<bool>) {
        let mut channels = self.0.lock();
        let channel = channels.entry(Arc::clone(name)).or_insert_with(|| {
            let (name, subscription) = (Arc::clone(name), Gate::default());
            Arc::new(Channel { name, subscription, news: watch::Sender::new(false) })
        });
        (Arc::clone(channel), channel.news.subscribe())
    }

    /// Forgets a channel that nobody watches. Called with its gate held, after the server was told:
    /// whoever joins later makes a new one, and comes after that.
    pub(crate) fn forget(&self, channel: &Arc<Channel>) {
        let mut channels = self.0.lock();
        let same = channels.get(&channel.name).is_some_and(|known| Arc::ptr_eq(known, channel));
        if same && !channel.is_watched() {
            channels.remove(&channel.name);
        }
    }

    /// A message has come. Text in it means that something there may end by itself. A forged one
    /// costs a read, or the news of an end, which watchers learn by themselves within a TTL.
    pub(crate) fn ring(&self, name: &[u8], message: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else { return };
        if let Some(channel) = self.0.lock().get(name) {
            channel.news.send_replace(!message.is_empty());
        }
    }
}
