use std::time::Duration;

use crate::common::{address, admitted, join, place, promptly};
use futures_util::future::try_join_all;
use latchwork_conformance::actions::in_turn;
use latchwork_core::Claim::Exclusive;
use latchwork_core::{Kind, LostReason};

#[tokio::test]
async fn of_many_holds_of_a_client_each_learns_its_own_removal_only() {
    let (config, backend, stranger) = place().await;
    let queues: Vec<_> = (0..40).map(|key| address(&config, Kind::Mutex, format!("m{key}"))).collect();
    let hold = async |queue| admitted(backend.join(&join(queue, Exclusive)).await);
    let mut held = in_turn(queues[..20].iter().map(async |queue| hold(queue).await)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    for queue in &queues[20..] {
        held.push(hold(queue).await);
    }
    for removed in [0, 17, 39] {
        let queue = format!("/{}/mutex/m{removed}", config.namespace);
        let name = stranger.list_children(&queue).await.unwrap().remove(0);
        stranger.delete(&format!("{queue}/{name}"), None).await.unwrap();
        assert_eq!(promptly(held[removed].state().until_lost()).await, LostReason::Revoked);
    }
    let lost: Vec<_> = held.iter().filter(|node| node.state().lost().is_some()).collect();
    assert_eq!(lost.len(), 3, "{lost:?}");
    try_join_all(held.iter().map(|node| node.leave())).await.unwrap();
    let lost = held.iter().filter(|node| node.state().lost().is_some()).count();
    assert_eq!(lost, 3, "the owner's leave counts as a removal by others");
    assert_eq!(backend.lease().lost(), None);
}
