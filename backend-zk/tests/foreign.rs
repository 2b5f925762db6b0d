use crate::common::rewriter::{replace, rewriting};
use crate::common::{
    ALL, address, admitted, backend, config, join, place, plant, server, soon, still_waits, stranger, waiting,
};
use latchwork_core::Claim::{self, Exclusive, Permits, Shared};
use latchwork_core::backend::{EntryPage, NodeId, QueueEntry};
use latchwork_core::{ErrorKind, Kind};
use zookeeper_client::CreateMode;

/// Children with numbers that no directory has given. The first number is half of the number range away from
/// the waiter's, 17.
#[tokio::test]
async fn foreign_child_with_a_bad_number_admits_no_waiter() {
    let (config, one, stranger) = place().await;
    let other = backend(&config).await;
    let cases: [(Kind, &str, Claim, Claim); 4] = [
        (Kind::Mutex, "lock-", Exclusive, Exclusive),
        (Kind::RwLock, "__WRIT__", Exclusive, Shared),
        (Kind::RwLock, "__READ__", Shared, Exclusive),
        (Kind::Semaphore, "lease-", Permits(2), Permits(1)),
    ];
    for (number, key) in [("-2147483631", "low"), ("-000000001", "minus"), ("2147483648", "high")] {
        for (kind, marker, held, wanted) in cases {
            let queue = address(&config, kind, format!("{key}{marker}"));
            let holder = admitted(one.join(&join(&queue, held)).await);
            let directory = format!("/{}/{}/{key}{marker}", config.namespace, kind.as_str());
            for n in 0..16 {
                let foreign = format!("{directory}/x{n}-{marker}{number}");
                plant(&stranger, &foreign, CreateMode::Persistent).await;
            }
            let waiter = waiting(other.join(&join(&queue, wanted)).await);
            assert!(still_waits(&other, &queue, waiter.admitted()).await, "{kind:?} {number}");
            holder.leave().await.unwrap();
            soon(waiter.admitted()).await.unwrap();
            waiter.leave().await.unwrap();
        }
    }
}

#[tokio::test]
async fn persistent_node_with_the_name_of_a_member_is_not_listed() {
    let (config, client, stranger) = place().await;
    for kind in [Kind::Group, Kind::Barrier, Kind::DoubleBarrier] {
        let queue = address(&config, kind, "a");
        let member = admitted(client.join(&join(&queue, Shared)).await);
        let copy = format!(
            "/{}/{}/a/_c_{}-__READ__",
            config.namespace,
            kind.as_str(),
            NodeId::random().hyphenated()
        );
        plant(&stranger, &copy, CreateMode::PersistentSequential).await;
        let last = admitted(client.join(&join(&queue, Shared)).await);
        let listed = |page: Vec<QueueEntry>| page.iter().map(|entry| entry.sequence).collect::<Vec<_>>();
        let members = [&member, &last].map(|node| node.state().sequence());
        assert_eq!(listed(client.list(&queue, ALL).await.unwrap()), members, "{kind:?}");
        assert_eq!(listed(client.list(&queue, EntryPage::new(0, 2)).await.unwrap()), members, "{kind:?}");
    }
}

/// Beyond its count, a server repeats the highest number, or gives a negative one.
#[tokio::test]
async fn a_join_whose_number_is_out_of_range_is_refused_with_the_name_of_its_queue_and_leaves_nothing() {
    let addr = server().await.addr();
    let (config, stranger) = (config(addr), stranger(addr).await);
    for (key, used_up) in [("highest", "-lock-2147483647"), ("negative", "-lock--214748364")] {
        const FIRST: &str = "-lock-0000000000";
        let there = move |request: &mut Vec<u8>| replace(request, used_up, FIRST);
        let back = move |reply: &mut Vec<u8>| replace(reply, FIRST, used_up);
        let rewriter = rewriting(addr, there, back).await;
        let mut through = config.clone();
        through.hosts = vec![rewriter.addr()];
        let client = backend(&through).await;
        let queue = address(&config, Kind::Mutex, key);
        let error = client.join(&join(&queue, Exclusive)).await.unwrap_err();
        let path = format!("/{}/mutex/{key}", config.namespace);
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains(&path), "{error}");
        assert_eq!(stranger.list_children(&path).await.unwrap(), Vec::<String>::new());
    }
}
