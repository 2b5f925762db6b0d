//! The answers of a closed client.

use super::driver::Stores;
use crate::error::ErrorKind;

/// Its lease on the old side ended earlier, and the error is still `Closed`.
#[tokio::test(start_paused = true)]
async fn close_after_a_lost_membership_ends_value_waits() {
    let stores = Stores::new();
    let part = stores.participant().await;
    let value = part.coordinator.shared_value("v").unwrap();
    let mut watch = value.watch().await.unwrap();
    assert_eq!(watch.changed().await.unwrap(), None);
    part.old.cut();
    let ttl = stores.sides.from.ttl;
    tokio::time::sleep(4 * ttl).await;
    // The server does not learn of the close.
    let _ = part.coordinator.close().await;
    let ended = tokio::time::timeout(ttl, watch.changed()).await.expect("not in silence");
    assert_eq!(ended.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(value.read().await.expect_err("closed").kind(), ErrorKind::Closed);
}
