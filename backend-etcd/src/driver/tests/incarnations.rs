use std::time::Duration;

use latchwork_core::{ErrorKind, LostReason};
use tokio::time::timeout;

use super::times::{HOST, OTHER, ask, connect};
use super::{Mode, Scripted, TTL, kept};

/// The older copy has the lease, so the server renews it.
#[tokio::test(start_paused = true)]
async fn lease_ends_as_forgotten_at_the_first_answer_of_an_older_copy() {
    let scripted = Scripted::start(HOST, Mode::Answers);
    scripted.shows(1, 40);
    let driver = connect(&[HOST]).await;
    let session = kept(&driver).await;
    scripted.shows(1, 41);
    ask(&driver).await.expect("answered");
    tokio::time::sleep(2 * TTL).await;
    assert_eq!(session.lease.lost(), None, "the server keeps its data");
    scripted.shows(1, 30);
    ask(&driver).await.expect("answered");
    let lost = timeout(Duration::from_millis(1), session.lease.until_lost()).await;
    assert_eq!(lost.expect("at once"), LostReason::Forgotten);
    let session = kept(&driver).await;
    ask(&driver).await.expect("answered");
    tokio::time::sleep(2 * TTL).await;
    assert_eq!(session.lease.lost(), None);
}

#[tokio::test(start_paused = true)]
async fn hosts_of_two_clusters_are_refused() {
    let (one, other) = (Scripted::start(HOST, Mode::Answers), Scripted::start(OTHER, Mode::Answers));
    let driver = connect(&[HOST, OTHER]).await;
    for _ in 0..10 {
        ask(&driver).await.expect("the control: two hosts of one cluster");
    }
    one.shows(1, 1);
    other.shows(2, 1);
    let mut refused = None;
    for _ in 0..10 {
        refused = ask(&driver).await.err().or(refused);
    }
    let error = refused.expect("an error");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}
