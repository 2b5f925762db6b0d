use crate::common::acls::{lists, made};
use crate::common::{at, config, coordinator, loses_its_session, owner, server, soon, stranger, with_login};
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::vault::Vault;
use latchwork_core::Kind;

#[tokio::test]
async fn every_node_that_a_client_with_a_login_makes_is_its_logins_alone() {
    let addr = server().await.addr();
    let config = with_login(&config(addr));
    let client = at(&config).await.unwrap();
    let held = made(&client).await;
    let owner = owner(addr).await;
    let top = format!("/{}", config.namespace);
    let lists = lists(&owner, &top).await;
    // Only quorum locks create this directory.
    let kinds = Kind::QUEUES.into_iter().chain(Kind::CELLS);
    let kinds = kinds.filter(|kind| *kind != Kind::Quorum).map(Kind::as_str);
    for place in kinds.chain(["limits", "released"]).map(|name| format!("{top}/{name}")) {
        let below = format!("{place}/");
        // The announcement, and the barrier that all have passed, are deleted.
        let passes = place.ends_with("/released") || place.ends_with("/passage");
        let is_there = |path: &str| passes && path == place || path.starts_with(&below);
        assert!(lists.iter().any(|(path, _)| is_there(path)), "{place}: {lists:?}");
    }
    let announced = owner.check_stat(&format!("{top}/released")).await.unwrap().unwrap();
    assert!(announced.cversion > 0, "no release was announced in this directory");
    for (path, acls) in lists {
        assert!(!acls.is_empty(), "{path}");
        for acl in acls {
            assert!(acl.scheme() == "digest" && acl.id().starts_with("app:"), "{path}: {acl:?}");
        }
    }
    drop(held);
    client.close().await.unwrap();
}

#[tokio::test]
async fn client_without_a_login_creates_nodes_open_to_all() {
    let addr = server().await.addr();
    let config = config(addr);
    let client = coordinator(&config).await;
    let held = made(&client).await;
    let lists = lists(&stranger(addr).await, &format!("/{}", config.namespace)).await;
    assert!(lists.len() > 10, "{lists:?}");
    for (path, acls) in lists {
        assert!(acls.iter().all(|acl| acl.scheme() == "world"), "{path}: {acls:?}");
    }
    drop(held);
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_provider_is_asked_for_each_session() {
    let server = server().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let vault = Vault::new("secret");
    let config = config(&proxy.addr().to_string());
    let client = at(&config.clone().with_credentials(vault.clone())).await.unwrap();
    let first = vault.asked();
    assert!(first >= 1);
    loses_its_session(&client, &proxy).await;
    let again = soon(client.mutex("a").unwrap().acquire()).await.unwrap();
    assert!(again.is_held() && vault.asked() > first);
    again.release().await.unwrap();
    for (path, acls) in lists(&owner(server.addr()).await, &format!("/{}", config.namespace)).await {
        assert!(acls.iter().all(|acl| acl.scheme() == "digest"), "{path}: {acls:?}");
    }
    client.close().await.unwrap();
}
