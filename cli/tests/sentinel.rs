use latchwork_servers::WatchedRedis;

use crate::common::keys;
use crate::compare_given::{compared, is_measured_without_a_link};

#[tokio::test]
async fn redis_with_sentinels_is_measured_and_left_empty() {
    let watched = WatchedRedis::start().await.expect("a Redis with Sentinels");
    is_measured_without_a_link(&compared(&watched.url()).await);
    let master = watched.master().await.expect("a master");
    let left = keys(&watched.servers()[master]).await;
    assert!(left.starts_with("*0"), "{left}");
}
