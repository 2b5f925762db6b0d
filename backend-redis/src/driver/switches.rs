//! A Sentinel's word that there is another master: the connection to the one before it is given up.
//!
//! A master that Sentinels have demoted closes its connections itself, as soon as one of them
//! reaches it. Until then it believes in itself, and so would a client that nobody tells.

use std::sync::{Arc, Weak};
use std::time::Duration;

use latchwork_core::support::Backoff;
use latchwork_core::{Error, ErrorKind};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::watch;

use super::link::{Link, give_up_before};
use super::sentinels::{listen, switched};
use crate::config::{Host, Sentinels};

/// The shortest and the longest pause before a Sentinel is dialled again, without jitter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The task: listens to one Sentinel after the other, until the driver is closed or dropped.
pub(super) async fn follow(sentinels: Sentinels, bound: Duration, link: Weak<watch::Sender<Link>>) {
    let Some(mut closed) = link.upgrade().map(|link| link.subscribe()) else { return };
    let following = async {
        let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
        loop {
            if heard_of(&sentinels, bound, &link).await {
                pauses.reset();
            }
            tokio::time::sleep(pauses.next()).await;
        }
    };
    tokio::select! {
        () = following => {}
        _ = closed.wait_for(Link::is_closed) => {}
    }
}

/// Listens to one Sentinel until its connection ends. Answers whether there was one.
async fn heard_of(sentinels: &Sentinels, bound: Duration, link: &Weak<watch::Sender<Link>>) -> bool {
    let ended = Arc::new(tokio::sync::Notify::new());
    let (service, heard, ending) = (sentinels.service.clone(), link.clone(), Arc::clone(&ended));
    let on_push = move |push: PushInfo| match (push.kind, push.data.as_slice()) {
        (PushKind::Message, [_, Value::BulkString(message)]) => {
            if let Some(master) = switched(message, &service) {
                leads(&heard, &master);
            }
        }
        (PushKind::Disconnection, _) => ending.notify_one(),
        _ => {}
    };
    match listen(sentinels, bound, Arc::new(on_push)).await {
        Ok((_connection, master)) => {
            // It may have changed while nobody listened.
            leads(link, &master);
            ended.notified().await;
            true
        }
        Err(failure) => {
            tracing::debug!(error = %failure.error, "no Sentinel to listen to");
            false
        }
    }
}

/// This is the master now: a connection that leads elsewhere is of no use.
fn leads(link: &Weak<watch::Sender<Link>>, master: &Host) {
    let Some(link) = link.upgrade() else { return };
    let why = Error::new(ErrorKind::Unavailable, format!("a Sentinel says that {master} is the master now"));
    give_up_before(&link, master, &why);
}
