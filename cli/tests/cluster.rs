use std::time::Duration;

use latchwork_servers::ClusteredRedis;

use crate::common::{SOON, keys};
use crate::compare_given::{compared, is_measured_without_a_link};

#[tokio::test]
async fn a_redis_cluster() {
    let cluster = ClusteredRedis::start(Duration::from_secs(5)).await.expect("a cluster");
    is_measured_without_a_link(&compared(&cluster.url()).await);
    for server in cluster.servers() {
        let gone = async {
            while !keys(&server).await.starts_with("*0") {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, gone).await.expect("no key remains");
    }
}
