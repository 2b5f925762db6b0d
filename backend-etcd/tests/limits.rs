use crate::common::{etcdctl, keys, queue, served};
use latchwork_conformance::limits::{
    StoredLimit, a_bad_limit_ends_a_wait_and_no_hold, bad_limits_are_reported_and_stay,
};
use latchwork_conformance::servers::Server;
use latchwork_core::Kind;

const KEY: &str = "latchwork/limit/semaphore/a";

struct Key<'a>(&'a Server);

impl StoredLimit for Key<'_> {
    async fn write(&mut self, text: &str) {
        etcdctl(self.0, &["put", "--", KEY, text]).await;
    }

    async fn read(&mut self) -> String {
        let printed = etcdctl(self.0, &["get", "--print-value-only", KEY]).await;
        printed.strip_suffix('\n').expect("a line").to_owned()
    }
}

#[tokio::test]
async fn bad_stored_limit_is_a_conflict_until_its_replacement() {
    let (server, client) = served("").await;
    bad_limits_are_reported_and_stay(&**client.backend(), &queue(Kind::Semaphore), &mut Key(&server)).await;
    assert_eq!(keys(&server, "latchwork/semaphore/").await, [""; 0]);
}

#[tokio::test]
async fn a_waiter_is_refused_by_it_and_a_holder_goes_on() {
    let (server, client) = served("").await;
    a_bad_limit_ends_a_wait_and_no_hold(&**client.backend(), &queue(Kind::Semaphore), &mut Key(&server))
        .await;
}
