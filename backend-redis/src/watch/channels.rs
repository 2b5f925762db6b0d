//! All watches of one channel share one subscription. The last watch ends it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Mutex as Gate, watch};

use crate::driver::LiveConnection;

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) on: LiveConnection,
    pub(crate) confirmed: bool,
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) name: Arc<str>,
    /// Locked during a request, which keeps the order.
    pub(crate) subscription: Gate<Option<Subscription>>,
    // With each message: whether a node or cell may expire.
    news: watch::Sender<bool>,
}

impl Channel {
    pub(crate) fn is_watched(&self) -> bool {
        self.news.receiver_count() > 0
    }
}

/// Some are about to be unsubscribed.
#[derive(Debug, Default)]
pub(crate) struct Channels(Mutex<HashMap<Arc<str>, Arc<Channel>>>);

impl Channels {
    pub(crate) fn join(&self, name: &Arc<str>) -> (Arc<Channel>, watch::Receiver<bool>) {
        let mut channels = self.0.lock();
        let channel = channels.entry(Arc::clone(name)).or_insert_with(|| {
            let (name, subscription) = (Arc::clone(name), Gate::default());
            Arc::new(Channel { name, subscription, news: watch::Sender::new(false) })
        });
        (Arc::clone(channel), channel.news.subscribe())
    }

    /// Called with the gate locked, after the end of the subscription: a later watch creates a new channel,
    /// and subscribes after that.
    pub(crate) fn forget(&self, channel: &Arc<Channel>) {
        let mut channels = self.0.lock();
        let same = channels.get(&channel.name).is_some_and(|known| Arc::ptr_eq(known, channel));
        if same && !channel.is_watched() {
            channels.remove(&channel.name);
        }
    }

    /// Text in the message: a node or cell may expire. A forged message costs a read, or hides an expiry for
    /// at most a TTL.
    pub(crate) fn ring(&self, name: &[u8], message: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else { return };
        if let Some(channel) = self.0.lock().get(name) {
            channel.news.send_replace(!message.is_empty());
        }
    }
}
