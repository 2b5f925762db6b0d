use std::sync::Arc;

use crate::common::{address, admitted, join, place, plant, proxied, server, soon, stranger};
use latchwork_conformance::errors::{fails, refuses};
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::{Backend, KeysWith};
use latchwork_core::{Config, ErrorKind, Kind, QueuePrefix};
use zookeeper_client::{Acl, AuthId, CreateMode, Permission};

async fn pages(backend: &Arc<dyn Backend>, config: &Config, prefix: &str, most: usize) -> Vec<Vec<String>> {
    let of = QueuePrefix::new(&config.namespace, Kind::Mutex, prefix).unwrap();
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = backend.list_keys(KeysWith::Nodes, &of, after.as_deref(), most).await.unwrap();
        pages.push(page.items.iter().map(|key| key.address.name().to_owned()).collect());
        match page.next {
            Some(next) => after = Some(next),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn directories_without_a_node_are_passed_over_in_bounded_pages() {
    let (config, backend, stranger) = place().await;
    assert_eq!(pages(&backend, &config, "", 10).await, [Vec::<String>::new()]);
    let directory = format!("/{}/mutex", config.namespace);
    for number in 0..400 {
        plant(&stranger, &format!("{directory}/{number:03}"), CreateMode::Persistent).await;
    }
    for odd in ["a%2f", "%FF", "a b"] {
        let path = plant(&stranger, &format!("{directory}/{odd}"), CreateMode::Persistent).await;
        plant(&stranger, &format!("{path}/x"), CreateMode::Persistent).await;
    }
    let keys = ["100", "250", "399"];
    for key in keys {
        admitted(backend.join(&join(&address(&config, Kind::Mutex, key), Exclusive)).await);
    }
    for most in [1, 2, 3, 400] {
        let found = pages(&backend, &config, "", most).await;
        assert!(found.iter().all(|page| page.len() <= most), "{most}: {found:?}");
        assert_eq!(found.concat(), keys, "{most}");
    }
    assert_eq!(pages(&backend, &config, "2", 400).await, [["250"]]);
    assert!(pages(&backend, &config, "", 1).await.len() > keys.len());
    let of = QueuePrefix::new(&config.namespace, Kind::Mutex, "2").unwrap();
    for after in ["100", "%zz", "", "2%"] {
        refuses(backend.list_keys(KeysWith::Nodes, &of, Some(after), 1).await, "after");
    }
    let nowhere = QueuePrefix::new("elsewhere", Kind::Mutex, "").unwrap();
    assert!(backend.list_keys(KeysWith::Nodes, &nowhere, None, 1).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_listing_that_cannot_be_made_is_unavailable_and_a_forbidden_one_is_named() {
    let (config, proxy, [one, _]) = proxied().await;
    let of = QueuePrefix::new(&config.namespace, Kind::Mutex, "").unwrap();
    let mut cut = proxy.drop_next_reply();
    fails(one.list_keys(KeysWith::Nodes, &of, None, 1).await, ErrorKind::Unavailable, "the reply is lost");
    soon(cut.fired()).await.unwrap();
    let stranger = stranger(server().await.addr()).await;
    let rights = [Acl::new(Permission::ADMIN, AuthId::anyone())];
    stranger.set_acl(&format!("/{}/mutex", config.namespace), &rights, None).await.unwrap();
    let answer = soon(one.list_keys(KeysWith::Nodes, &of, None, 1)).await;
    fails(answer, ErrorKind::Forbidden, "the directory is closed");
}
