//! What the log and the errors say when the server cannot be reached. One test: it listens to its thread's log.

use latchwork_conformance::outages::{Says, are_told};
use latchwork_conformance::servers::Kind;

#[tokio::test]
async fn an_outage_is_told_with_host_cause_and_length() {
    let says = Says {
        // The client crate connects again by itself, and does not say what came of that.
        closed: &["not connected", "the connection was closed"],
        silent: &["the server was silent"],
        refused: &["not connected"],
    };
    are_told(Kind::Zookeeper, latchwork_zookeeper::connector(), says).await;
}
