//! A waiter whose event is lost finds its admission by its own look, and that counts.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::rewriter::rewriting;
use crate::common::{config, coordinator, server, soon};
use latchwork_conformance::recorder::Recorder;
use tokio::sync::watch;

/// An event's number, in the place of a request's.
const EVENT: [u8; 4] = (-1_i32).to_be_bytes();
/// Number, transaction, error, kind, state and the path's length stand before the path.
const PATH: usize = 4 + 8 + 4 + 4 + 4 + 4;

/// The number of a request that watches this node: `exists` or `getData` with its flag set.
fn watches(request: &[u8], node: &str) -> Option<i32> {
    let (xid, rest) = request.split_first_chunk()?;
    let code = i32::from_be_bytes(*rest.first_chunk()?);
    let path = request.strip_suffix(&[1])?;
    (matches!(code, 3 | 4) && !node.is_empty() && path.ends_with(node.as_bytes()))
        .then(|| i32::from_be_bytes(*xid))
}

#[tokio::test]
async fn an_admission_without_an_event_is_found_and_counted() {
    let server = server().await;
    let (losing, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (loses, count) = (Arc::clone(&losing), Arc::clone(&lost));
    let (asked, armed) = (Arc::new(AtomicI32::new(0)), watch::Sender::new(0));
    let holders = Arc::new(Mutex::new(String::new()));
    let node = Arc::clone(&holders);
    let (asks, arms) = (Arc::clone(&asked), armed.clone());
    let request = move |request: &mut Vec<u8>| {
        if let Some(xid) = watches(request, &node.lock().unwrap()) {
            asks.store(xid, Ordering::Release);
        }
    };
    // What it tells of is a node that nobody watches.
    let garble = move |reply: &mut Vec<u8>| {
        if loses.load(Ordering::Acquire) && reply.starts_with(&EVENT) && reply.len() > PATH {
            reply[PATH..].fill(b'-');
            reply[PATH] = b'/';
            count.fetch_add(1, Ordering::AcqRel);
        }
        if !reply.starts_with(&EVENT) && reply.starts_with(&asked.load(Ordering::Acquire).to_be_bytes()) {
            arms.send_modify(|count| *count += 1);
        }
    };
    let rewriter = rewriting(server.addr(), request, garble).await;
    let mut direct = config(server.addr());
    // Its look, each three quarters of a TTL, comes before no event.
    direct.ttl = Duration::from_secs(8);
    let mut through = direct.clone();
    through.hosts = vec![rewriter.addr()];
    let (holder, recorder) = (coordinator(&direct).await, Recorder::new());
    let waiting = recorder.scope(coordinator(&through)).await;
    let stranger = crate::common::stranger(server.addr()).await;
    let found = || recorder.sum("latchwork_rechecks_found_total", &[("what", "admission")]);
    for (loses, counted) in [(false, 0.0), (true, 1.0)] {
        let mutex = holder.mutex("a").unwrap();
        let hold = soon(mutex.acquire()).await.unwrap();
        let nodes = stranger.list_children(&format!("/{}/mutex/a", direct.namespace)).await.unwrap();
        assert_eq!(nodes.len(), 1, "the holder's alone: {nodes:?}");
        holders.lock().unwrap().clone_from(&nodes[0]);
        let (waiter, before) = (waiting.mutex("a").unwrap(), *armed.borrow());
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        // It watches the holder's node now.
        soon(armed.subscribe().wait_for(|count| *count > before)).await.unwrap();
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
