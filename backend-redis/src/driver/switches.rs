//! Gives up the connection to a master when Sentinels announce another one: a demoted master considers itself
//! a master until a Sentinel reaches it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::backend::{Backoff, Pauses};
use latchwork_core::{Error, ErrorKind};
use parking_lot::Mutex;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::link::{Link, take_down_if};
use super::sentinels::{ask, named, named_by_most, switched};
use crate::config::{Host, Sentinels};

/// The last announced master, and how often it has changed: a dial may have begun before.
#[derive(Debug, Default)]
pub(super) struct Word(Mutex<(u64, Option<Host>)>);

impl Word {
    fn hear(&self, master: &Host) {
        let mut word = self.0.lock();
        if word.1.as_ref() != Some(master) {
            *word = (word.0 + 1, Some(master.clone()));
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.lock().0
    }

    pub(super) fn against(&self, host: &Host, since: u64) -> Option<Error> {
        let word = self.0.lock();
        match &*word {
            (count, Some(master)) if *count != since && master != host => Some(elsewhere(master)),
            _ => None,
        }
    }
}

fn elsewhere(master: &Host) -> Error {
    Error::new(ErrorKind::Unavailable, format!("a Sentinel reports that {master} is the master now"))
}

#[derive(Clone)]
pub(super) struct Followed {
    pub(super) link: Weak<watch::Sender<Link>>,
    pub(super) word: Arc<Word>,
}

impl Followed {
    fn leads(&self, master: &Host) {
        // In this order: a connection is published under the link's lock, if the last announcement then
        // allows it.
        self.word.hear(master);
        if let Some(link) = self.link.upgrade() {
            take_down_if(&link, &elsewhere(master), |wire| *wire.host != *master);
        }
    }
}

pub(super) async fn follow(sentinels: Sentinels, bound: Duration, followed: Followed) {
    let Some(mut closed) = followed.link.upgrade().map(|link| link.subscribe()) else { return };
    let voices = Mutex::new(vec![Voice::Unheard; sentinels.hosts.len()]);
    let listener = Arc::new(Listener { sentinels, bound, voices, followed });
    let listening = join_all((0..listener.sentinels.hosts.len()).map(|place| listener.listen_always(place)));
    tokio::select! {
        _ = listening => {}
        _ = closed.wait_for(Link::is_closed) => {}
    }
}

#[derive(Clone)]
enum Voice {
    /// The connection may have broken.
    Unheard,
    Gone,
    Names(Host),
}

/// Listens to all Sentinels, because a single one may have only an old master.
struct Listener {
    sentinels: Sentinels,
    bound: Duration,
    voices: Mutex<Vec<Voice>>,
    followed: Followed,
}

impl Listener {
    fn switches(&self, place: usize, [old, new]: [Host; 2]) {
        self.sentinels.replaced.heard(old, &new);
        self.voices.lock()[place] = Voice::Names(new.clone());
        self.followed.leads(&new);
    }

    /// More than half of the reachable Sentinels must agree, because one that has started with an old file
    /// may name an old master.
    fn names(&self, place: usize, master: Host) {
        let mut voices = self.voices.lock();
        voices[place] = Voice::Names(master);
        let votes: Vec<_> = voices
            .iter()
            .filter_map(|voice| match voice {
                Voice::Unheard => Some(None),
                Voice::Gone => None,
                Voice::Names(master) => Some(Some(master.clone())),
            })
            .collect();
        if let Some(master) = named_by_most(&votes, &self.sentinels.replaced.lately()) {
            self.followed.leads(master);
        }
    }

    async fn listen_always(self: &Arc<Self>, place: usize) {
        let mut pauses = Backoff::new(Pauses::FAILOVER);
        loop {
            let was_there = self.listen(place).await;
            self.voices.lock()[place] = if was_there { Voice::Unheard } else { Voice::Gone };
            if was_there {
                pauses.reset();
            }
            sleep(pauses.next()).await;
        }
    }

    /// Until the connection ends or an answer is late. Returns whether the Sentinel was reached.
    async fn listen(self: &Arc<Self>, place: usize) -> bool {
        let ended = Arc::new(Notify::new());
        let (listener, ending) = (Arc::clone(self), Arc::clone(&ended));
        let on_push = move |push: PushInfo| match (push.kind, push.data.as_slice()) {
            (PushKind::Message, [_, Value::BulkString(message)]) => {
                if let Some(hosts) = switched(message, &listener.sentinels.service) {
                    listener.switches(place, hosts);
                }
            }
            (PushKind::Disconnection, _) => ending.notify_one(),
            _ => {}
        };
        let asking = ask(&self.sentinels, place, self.bound, Some(Arc::new(on_push)));
        let (mut connection, master) = match asking.await {
            Ok(listened) => listened,
            Err(failure) => {
                tracing::debug!(error = %failure.error, "the client cannot listen to this Sentinel");
                return false;
            }
        };
        // The master may have changed before this connection.
        self.names(place, master);
        loop {
            tokio::select! {
                () = ended.notified() => return true,
                () = sleep(self.bound) => {}
            }
            let asking = named(&mut connection, &self.sentinels.service);
            let Ok(Ok(Ok(Some(master)))) = timeout(self.bound, asking).await else { return true };
            self.names(place, master);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_against_dials_that_began_before_it() {
        let host = |name: &str| Host { name: name.to_owned(), port: 6379 };
        let (word, one, other) = (Word::default(), host("one"), host("other"));
        let unheard = word.count();
        assert!(word.against(&one, unheard).is_none(), "nobody has said anything");
        word.hear(&one);
        let before = word.count();
        assert!(word.against(&one, unheard).is_none() && word.against(&other, unheard).is_some());
        // A later question may get a newer answer.
        assert!(word.against(&other, before).is_none());
        word.hear(&one);
        assert!(word.against(&other, before).is_none(), "it says nothing new");
        word.hear(&other);
        let said = word.against(&one, before).expect("a switch during the dial");
        assert!(said.to_string().contains("other") && word.against(&other, before).is_none(), "{said}");
    }
}
