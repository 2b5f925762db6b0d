//! The log and the errors while the server cannot be reached. There is one test, since it listens
//! to its thread's log.

use latchwork_conformance::outages::{OutageWords, are_reported};
use latchwork_conformance::servers::Kind;

#[tokio::test]
async fn an_outage_is_reported_with_host_cause_and_length() {
    let says = OutageWords {
        // The client crate connects again by itself, and does not report its attempts.
        closed: &["not connected", "the connection was closed"],
        silent: &["the server was silent"],
        refused: &["not connected"],
    };
    are_reported(Kind::Zookeeper, latchwork_zookeeper::connector(), says).await;
}
