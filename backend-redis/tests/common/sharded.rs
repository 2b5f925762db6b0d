//! Locks of a Redis Cluster, by the server that has them.

use latchwork_conformance::servers::ClusteredRedis;

/// The key on the server of a lock.
pub fn key_of(lock: &str) -> String {
    format!("latchwork:mutex:{{{lock}}}:one")
}

/// A lock whose keys this server has, other than those that are `taken`.
pub async fn lock_at(cluster: &ClusteredRedis, server: usize, taken: &mut usize) -> String {
    loop {
        *taken += 1;
        let lock = format!("lock-{taken}");
        if cluster.master_of(&key_of(&lock)).await.unwrap() == server {
            return lock;
        }
    }
}
