//! Writes without an answer (CELL-UNKNOWN).

use std::time::{Duration, Instant};

use super::{MULTI, READ, cell, delete, put_value, set, value, written};
use crate::common::{backend, config, holds, one_proxied, one_proxied_with, server, soon, started};
use latchwork_conformance::proxy::Direction;
use latchwork_conformance::servers::Options;
use latchwork_core::contracts::{
    CellLife, CellWrite, CellWritten, Expected, LeaseState, TimeToIdle, Version,
};
use latchwork_core::{Config, ErrorKind};

#[tokio::test]
async fn a_write_whose_reply_was_lost_is_unknown_and_was_made_once() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let at = value(&config, "a");
    let before = put_value(&one, &at, b"zero").await;
    for (number, write) in
        [set(Expected::Version(before), b"1"), set(Expected::Any, b"2"), delete(Expected::Any)]
            .into_iter()
            .chain([set(Expected::Absent, b"4")])
            .enumerate()
    {
        let was = other.read_cell(&at).await.unwrap().map(|cell| cell.version);
        let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
        let error = one.write_cell(&at, &write).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{number} {error}");
        soon(cut.fired()).await.unwrap();
        let now = other.read_cell(&at).await.unwrap();
        assert_eq!(now.as_ref().map(|cell| &cell.value), write.value.as_ref(), "{number}");
        // Nothing makes it a second time.
        soon(one.read_cell(&at)).await.unwrap();
        assert_eq!(other.read_cell(&at).await.unwrap(), now, "{number}");
        // What it expected is used up.
        if let (Some(was), Some(_)) = (was, &now) {
            let again = one.write_cell(&at, &set(Expected::Version(was), b"x")).await.unwrap();
            assert_eq!(again, CellWritten::Refused(now), "{number}");
        }
    }
}

#[tokio::test]
async fn a_late_write_is_made_if_its_condition_holds_then_and_does_nothing_otherwise() {
    let config = config(server().await.addr());
    for (overtaken, deleted) in [(false, false), (true, false), (true, true)] {
        let (proxy, [one, other]) = one_proxied(&config).await;
        let at = value(&config, "a");
        let before = put_value(&one, &at, b"old").await;
        let mut parked = proxy.park_request(|chunk| holds(chunk, MULTI));
        // Its session must not come back, or the server would refuse the request for that.
        proxy.refuse();
        let answer = one.write_cell(&at, &set(Expected::Version(before), b"late")).await;
        soon(parked.caught()).await.unwrap();
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(cell(&other, &at).await.version.number(), before.number());
        if deleted {
            other.write_cell(&at, &delete(Expected::Any)).await.unwrap();
        }
        if overtaken {
            // Made anew it has the same data version as before.
            put_value(&other, &at, b"new").await;
        }
        soon(parked.deliver()).await.unwrap();
        let expected: &[u8] = if overtaken { b"new" } else { b"late" };
        assert_eq!(&*cell(&other, &at).await.value, expected, "{overtaken} {deleted}");
        other.write_cell(&at, &delete(Expected::Any)).await.unwrap();
    }
}

#[tokio::test]
async fn a_write_that_was_not_sent_is_unavailable_and_is_not_made() {
    let config = config(server().await.addr());
    // The session outlasts all requests that are refused.
    let short = |one: &mut Config| {
        (one.ttl, one.request_timeout) = (Duration::from_secs(30), Duration::from_secs(2));
    };
    let (proxy, [one, other]) = one_proxied_with(&config, short).await;
    let at = value(&config, "a");
    proxy.cut();
    let lease = one.lease();
    soon(async { while lease.changed(LeaseState::Live).await != LeaseState::Suspended {} }).await;
    for write in [set(Expected::Any, b"x"), delete(Expected::Absent)] {
        let error = one.write_cell(&at, &write).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert_eq!(one.read_cell(&at).await.unwrap_err().kind(), ErrorKind::Unavailable);
    proxy.resume();
    soon(async { while one.read_cell(&at).await.is_err() {} }).await;
    assert_eq!(other.read_cell(&at).await.unwrap(), None);
}

#[tokio::test]
async fn a_silent_server_leaves_a_write_unknown_within_the_request_timeout() {
    let config = config(server().await.addr());
    let short = |one: &mut Config| one.request_timeout = Duration::from_secs(4);
    let (proxy, [one, other]) = one_proxied_with(&config, short).await;
    let at = value(&config, "a");
    put_value(&one, &at, b"old").await;
    proxy.hold(Direction::ToClient);
    let started = Instant::now();
    let error = one.write_cell(&at, &set(Expected::Any, b"new")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    let error = one.read_cell(&at).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // No assertion of speed: later the client gives up the connection, and that would end the requests too.
    let took = started.elapsed();
    assert!(took < config.ttl * 2 / 5, "after {took:?} the end of the connection may have ended them");
    proxy.resume();
    assert_eq!(&*cell(&other, &at).await.value, b"new");
}

/// Its transaction was refused, so nothing was made.
#[tokio::test]
async fn a_refused_write_whose_read_has_no_answer_is_unavailable() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let at = value(&config, "a");
    let old = put_value(&one, &at, b"old").await;
    let now = put_value(&other, &at, b"new").await;
    for write in [set(Expected::Version(old), b"x"), set(Expected::Absent, b"x"), delete(Expected::Absent)] {
        let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, READ));
        let error = soon(one.write_cell(&at, &write)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        soon(cut.fired()).await.unwrap();
    }
    assert_eq!(cell(&other, &at).await.version.number(), now.number());
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, READ));
    assert_eq!(soon(one.read_cell(&at)).await.unwrap_err().kind(), ErrorKind::Unavailable);
    soon(cut.fired()).await.unwrap();
}

/// Dropped at any point, it was made or not, and the next one goes on from there.
#[tokio::test]
async fn a_dropped_write_was_made_or_not() {
    let config = config(server().await.addr());
    let one = backend(&config).await;
    let at = value(&config, "a");
    let mut known: Option<Version> = None;
    for turn in 0..20_u8 {
        let dropped = Duration::from_micros(u64::from(turn) * 100);
        let expected = known.map_or(Expected::Absent, Expected::Version);
        let _ = tokio::time::timeout(dropped, one.write_cell(&at, &set(expected, &[turn]))).await;
        let found = one.read_cell(&at).await.unwrap();
        if let Some(found) = &found {
            assert!(known.map(Version::number) == Some(found.version.number()) || *found.value == [turn]);
        }
        known = found.map(|found| found.version);
    }
    let expected = known.map_or(Expected::Absent, Expected::Version);
    written(one.write_cell(&at, &set(expected, b"end")).await);
}

/// The answer to the write comes when the last use does not count for it any more, and what makes a new use has none.
#[tokio::test]
async fn a_write_of_an_idle_cell_that_was_made_and_not_made_to_last_is_unknown() {
    let idle = TimeToIdle::new(Duration::from_secs(8)).unwrap();
    // The server removes what is over once in a minute, so the cell is there to the end.
    let server = started(Options::new().own().args(["extendedTypesEnabled=true"])).await;
    let mut config = config(server.addr());
    config.ttl = Duration::from_secs(30);
    let (proxy, [one, other]) =
        one_proxied_with(&config, |config| config.request_timeout = Duration::from_secs(6)).await;
    let at = value(&config, "a");
    let put = |expected, value| CellWrite { life: CellLife::Idle(idle), ..set(expected, value) };
    let first = written(one.write_cell(&at, &put(Expected::Absent, b"first")).await);
    // A use counts for a quarter of the time.
    proxy.delay(Direction::ToClient, Duration::from_millis(2300));
    let mut sent = proxy.request(|chunk| holds(chunk, MULTI));
    let second = put(Expected::Version(first), b"second");
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
