use std::path::PathBuf;
use std::time::Duration;

use crate::common::{acquiring_behind, config, coordinator, own_server, plant, soon, stranger};
use latchwork_conformance::servers::ask;
use latchwork_core::{Ended, LostReason};
use zookeeper_client::CreateMode;

async fn data_of(addr: &str) -> PathBuf {
    let answer = ask(addr, "conf").await.unwrap();
    let folder = answer.lines().find_map(|line| line.strip_prefix("dataDir="));
    PathBuf::from(folder.unwrap_or_else(|| panic!("{answer}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_without_data_is_reported_and_waiters_join_again() {
    let server = own_server().await;
    let data = data_of(server.addr()).await;
    for keeps_data in [false, true] {
        let mut config = config(server.addr());
        config.ttl = Duration::from_secs(60);
        let (one, other) = (coordinator(&config).await, coordinator(&config).await);
        // More transactions than the restarted server makes before the last client has asked.
        let stranger = stranger(server.addr()).await;
        for _ in 0..200 {
            let path = plant(&stranger, "/before", CreateMode::EphemeralSequential).await;
            stranger.delete(&path, None).await.unwrap();
        }
        let held = one.mutex("a").unwrap().acquire().await.unwrap();
        let waits = acquiring_behind(&other.mutex("a").unwrap()).await;
        server.stop().await.unwrap();
        if !keeps_data {
            std::fs::remove_dir_all(&data).unwrap();
        }
        server.launch().await.unwrap();
        if keeps_data {
            soon(async { while one.mutex("a").unwrap().queue().first(10).await.is_err() {} }).await;
            assert_eq!(one.mutex("a").unwrap().queue().first(10).await.unwrap().len(), 2);
            assert!(held.is_held() && !waits.is_finished());
            held.release().await.unwrap();
        } else {
            assert_eq!(soon(held.lost()).await, Ended::Lost(LostReason::Forgotten));
        }
        let next = soon(waits).await.unwrap().unwrap();
        assert!(next.is_held());
        if !keeps_data {
            assert_eq!(held.release().await.unwrap_err().lost_reason(), Some(LostReason::Forgotten));
        }
        next.release().await.unwrap();
    }
}
