use std::time::Duration;

use super::through;
use crate::common::request::{LIST, READ};
use crate::common::{ALL, address, backend, holds, join, server, soon, suspended};
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::Close;
use latchwork_core::{ErrorKind, Kind};

#[tokio::test]
async fn a_read_whose_reply_was_lost_is_unavailable() {
    let (proxy, config) = through(server().await.addr()).await;
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
    let (proxy, mut config) = through(server().await.addr()).await;
    config.request_timeout = Duration::from_secs(2);
    let backend = backend(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    proxy.refuse();
    proxy.cut();
    suspended(&backend.lease()).await;
    let request = join(&queue, Exclusive);
    assert_eq!(backend.join(&request).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let error = backend.close(Close::Orderly).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "the server could not be reached");
    assert_eq!(backend.join(&request).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(backend.close(Close::Orderly).await.unwrap_err().kind(), error.kind());
}
