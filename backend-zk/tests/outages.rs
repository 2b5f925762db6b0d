use latchwork_conformance::outages::{OutageWords, are_reported};
use latchwork_conformance::servers::Kind;

#[tokio::test]
async fn an_outage_is_reported_with_host_cause_and_length() {
    if !latchwork_conformance::own_process!() {
        return;
    }
    let says = OutageWords {
        // The client crate reconnects itself, and does not report its attempts.
        closed: &["not connected", "the connection was closed"],
        silent: &["the server was silent"],
        refused: &["not connected"],
    };
    are_reported(Kind::Zookeeper, latchwork_zookeeper::connector(), says).await;
}
