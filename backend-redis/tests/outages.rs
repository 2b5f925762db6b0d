use latchwork_conformance::outages::{OutageWords, are_reported};
use latchwork_conformance::servers::Kind;

#[tokio::test]
async fn an_outage_is_logged_with_host_cause_and_length() {
    if !latchwork_conformance::own_process!() {
        return;
    }
    let says = OutageWords {
        closed: &["the connection was closed"],
        silent: &["the server was silent"],
        refused: &["the connection was refused"],
    };
    are_reported(Kind::Redis, latchwork_redis::connector(), says).await;
}
