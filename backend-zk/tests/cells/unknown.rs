use std::time::Duration;

use super::{cell, deletion, lasting, put, put_value, value, written};
use crate::common::request::{MULTI, READ};
use crate::common::{backend, config, holds, one_proxied_with, proxied, server, soon, started};
use latchwork_conformance::errors::fails;
use latchwork_conformance::proxy::Direction;
use latchwork_conformance::servers::Options;
use latchwork_core::{CellLife, ErrorKind, Expected, TimeToIdle, Version};

#[tokio::test]
async fn a_refused_write_whose_read_has_no_answer_is_unavailable() {
    let (config, proxy, [one, other]) = proxied().await;
    let at = value(&config, "a");
    let old = put_value(&one, &at, b"old").await;
    let now = put_value(&other, &at, b"new").await;
    for write in [put(Expected::Version(old), b"x"), put(Expected::Absent, b"x"), deletion(Expected::Absent)]
    {
        let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, READ));
        fails(soon(one.write_cell(&at, &write)).await, ErrorKind::Unavailable, "the reply is lost");
        soon(cut.fired()).await.unwrap();
    }
    assert_eq!(cell(&other, &at).await.version.number(), now.number());
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, READ));
    assert_eq!(soon(one.read_cell(&at)).await.unwrap_err().kind(), ErrorKind::Unavailable);
    soon(cut.fired()).await.unwrap();
}

#[tokio::test]
async fn a_dropped_write_was_made_or_not() {
    let config = config(server().await.addr());
    let one = backend(&config).await;
    let at = value(&config, "a");
    let mut known: Option<Version> = None;
    for turn in 0..20_u8 {
        let dropped = Duration::from_micros(u64::from(turn) * 100);
        let expected = known.map_or(Expected::Absent, Expected::Version);
        let _ = tokio::time::timeout(dropped, one.write_cell(&at, &put(expected, [turn]))).await;
        let found = one.read_cell(&at).await.unwrap();
        if let Some(found) = &found {
            assert!(known.map(Version::number) == Some(found.version.number()) || *found.value == [turn]);
        }
        known = found.map(|found| found.version);
    }
    let expected = known.map_or(Expected::Absent, Expected::Version);
    written(one.write_cell(&at, &put(expected, b"end")).await);
}

/// The last use does not cover the late answer, and the request for a new use has no answer.
#[tokio::test]
async fn a_write_of_an_idle_cell_that_was_made_and_not_made_to_last_is_unknown() {
    let idle = CellLife::Idle(TimeToIdle::new(Duration::from_secs(8)).unwrap());
    // Idle cells are removed once a minute, after the test.
    let server = started(Options::new().own().args(["extendedTypesEnabled=true"])).await;
    let mut config = config(server.addr());
    config.ttl = Duration::from_secs(30);
    let (proxy, [one, other]) =
        one_proxied_with(&config, |config| config.request_timeout = Duration::from_secs(6)).await;
    let at = value(&config, "a");
    let first = written(one.write_cell(&at, &lasting(Expected::Absent, b"first", idle)).await);
    // A use counts for a quarter of the time.
    proxy.delay(Direction::ToClient, Duration::from_millis(2300));
    let mut sent = proxy.request(|chunk| holds(chunk, MULTI));
    let second = lasting(Expected::Version(first), b"second", idle);
    let (answer, ()) = soon(async {
        tokio::join!(one.write_cell(&at, &second), async {
            sent.fired().await.unwrap();
            proxy.hold(Direction::ToServer);
        })
    })
    .await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(&*cell(&other, &at).await.value, b"second");
    proxy.resume();
}
