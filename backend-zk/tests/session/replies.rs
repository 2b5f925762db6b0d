//! Requests whose replies are lost, or never come.

use std::time::Duration;

use super::{ALL, LIST, READ, through};
use crate::common::{address, backend, holds, join, server, soon, try_backend};
use latchwork_conformance::proxy::Proxy;
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::Close;
use latchwork_core::{ErrorKind, Kind, LeaseState};

#[tokio::test]
async fn a_read_whose_reply_was_lost_is_unavailable() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let config = through(&proxy).await;
    let backend = backend(&config).await;
    let queue = address(&config, Kind::Semaphore, "a");
    for (wanted, lists) in [(LIST, true), (READ, false)] {
        let mut cut = proxy.drop_reply_to(move |chunk| holds(chunk, wanted));
        let error = match lists {
            true => backend.list(&queue, ALL).await.unwrap_err(),
            false => backend.limit(&queue).await.unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        soon(cut.fired()).await.unwrap();
    }
}

#[tokio::test]
async fn a_joins_request_is_unavailable_while_it_is_cut_off_and_closed_after_the_end() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let mut config = through(&proxy).await;
    config.request_timeout = Duration::from_secs(2);
    let backend = try_backend(&config).await.unwrap();
    let queue = address(&config, Kind::Mutex, "a");
    proxy.refuse();
    proxy.cut();
    let lease = backend.lease();
    soon(async { while lease.changed(LeaseState::Live).await != LeaseState::Suspended {} }).await;
    let request = join(&queue, Exclusive);
    assert_eq!(backend.join(&request).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let error = backend.close(Close::Orderly).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "the server could not be reached");
    assert_eq!(backend.join(&request).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(backend.close(Close::Orderly).await.unwrap_err().kind(), error.kind());
}
