use std::time::Duration;

use super::{connects, end_session, opens_a_session, through};
use crate::common::{
    address, admitted, alone, config, coordinator, join, long_key, one_proxied, server, sessions,
    settled_watches, soon, stranger, until, waiting,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::Close;
use latchwork_core::recipes::Guard;
use latchwork_core::{Coordinator, Kind, LeaseState};
use tokio::task::JoinSet;

async fn waits_outlive_a_cut<G: Guard>(
    kind: &str,
    count: usize,
    acquire: fn(&Coordinator, &str) -> BoxFuture<'static, latchwork_core::Result<G>>,
) {
    alone(async |own| {
        let (proxy, mut proxied) = through(own.addr()).await;
        // Only watches report in this time.
        proxied.ttl = Duration::from_secs(60);
        let mut direct = proxied.clone();
        direct.hosts = vec![own.addr().to_owned()];
        let (holder, client) = (coordinator(&direct).await, coordinator(&proxied).await);
        let stranger = stranger(own.addr()).await;
        let keys: Vec<_> = (0..count).map(|number| format!("held-{number}")).collect();
        let held = stream::iter(&keys).map(|key| acquire(&holder, key)).buffer_unordered(64);
        let held: Vec<_> = soon(held.try_collect()).await.unwrap();
        let main = soon(client.mutex("main").unwrap().acquire()).await.unwrap();
        let queue = format!("/{}/mutex/main", direct.namespace);
        let node = stranger.list_children(&queue).await.unwrap().remove(0);
        let (_, stat) = stranger.get_data(&format!("{queue}/{node}")).await.unwrap();
        let mut waits: JoinSet<_> = keys.iter().map(|key| acquire(&client, key)).collect();
        let places = async || {
            let queues = stream::iter(&keys).map(async |key| {
                let queue = format!("/{}/{kind}/{key}", direct.namespace);
                loop {
                    let mut places = stranger.list_children(&queue).await.unwrap();
                    if places.len() == 2 {
                        places.sort();
                        return places;
                    }
                }
            });
            soon(queues.buffered(64).collect::<Vec<_>>()).await
        };
        let before = places().await;
        until(async || sessions(own).await > 3).await;
        settled_watches(own, u64::try_from(count).unwrap()).await;
        let (lease, (connects, _hear)) = (client.lease(), connects(&proxy));
        proxy.cut();
        soon(lease.changed(LeaseState::Live)).await;
        proxy.resume();
        let then = soon(lease.changed(LeaseState::Suspended)).await;
        assert_eq!(then, LeaseState::Live, "the session did not come back");
        assert_eq!(places().await, before);

        let of_others = || -> Vec<_> {
            let mut connects = connects.lock().unwrap().clone();
            connects.remove(&stat.ephemeral_owner);
            connects.into_values().collect()
        };
        until(async || of_others().len() >= 2).await;
        proxy.refuse();
        for connect in of_others() {
            end_session(own.addr(), &connect).await;
        }
        proxy.resume();
        assert_eq!(places().await, before);
        main.check().expect("the main session outlives a watch session");
        main.release().await.unwrap();
        stream::iter(&held)
            .map(|hold| hold.release())
            .buffer_unordered(64)
            .try_collect::<()>()
            .await
            .unwrap();
        let mut granted = Vec::new();
        while let Some(hold) = soon(waits.join_next()).await {
            granted.push(hold.unwrap().unwrap());
        }
        assert!(granted.iter().all(|hold| hold.is_held()));
        client.close().await.unwrap();
        holder.close().await.unwrap();
        until(async || sessions(own).await == 1).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_needs_a_further_session_and_is_not_polled_keeps_no_other_from_it() {
    let mut config = config(server().await.addr());
    config.ttl = Duration::from_secs(60);
    let (proxy, [client, holder]) = one_proxied(&config).await;
    let enter = async |number: usize| {
        let queue = address(&config, Kind::Mutex, long_key(number));
        let ahead = admitted(holder.join(&join(&queue, Exclusive)).await);
        let node = waiting(client.join(&join(&queue, Exclusive)).await);
        (ahead, Box::pin(async move { node.admitted().await }))
    };
    let opened = proxy.hold_reply_to(opens_a_session);
    let mut waits = JoinSet::new();
    soon(async {
        while !opened.has_fired() {
            waits.spawn(enter(waits.len()).await.1);
        }
    })
    .await;
    let [(_, mut unpolled), (ahead, mut polled)] = [enter(998).await, enter(999).await];
    assert!((&mut unpolled).now_or_never().is_none());
    assert!((&mut polled).now_or_never().is_none());
    proxy.resume();
    ahead.leave().await.unwrap();
    soon(polled).await.unwrap();
    drop(unpolled);
    client.close(Close::Orderly).await.unwrap();
}

mod larger {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn thousands_of_waits_for_locks_keep_their_places_over_a_cut() {
        waits_outlive_a_cut("mutex", 5000, |client, key| {
            let mutex = client.mutex(key).unwrap();
            async move { mutex.acquire().await }.boxed()
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn thousands_of_waits_for_permits_keep_their_places_over_a_cut() {
        waits_outlive_a_cut("semaphore", 2500, |client, key| {
            let semaphore = client.semaphore(key, 3).unwrap();
            async move { semaphore.acquire(2).await }.boxed()
        })
        .await;
    }
}
