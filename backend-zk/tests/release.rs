use crate::common::request::DELETE;
use crate::common::{config, coordinator, holds, server, soon, stranger};
use latchwork_conformance::proxy::Proxy;
use latchwork_core::{Coordinator, ErrorKind, Hold, Kind};

async fn hold(of: &Coordinator, kind: Kind, key: &str) -> Hold {
    match kind {
        Kind::RwLock => soon(of.rwlock(key).unwrap().write()).await.unwrap().into(),
        Kind::Semaphore => soon(of.semaphore(key, 1).unwrap().acquire(1)).await.unwrap().into(),
        _ => soon(of.mutex(key).unwrap().acquire()).await.unwrap().into(),
    }
}

#[tokio::test]
async fn a_release_whose_reply_was_lost_is_unknown_and_no_loss() {
    let addr = server().await.addr();
    let (mut through, stranger) = (config(addr), stranger(addr).await);
    let proxy = Proxy::start(addr).await.unwrap();
    through.hosts = vec![proxy.addr().to_string()];
    let client = coordinator(&through).await;
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore] {
        let held = hold(&client, kind, "a").await;
        let mut lost = proxy.drop_reply_to(|chunk| holds(chunk, DELETE));
        let error = soon(held.release()).await.unwrap_err();
        lost.fired().await.unwrap();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        let directory = format!("/{}/{}/a", through.namespace, kind.as_str());
        assert_eq!(stranger.list_children(&directory).await.unwrap(), [""; 0]);
        let held = hold(&client, kind, "a").await;
        proxy.sever();
        soon(held.release()).await.unwrap();
    }
}
