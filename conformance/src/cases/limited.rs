//! NODE-LIMITS: stored limits of queues.

use std::collections::BTreeMap;

use crate::actions::{queued, release, release_all};
use crate::case::cases;
use crate::waits::soon;
use latchwork_core::backend::{ExpectedLimit, KeysWith};
use latchwork_core::{Address, Kind, Limit};

use super::key_pages::{are_listed_by_their_beginning, keys, listed};
use super::semaphore::{permits, semaphore};

cases! {
    "NODE-LIMITS" =>
    /// the queues with a stored limit are listed by a prefix of their keys, in pages, used or not, without other queues
    async fn node_limits_are_listed_by_the_beginning_of_their_keys(context) {
        let client = context.client().await;
        let mut keys = keys(&["a", "a/b*c", "a/[b]", "a/b{c}", "a%2Fb", "ä/a", "..a"], 11);
        for key in &keys {
            let idle = client.coordinator.semaphore(key, Limit::Stored).expect("a good key");
            soon("set_limit", idle.set_limit(3)).await.expect("set");
        }
        let used = permits(&semaphore(&client, "used", 2), 1).await;
        release(permits(&semaphore(&client, "left", 2), 1).await).await;
        let elsewhere = Address::new(&format!("{}-2", context.fixture.config().namespace), Kind::Semaphore, "a/elsewhere");
        let backend = client.coordinator.backend();
        soon("set_limit", backend.set_limit(&elsewhere.expect("a good key"), ExpectedLimit::Any, 4)).await.expect("set");
        keys.extend(["used".to_owned(), "left".to_owned()]);
        are_listed_by_their_beginning(context, &client, (KeysWith::Limit, Kind::Semaphore), &keys).await;
        assert_eq!(listed(context, &client, (KeysWith::Limit, Kind::Mutex), "", 10).await, BTreeMap::new());
        used.release().await.expect("released");
    }

    "NODE-LIMITS" =>
    /// a limit is replaced only if the expected one is stored; waiters follow the new limit
    async fn node_limits_are_replaced_where_they_are_known(context) {
        let client = context.client().await;
        let (queue, backend) = (context.queue_of(Kind::Semaphore, "a"), client.coordinator.backend());
        let replace = async |stored: Option<u32>, limit| {
            soon("replace", backend.set_limit(&queue, stored.into(), limit)).await.expect("answered")
        };
        let stored = async || soon("limit", backend.limit(&queue)).await.expect("read");
        assert!(!replace(Some(1), 2).await, "none is stored");
        assert_eq!(stored().await, None);
        assert!(replace(None, 1).await);
        for over in [None, Some(2)] {
            assert!(!replace(over, 3).await, "over {over:?}");
        }
        assert_eq!(stored().await, Some(1));
        let following = client.coordinator.semaphore("a", Limit::Stored).expect("a good key");
        let held = permits(&following, 1).await;
        let waits = queued(following.acquire(1), following.queue(), 2).await;
        assert!(replace(Some(1), 2).await);
        let second = waits.guard().await;
        assert_eq!(stored().await, Some(2));
        release_all([held, second]).await;
    }
}
