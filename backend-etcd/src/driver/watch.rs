use std::sync::Arc;

use etcd_client::{Client, EventType, WatchFilterType, WatchOptions, WatchResponse, WatchResponseStream};
use tokio::sync::mpsc;

use super::connection::Driver;
use super::encode::{signed, unsigned};
use super::request_kind::RequestKind;
use crate::error::Answer;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    /// Unique within a stream.
    pub(crate) id: i64,
    pub(crate) key: Arc<[u8]>,
    pub(crate) prefix: bool,
    pub(crate) from: u64,
    pub(crate) only: EventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Deletes,
    Puts,
    Both,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamEvent {
    /// The watch sends events after `revision`, or from its own start on if that is later.
    Created {
        id: i64,
        revision: u64,
    },
    /// Without changes: the server has sent all changes up to `revision`.
    Changed {
        id: i64,
        revision: u64,
        changes: Vec<Change>,
    },
    /// The server refuses the oldest start without an answer, with this text.
    Refused(String),
    Ended {
        id: i64,
        why: EndReason,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) revision: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The start of the watch is compacted.
    Compacted,
    Refused(String),
}

impl Driver {
    pub(crate) async fn watch(&self, first: Watch) -> Answer<(WatchRequests, WatchEvents)> {
        let open = |mut client: Client| {
            let (key, options) = (first.key.to_vec(), options(&first));
            async move { client.watch(key, Some(options)).await }
        };
        let (mut requests, events) = self.call(RequestKind::WATCH, open).await?.split();
        let (sender, mut receiver) = mpsc::unbounded_channel();
        // The stream's own queue is short: a task that waited for room in it would not read the answers that
        // make room.
        tokio::spawn(async move {
            while let Some(request) = receiver.recv().await {
                let sent = match request {
                    WatchRequest::Start(watch) => {
                        requests.watch(watch.key.to_vec(), Some(options(&watch))).await
                    }
                    WatchRequest::Stop(id) => requests.cancel(id).await,
                };
                if sent.is_err() {
                    return;
                }
            }
        });
        Ok((WatchRequests(sender), WatchEvents(events)))
    }
}

enum WatchRequest {
    Start(Watch),
    Stop(i64),
}

/// Dropping it ends the stream.
pub(crate) struct WatchRequests(mpsc::UnboundedSender<WatchRequest>);

impl WatchRequests {
    // If this fails, the stream has ended, and its reader notices.
    pub(crate) fn start(&self, watch: Watch) {
        let _ = self.0.send(WatchRequest::Start(watch));
    }

    pub(crate) fn stop(&self, id: i64) {
        let _ = self.0.send(WatchRequest::Stop(id));
    }
}

pub(crate) struct WatchEvents(WatchResponseStream);

impl WatchEvents {
    pub(crate) async fn next(&mut self) -> Option<StreamEvent> {
        match self.0.message().await {
            Ok(Some(response)) => Some(stream_event(&response)),
            Ok(None) => None,
            Err(error) => {
                tracing::debug!(%error, "a stream of watches ended");
                None
            }
        }
    }
}

fn stream_event(response: &WatchResponse) -> StreamEvent {
    let id = response.watch_id();
    let header = response.header().map_or(0, |header| unsigned(header.revision()));
    if response.canceled() && response.created() {
        return StreamEvent::Refused(response.cancel_reason().to_owned());
    }
    if response.canceled() {
        let why = match response.compact_revision() {
            0 => EndReason::Refused(response.cancel_reason().to_owned()),
            _ => EndReason::Compacted,
        };
        return StreamEvent::Ended { id, why };
    }
    if response.created() {
        return StreamEvent::Created { id, revision: header };
    }
    let changes = response.events().iter().filter_map(|event| {
        debug_assert!(matches!(event.event_type(), EventType::Put | EventType::Delete));
        event.kv().map(|kv| Change {
            key: kv.key().to_vec(),
            value: kv.value().to_vec(),
            revision: unsigned(kv.mod_revision()),
        })
    });
    StreamEvent::Changed { id, revision: header, changes: changes.collect() }
}

fn options(watch: &Watch) -> WatchOptions {
    let unwanted = match watch.only {
        EventKind::Deletes => vec![WatchFilterType::NoPut],
        EventKind::Puts => vec![WatchFilterType::NoDelete],
        EventKind::Both => Vec::new(),
    };
    let options = WatchOptions::new()
        .with_watch_id(watch.id)
        .with_start_revision(signed(watch.from))
        .with_filters(unwanted)
        .with_progress_notify();
    // Values that are put together under a prefix may be longer than one message that the client reads.
    if watch.prefix { options.with_prefix().with_fragment() } else { options }
}
