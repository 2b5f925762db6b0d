//! What the log and the errors say when the server cannot be reached. One test: it listens to its thread's log.

use latchwork_conformance::outages::{Says, are_told};
use latchwork_conformance::servers::Kind;

#[tokio::test]
async fn an_outage_is_told_with_host_cause_and_length() {
    let says = Says {
        closed: &["the connection was closed"],
        silent: &["the server was silent"],
        refused: &["the connection was refused"],
    };
    are_told(Kind::Etcd, latchwork_etcd::connector(), says).await;
}
