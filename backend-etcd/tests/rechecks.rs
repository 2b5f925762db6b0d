//! A waiter whose event is lost finds its admission by its own look, and that counts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{at, config, contains, losing, server, soon, until_keys};
use latchwork_conformance::recorder::Recorder;
use tokio::sync::watch;

const QUEUE: &str = "latchwork/mutex/a/";

#[tokio::test]
async fn an_admission_without_an_event_is_found_and_counted() {
    let server = server().await;
    let (losing, holds) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(String::new())));
    let (lost, told) = (Arc::new(AtomicUsize::new(0)), watch::Sender::new(0));
    let (loses, named, loss, tell) =
        (Arc::clone(&losing), Arc::clone(&holds), Arc::clone(&lost), told.clone());
    // Whatever tells the waiter of the holder's node.
    let relay = losing::relay(server.addr(), move |data| {
        let key = named.lock().unwrap();
        let tells = !key.is_empty() && contains(data, key.as_str());
        let is_lost = tells && loses.load(Ordering::Acquire);
        loss.fetch_add(usize::from(is_lost), Ordering::AcqRel);
        tell.send_modify(|count| *count += usize::from(tells && !is_lost));
        is_lost
    })
    .await;
    let direct = config(&server, "ttl=60s");
    // Its re-check, once a TTL, comes before no event.
    let mut through = config(&server, "ttl=8s");
    through.hosts = vec![relay.addr()];
    let (holder, recorder) = (at(&direct).await.unwrap(), Recorder::new());
    let waiting = recorder.scope(at(&through)).await.unwrap();
    let found = || recorder.sum("latchwork_rechecks_found_total", &[("what", "admission")]);
    for (loses, counted) in [(false, 0.0), (true, 1.0)] {
        let mutex = holder.mutex("a").unwrap();
        let hold = soon(mutex.acquire()).await.unwrap();
        let node = until_keys(&server, QUEUE, 1).await.remove(0);
        *holds.lock().unwrap() = node;
        let (waiter, before) = (waiting.mutex("a").unwrap(), *told.borrow());
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        // The answer to its join shows it the holder: what is left to hear of is the departure.
        soon(told.subscribe().wait_for(|count| *count > before)).await.unwrap();
        losing.store(loses, Ordering::Release);
        soon(hold.release()).await.unwrap();
        let admitted = soon(waiter).await.unwrap().unwrap();
        losing.store(false, Ordering::Release);
        soon(admitted.release()).await.unwrap();
        assert_eq!((found(), lost.load(Ordering::Acquire) > 0), (counted, loses), "{recorder:?}");
    }
    holder.close().await.unwrap();
    waiting.close().await.unwrap();
}
