use latchwork_conformance::errors::fails;
use latchwork_conformance::mistakes::says;
use latchwork_core::{Claim, ErrorKind, Kind, Operator};

use crate::common::{config, soon, until};
use crate::surroundings::{fill, make_space, with_quota};

#[tokio::test]
async fn operator_connects_to_a_full_server_and_lists() {
    let (server, client) = with_quota("2000000", "ttl=1m").await;
    let held = client.mutex("m").unwrap().acquire().await.unwrap();
    let permit = client.semaphore("s", 2).unwrap().acquire(2).await.unwrap();
    fill(&server).await;
    let (connectors, config) = ([latchwork_etcd::connector()], config(&server, ""));
    let operator = soon(Operator::connect(&connectors, &config)).await.unwrap();
    let reads = operator.coordinator();
    let (mutex, semaphore) = (reads.mutex("m").unwrap(), reads.semaphore("s", 2).unwrap());
    let holders = mutex.queue().first(9).await.unwrap();
    assert_eq!(holders.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [held.token().sequence()]);
    let holders = semaphore.queue().first(9).await.unwrap();
    assert_eq!(holders.iter().map(|entry| entry.claim).collect::<Vec<_>>(), [Claim::Permits(2)]);
    for kind in [Kind::Mutex, Kind::Semaphore] {
        assert_eq!(reads.list(kind, "").unwrap().all().await.unwrap().len(), 1, "{kind:?}");
    }
    assert_eq!(operator.marker().await.unwrap(), None);
    assert_eq!(reads.clients().all().await.unwrap().len(), 1, "the operator is not registered");
    let error = fails(soon(operator.retire("etcd://other")).await, ErrorKind::Unavailable, "it is full");
    says(&error, &["not registered", "space exceeded"]);
    make_space(&server).await;
    let release =
        async || mutex.force_release(held.token().sequence()).await.is_ok_and(|was_there| was_there);
    until(release).await;
    permit.release().await.unwrap();
    soon(reads.close()).await.unwrap();
    client.close().await.unwrap();
}
