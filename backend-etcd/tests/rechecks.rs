use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::{at, config, contains, losing, server, until_keys};
use latchwork_conformance::lost_events::LostEvents;
use latchwork_conformance::recorder::Recorder;

#[tokio::test]
async fn an_admission_without_an_event_is_found_and_counted() {
    let (server, events) = (server().await, Arc::new(LostEvents::default()));
    let seen = Arc::clone(&events);
    let relay = losing::relay(server.addr(), move |data| {
        let key = seen.node.lock().unwrap();
        let tells = !key.is_empty() && contains(data, key.as_str());
        let is_lost = tells && seen.losing.load(Ordering::Acquire);
        seen.lost.fetch_add(usize::from(is_lost), Ordering::AcqRel);
        seen.watched.send_modify(|count| *count += usize::from(tells && !is_lost));
        is_lost
    })
    .await;
    let mut through = config(&server, "ttl=8s");
    through.hosts = vec![relay.addr()];
    let (holder, recorder) = (at(&config(&server, "ttl=60s")).await.unwrap(), Recorder::new());
    let waiting = recorder.scope(at(&through)).await.unwrap();
    let node = async || until_keys(&server, "latchwork/mutex/a/", 1).await.remove(0);
    events.are_made_up_for([holder, waiting], &recorder, node).await;
}
