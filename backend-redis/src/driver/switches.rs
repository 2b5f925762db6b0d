//! A Sentinel's word that there is another master: the connection to the one before it is given up.
//!
//! A master that Sentinels have demoted closes its connections itself, as soon as one of them
//! reaches it. Until then it believes in itself, and so would a client that nobody tells.

use std::sync::{Arc, Weak};
use std::time::Duration;

use latchwork_core::support::Backoff;
use latchwork_core::{Error, ErrorKind};
use parking_lot::Mutex;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::link::{Link, give_up_before};
use super::sentinels::{listen, named, switched};
use crate::config::{Host, Sentinels};

/// The shortest and the longest pause before a Sentinel is dialled again, without jitter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The last word of the Sentinel that is listened to. A dial may have begun before it.
#[derive(Debug, Default)]
pub(super) struct Word(Mutex<(u64, Option<Host>)>);

impl Word {
    fn hear(&self, master: &Host) {
        let mut word = self.0.lock();
        if word.1.as_ref() != Some(master) {
            *word = (word.0 + 1, Some(master.clone()));
        }
    }

    /// How often it has changed.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().0
    }

    /// Why a connection to this server is of no use, if another one was named since then.
    pub(super) fn against(&self, host: &Host, since: u64) -> Option<Error> {
        let word = self.0.lock();
        match &*word {
            (count, Some(master)) if *count != since && master != host => Some(elsewhere(master)),
            _ => None,
        }
    }
}

fn elsewhere(master: &Host) -> Error {
    Error::new(ErrorKind::Unavailable, format!("a Sentinel says that {master} is the master now"))
}

/// What it hears of, and by whom.
#[derive(Clone)]
pub(super) struct Followed {
    pub(super) link: Weak<watch::Sender<Link>>,
    pub(super) word: Arc<Word>,
}

impl Followed {
    /// This is the master now: a connection that leads elsewhere is of no use, nor one that is being made.
    fn leads(&self, master: &Host) {
        // In this order: a connection is published under the link's lock, by the word as it is then.
        self.word.hear(master);
        if let Some(link) = self.link.upgrade() {
            give_up_before(&link, master, &elsewhere(master));
        }
    }
}

/// The task: listens to one Sentinel after the other, until the driver is closed or dropped.
pub(super) async fn follow(sentinels: Sentinels, bound: Duration, followed: Followed) {
    let Some(mut closed) = followed.link.upgrade().map(|link| link.subscribe()) else { return };
    let following = async {
        let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
        loop {
            if heard_of(&sentinels, bound, &followed).await {
                pauses.reset();
            }
            sleep(pauses.next()).await;
        }
    };
    tokio::select! {
        () = following => {}
        _ = closed.wait_for(Link::is_closed) => {}
    }
}

/// Listens to one Sentinel until its connection ends, or it does not answer within `bound`: one that is silent says
/// nothing of a new master either. Answers whether there was one.
async fn heard_of(sentinels: &Sentinels, bound: Duration, followed: &Followed) -> bool {
    let ended = Arc::new(Notify::new());
    let (service, heard, ending) = (sentinels.service.clone(), followed.clone(), Arc::clone(&ended));
    let on_push = move |push: PushInfo| match (push.kind, push.data.as_slice()) {
        (PushKind::Message, [_, Value::BulkString(message)]) => {
            if let Some(master) = switched(message, &service) {
                heard.leads(&master);
            }
        }
        (PushKind::Disconnection, _) => ending.notify_one(),
        _ => {}
    };
    let (mut connection, mut master) = match listen(sentinels, bound, Arc::new(on_push)).await {
        Ok(listened) => listened,
        Err(failure) => {
            tracing::debug!(error = %failure.error, "no Sentinel to listen to");
            return false;
        }
    };
    // It may have changed while nobody listened.
    followed.leads(&master);
    loop {
        tokio::select! {
            () = ended.notified() => return true,
            () = sleep(bound) => {}
        }
        match timeout(bound, named(&mut connection, &sentinels.service)).await {
            // Nothing new: a dial may have been told by a Sentinel that knows more.
            Ok(Ok(Some(again))) if again == master => {}
            Ok(Ok(Some(new))) => {
                followed.leads(&new);
                master = new;
            }
            // Another one may know more.
            Ok(Ok(None) | Err(_)) | Err(_) => return true,
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
        // A Sentinel that is asked later may know more than the one that is listened to.
        assert!(word.against(&other, before).is_none());
        word.hear(&one);
        assert!(word.against(&other, before).is_none(), "it says nothing new");
        word.hear(&other);
        let said = word.against(&one, before).expect("a switch during the dial");
        assert!(said.to_string().contains("other") && word.against(&other, before).is_none(), "{said}");
    }
}
