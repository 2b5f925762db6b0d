use super::{cell, deletion, put, put_value, seen, value, written};
use crate::common::request::{MULTI, READ};
use crate::common::{holds, place, plant, proxied, soon};
use latchwork_conformance::errors::fails;
use latchwork_core::backend::CellWritten;
use latchwork_core::{ErrorKind, Expected, Version};
use zookeeper_client::CreateMode;

#[tokio::test]
async fn a_write_of_a_contended_cell_reads_in_the_same_trip() {
    let (config, proxy, [one, other]) = proxied().await;
    let at = value(&config, "a");
    let mut known = put_value(&one, &at, b"0").await;
    for (round, reads_behind) in [false, true, true].into_iter().enumerate() {
        let newer = put_value(&other, &at, b"other").await;
        let mut answered = proxy.hold_reply_to(|chunk| holds(chunk, MULTI));
        let mut read = proxy.request(|chunk| holds(chunk, READ));
        let held = async {
            answered.fired().await.unwrap();
            if reads_behind {
                soon(read.fired()).await.unwrap();
            }
            assert_eq!(read.has_fired(), reads_behind, "{round}");
            proxy.resume();
        };
        let write = put(Expected::Version(known), b"mine");
        let (refused, ()) = tokio::join!(one.write_cell(&at, &write), held);
        let CellWritten::Refused(Some(found)) = refused.unwrap() else {
            panic!("{round}: the write of the other client won")
        };
        assert_eq!(seen(&found), (newer.number(), &b"other"[..]), "{round}");
        // The value is enough for the next write.
        let mine = one.write_cell(&at, &put(Expected::Version(found.version), b"mine")).await;
        known = written(mine);
    }
}

#[tokio::test]
async fn a_write_under_a_version_that_the_server_does_not_compare_is_refused() {
    let (config, backend, stranger) = place().await;
    let at = value(&config, "a");
    let made = put_value(&backend, &at, b"one").await;
    for condition in [made.condition() | u64::from(u32::MAX), made.condition() | u64::from(u32::MAX) << 32] {
        let version = Version::new(made.number(), condition);
        for write in [put(Expected::Version(version), b"x"), deletion(Expected::Version(version))] {
            fails(
                backend.write_cell(&at, &write).await,
                ErrorKind::Misconfigured,
                "the server cannot compare this version",
            );
            assert_eq!(&*cell(&backend, &at).await.value, b"one");
        }
    }
    plant(&stranger, &format!("/{}/value/b", config.namespace), CreateMode::Persistent).await;
    assert_eq!(&*cell(&backend, &value(&config, "b")).await.value, b"stranger");
}
