use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::common::rewriter::rewriting;
use crate::common::{config, coordinator, server, stranger};
use latchwork_conformance::lost_events::LostEvents;
use latchwork_conformance::recorder::Recorder;

/// An event has this in place of a request's number.
const EVENT: [u8; 4] = (-1_i32).to_be_bytes();
/// Number, transaction, error, kind, state, length of the path.
const PATH: usize = 4 + 8 + 4 + 4 + 4 + 4;

fn watches(request: &[u8], node: &str) -> Option<i32> {
    let (xid, rest) = request.split_first_chunk()?;
    let code = i32::from_be_bytes(*rest.first_chunk()?);
    let path = request.strip_suffix(&[1])?;
    (matches!(code, 3 | 4) && !node.is_empty() && path.ends_with(node.as_bytes()))
        .then(|| i32::from_be_bytes(*xid))
}

#[tokio::test]
async fn an_admission_without_an_event_is_found_and_counted() {
    let (server, events) = (server().await, Arc::new(LostEvents::default()));
    let (asked, asks) = (Arc::clone(&events), Arc::new(AtomicI32::new(0)));
    let (told, answered) = (Arc::clone(&events), Arc::clone(&asks));
    let request = move |request: &mut Vec<u8>| {
        if let Some(xid) = watches(request, &asked.node.lock().unwrap()) {
            asks.store(xid, Ordering::Release);
        }
    };
    // The changed event is about a node without a watch.
    let garble = move |reply: &mut Vec<u8>| {
        if told.losing.load(Ordering::Acquire) && reply.starts_with(&EVENT) && reply.len() > PATH {
            reply[PATH..].fill(b'-');
            reply[PATH] = b'/';
            told.lost.fetch_add(1, Ordering::AcqRel);
        }
        if !reply.starts_with(&EVENT) && reply.starts_with(&answered.load(Ordering::Acquire).to_be_bytes()) {
            told.watched.send_modify(|count| *count += 1);
        }
    };
    let rewriter = rewriting(server.addr(), request, garble).await;
    let mut direct = config(server.addr());
    direct.ttl = Duration::from_secs(8);
    let mut through = direct.clone();
    through.hosts = vec![rewriter.addr()];
    let (holder, recorder) = (coordinator(&direct).await, Recorder::new());
    let waiting = recorder.scope(coordinator(&through)).await;
    let stranger = stranger(server.addr()).await;
    let node = async || {
        let mut nodes = stranger.list_children(&format!("/{}/mutex/a", direct.namespace)).await.unwrap();
        assert_eq!(nodes.len(), 1, "only the holder's node remains: {nodes:?}");
        nodes.remove(0)
    };
    events.are_made_up_for([holder, waiting], &recorder, node).await;
}
