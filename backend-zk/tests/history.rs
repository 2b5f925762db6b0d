//! Each test has a separate server, because the distance of two nodes in its transactions counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::request::LIST;
use crate::common::{
    address, admitted, alone, backend, config, holds, join, one_proxied, soon, still_waits, stranger, waiting,
};
use futures_util::future::try_join_all;
use latchwork_conformance::actions::take_a_turn;
use latchwork_conformance::proxy::Proxy;
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::{Backend, Join, Joined, Patience};
use latchwork_core::{Key, Kind};
use zookeeper_client::{Acls, Client, CreateMode};

/// The time of this expectation.
const SOON_AFTER: Duration = Duration::from_millis(100);

/// With a low counter, the next number proves nothing if others make transactions too.
async fn count_on(stranger: &Client, path: &str, joins: usize) {
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let foreign = format!("{path}/foreign-");
    let made = try_join_all((0..joins).map(|_| stranger.create(&foreign, b"", &options))).await.unwrap();
    let gone = made.iter().map(|(_, counter)| format!("{foreign}{counter}")).collect::<Vec<_>>();
    try_join_all(gone.iter().map(|path| stranger.delete(path, None))).await.unwrap();
}

/// Returns whether the queue was listed.
async fn turn_lists(proxy: &Proxy, client: &Arc<dyn Backend>, join: &Join) -> bool {
    let listed = proxy.request(|chunk| holds(chunk, LIST));
    admitted(client.join(join).await).leave().await.unwrap();
    listed.has_fired()
}

/// Returns the number of turns, and whether the queue was listed for the last.
async fn soon_after_another(turn: impl AsyncFn() -> bool) -> (usize, bool) {
    let mut turns = 0;
    soon(async {
        loop {
            let begun = Instant::now();
            turn().await;
            let listed = turn().await;
            turns += 2;
            if begun.elapsed() < SOON_AFTER {
                return (turns, listed);
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_client_that_comes_back_before_any_other_has_joined_creates_its_node_and_asks_no_more() {
    alone(async |server| {
        let (config, stranger) = (config(server.addr()), stranger(server.addr()).await);
        let (proxy, [one, other]) = one_proxied(&config).await;
        for (kind, tries) in [(Kind::Mutex, false), (Kind::Mutex, true), (Kind::RwLock, false)] {
            let key = format!("comes-back-{tries}");
            let queue = address(&config, kind, &key);
            let patience = if tries { Patience::Try } else { Patience::Wait };
            let request = || Join { patience, ..join(&queue, Exclusive) };
            let turn = async || turn_lists(&proxy, &one, &request()).await;
            assert!(turn().await);
            count_on(&stranger, &format!("/{}/{}/{key}", config.namespace, kind.as_str()), 100).await;
            for turns in 0..9 {
                assert!(turn().await, "turn {turns}");
            }
            for _ in 0..3 {
                assert!(!soon_after_another(turn).await.1, "the number of the node is enough");
            }
            admitted(other.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
            for _ in 0..9 {
                assert!(turn().await);
            }
            assert!(!soon_after_another(turn).await.1);
            let holder = admitted(other.join(&join(&queue, Exclusive)).await);
            match one.join(&request()).await.unwrap() {
                Joined::Refused => assert!(tries),
                joined => {
                    let node = waiting(Ok(joined));
                    assert!(still_waits(&one, &queue, node.admitted()).await);
                    holder.leave().await.unwrap();
                    take_a_turn(&node).await;
                }
            }
        }
    })
    .await;
}

/// The new counter may give the number after this client's last one.
#[tokio::test]
async fn next_number_in_a_recreated_directory_admits_no_waiter() {
    alone(async |server| {
        let (config, stranger) = (config(server.addr()), stranger(server.addr()).await);
        let (proxy, [one, other]) = one_proxied(&config).await;
        let queue = address(&config, Kind::Mutex, "a");
        let path = format!("/{}/mutex/a", config.namespace);
        let turn = async || turn_lists(&proxy, &one, &join(&queue, Exclusive)).await;
        turn().await;
        count_on(&stranger, &path, 100).await;
        for _ in 0..9 {
            turn().await;
        }
        let (turns, listed) = soon_after_another(turn).await;
        assert!(!listed, "the client expects to be next");
        let joined = 1 + 100 + 9 + turns;
        stranger.delete(&path, None).await.unwrap();
        admitted(other.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
        count_on(&stranger, &path, joined - 2).await;
        let holder = admitted(other.join(&join(&queue, Exclusive)).await);
        let node = waiting(one.join(&join(&queue, Exclusive)).await);
        let names = stranger.list_children(&path).await.unwrap();
        assert!(
            names.iter().any(|name| name.ends_with(&format!("-{joined:010}"))),
            "as if the node were next: {names:?}"
        );
        assert!(still_waits(&one, &queue, node.admitted()).await);
        holder.leave().await.unwrap();
        soon(node.admitted()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn number_after_node_of_another_kind_admits_no_waiter() {
    alone(async |server| {
        let config = config(server.addr());
        let (proxy, [one, other]) = one_proxied(&config).await;
        let at = |kind| address(&config, kind, Key::exact(format!("/{}/shared", config.namespace)));
        for (kind, turns_of) in [(Kind::RwLock, Kind::Mutex), (Kind::Mutex, Kind::RwLock)] {
            let holder = admitted(other.join(&join(&at(kind), Exclusive)).await);
            let turn = async || turn_lists(&proxy, &one, &join(&at(turns_of), Exclusive)).await;
            for _ in 0..14 {
                turn().await;
            }
            assert!(!soon_after_another(turn).await.1, "the client expects to be next");
            let node = waiting(one.join(&join(&at(kind), Exclusive)).await);
            assert!(still_waits(&one, &at(kind), node.admitted()).await);
            holder.leave().await.unwrap();
            take_a_turn(&node).await;
        }
    })
    .await;
}

#[tokio::test]
async fn number_after_a_node_without_admission_admits_no_waiter() {
    alone(async |server| {
        let config = config(server.addr());
        let (one, other) = (backend(&config).await, backend(&config).await);
        let queue = address(&config, Kind::Mutex, "a");
        for _ in 0..12 {
            admitted(one.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
        }
        let holder = admitted(other.join(&join(&queue, Exclusive)).await);
        for _ in 0..3 {
            let node = waiting(one.join(&join(&queue, Exclusive)).await);
            assert!(still_waits(&one, &queue, node.admitted()).await);
            node.leave().await.unwrap();
        }
        holder.leave().await.unwrap();
    })
    .await;
}
