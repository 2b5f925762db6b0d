use futures_util::future::try_join_all;
use latchwork_core::{Result, encode};
use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use super::command::{by_pattern, reply, scanned};
use super::dial::reach;
use super::open::within;
use super::refresh::masters;
use crate::config::{Servers, Settings};
use crate::error::from_redis;

/// Small, so that other requests do not wait long.
const AT_ONCE: usize = 500;

pub(crate) async fn sweep(settings: &Settings, namespace: &str) -> Result<usize> {
    settings.transport.prepare().await?;
    let servers = match &settings.servers {
        Servers::Cluster(seeds) => {
            let masters = masters(settings, seeds).await?;
            masters.into_iter().map(|host| settings.of_shard(host)).collect()
        }
        Servers::One(_) | Servers::Watched(_) | Servers::Shard(_) => vec![settings.clone()],
    };
    // An encoded namespace has no special character of patterns.
    let pattern = format!("{}:*", encode(namespace));
    let deleted = try_join_all(servers.iter().map(|server| of_server(server, &pattern))).await?;
    Ok(deleted.into_iter().sum())
}

async fn of_server(settings: &Settings, pattern: &str) -> Result<usize> {
    let bound = settings.request_timeout;
    let (_, mut connection) = reach(settings, within(bound), bound).await?;
    let (mut cursor, mut deleted) = (0, 0);
    loop {
        // A walk may show a key twice, so the server counts.
        let scan = by_pattern(cursor, pattern, AT_ONCE);
        let found = scan.query_async(&mut connection).await.map_err(|error| from_redis(error, false))?;
        let (next, keys) = scanned(reply(found))?;
        deleted += unlink(&mut connection, &keys).await.map_err(|error| from_redis(error, false))?;
        if next == 0 {
            return Ok(deleted);
        }
        cursor = next;
    }
}

/// A server of a cluster accepts no keys of two slots in one request.
async fn unlink(connection: &mut MultiplexedConnection, keys: &[Vec<u8>]) -> RedisResult<usize> {
    if keys.is_empty() {
        return Ok(0);
    }
    let mut all = redis::pipe();
    keys.iter().for_each(|key| {
        all.unlink(key);
    });
    let deleted: Vec<usize> = all.query_async(connection).await?;
    Ok(deleted.into_iter().sum())
}
