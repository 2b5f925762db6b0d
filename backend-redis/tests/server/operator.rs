use std::collections::HashMap;

use latchwork_core::backend::{Join, Joined, Patience};
use latchwork_core::{Claim, Kind, LostReason};

use crate::common::{SHORT, admitted, ask, client, queue, served, soon, waiting};

#[tokio::test]
async fn lone_holder_is_one_string_and_revoked_with_it() {
    let (server, mut operator, holder) = served(SHORT).await;
    let other = client(&server, SHORT).await;
    for kind in [Kind::Mutex, Kind::RwLock] {
        let (queue, keys) = (queue(kind, "a"), format!("latchwork:{}:{{a}}", kind.as_str()));
        let (mine, theirs) = (ask(&queue, Claim::Exclusive), ask(&queue, Claim::Exclusive));
        let held = admitted(&holder, &mine).await;
        let tries = Join { patience: Patience::Try, ..ask(&queue, Claim::Exclusive) };
        assert!(matches!(other.join(&tries).await, Ok(Joined::Refused)));
        let text: String = operator.say(&format!("GET {keys}:one")).await;
        let (sequence, id) = (held.state().sequence().to_string(), mine.id.to_string());
        assert_eq!(text.split(' ').take(2).collect::<Vec<_>>(), [&*sequence, &*id]);
        assert_eq!(text.split(' ').next_back(), Some("test"), "its label");
        let all: Vec<String> = operator.say(&format!("ZRANGE {keys}:seq 0 -1 WITHSCORES")).await;
        assert_eq!((all, operator.say::<u32>(&format!("ZREM {keys}:seq {id}")).await), (Vec::new(), 0));
        assert_eq!(held.state().lost(), None);
        assert_eq!(operator.say::<u32>(&format!("DEL {keys}:one")).await, 1);
        let next = admitted(&other, &theirs).await;
        assert_eq!(soon(held.state().until_lost()).await, LostReason::Revoked);

        let behind = ask(&queue, Claim::Exclusive);
        let waits = waiting(&holder, &behind).await;
        assert_eq!(operator.say::<u32>(&format!("DEL {keys}:one")).await, 0);
        let all: Vec<String> = operator.say(&format!("ZRANGE {keys}:seq 0 -1")).await;
        assert_eq!(all, [theirs.id.to_string(), behind.id.to_string()]);
        let data: HashMap<String, String> = operator.say(&format!("HGETALL {keys}:node")).await;
        assert!(all.iter().all(|id| data[id].ends_with(" test")), "{data:?}");
        assert_eq!(operator.say::<u32>(&format!("ZREM {keys}:seq {}", theirs.id)).await, 1);
        assert_eq!(soon(next.state().until_lost()).await, LostReason::Revoked);
        soon(waits.admitted()).await.unwrap();
        waits.leave().await.unwrap();
        let free: String = operator.say(&format!("GET {keys}:one")).await;
        assert_eq!(free, waits.state().sequence().to_string());
    }
}

#[tokio::test]
async fn the_owner_of_a_deleted_key_learns_it_and_every_key_expires() {
    let (server, mut operator, holder) = served(SHORT).await;
    let other = client(&server, SHORT).await;
    let queue = queue(Kind::Mutex, "a");
    let held = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    assert_eq!(operator.say::<u32>("DEL latchwork:mutex:{a}:one").await, 1);
    assert_eq!(soon(held.state().until_lost()).await, LostReason::Revoked);
    let next = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    assert!(next.state().sequence() > held.state().sequence());
    let behind = waiting(&other, &ask(&queue, Claim::Exclusive)).await;
    for (count, leaves) in [(4, Some(next)), (4, Some(behind)), (1, None)] {
        let keys = operator.keys("latchwork:mutex:*").await;
        assert_eq!(keys.len(), count, "{keys:?}");
        // A day and two hours, and two TTLs.
        let most = 93_600_000 + 2 * i64::try_from(holder.lease().ttl().as_millis()).unwrap();
        for key in keys {
            let lives: i64 = operator.say(&format!("PTTL {key}")).await;
            assert!((1..=most).contains(&lives), "{key}: {lives}");
        }
        if let Some(node) = leaves {
            node.leave().await.unwrap();
        }
    }
}
