use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use latchwork_core::{Address, Capabilities, Error, ErrorKind, Kind, Result};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, ScanOptions};

use super::memory;
use super::proxied::{Admin, NAMESPACES, OpenAdmin, ServerTestbed};
use crate::testbed::{of_a_case, stamps};
use latchwork_servers::{ClusteredRedis, Server, WatchedRedis};

const PATIENCE: Duration = Duration::from_secs(20);

const CAPABILITIES: Capabilities = Capabilities {
    lease_per_node: true,
    prompt_revocation: false,
    minimum_outlives_close: true,
    confirms_on_replicas: true,
    ..memory::CAPABILITIES
};

/// Scripts drop expired nodes, and a waiter looks at its predecessor's expiry (QUEUE-LOOK-AT-EXPIRY).
const EXPIRY_BOUND: Duration = Duration::from_millis(100);

const EXACT_NAMES: &str = "exact-";

/// Creates the testbed of a server.
///
/// # Errors
/// As [`ServerTestbed::new`].
pub fn redis_testbed(server: Server) -> Result<ServerTestbed> {
    let hosts = vec![server.addr().to_owned()];
    let testbed = over(server.url(), hosts, |addr| {
        Box::pin(async move {
            let admin = RedisAdmin { servers: vec![open(&addr).await?], counted: &COUNTED };
            Ok(Box::new(admin) as Box<dyn Admin>)
        })
    })?;
    Ok(testbed.keeping(server))
}

/// Creates the testbed of a server with a user of the guide's `command`, with the suite's prefixes.
///
/// # Errors
/// If the command creates no user, or fails.
pub async fn redis_acl_testbed(server: Server, command: &str) -> Result<ServerTestbed> {
    let mut words: Vec<_> = command.split_whitespace().map(str::to_owned).collect();
    let user = words.get(2).filter(|_| command.starts_with("ACL SETUSER ")).cloned();
    let user = user.ok_or_else(|| Error::invalid("command", "it is not an ACL SETUSER command"))?;
    let password = words.iter().find_map(|word| word.strip_prefix('>')).map(str::to_owned);
    let password = password.ok_or_else(|| Error::invalid("command", "it sets no password"))?;
    for word in &mut words {
        *word = word.replace(&format!("{user}:*"), &format!("{NAMESPACES}*:*"));
    }
    for kind in Kind::QUEUES.iter().chain(&Kind::CELLS).map(|kind| kind.as_str()) {
        words.extend(["~", "&"].map(|sign| format!("{sign}{kind}:{{{EXACT_NAMES}*}}:*")));
    }
    let mut operator = open(server.addr()).await?;
    let mut set = redis::cmd(&words[0]);
    set.arg(&words[1..]).query_async::<()>(&mut operator).await.map_err(unavailable)?;
    Ok(redis_testbed(server)?.called("redis-acl").logged_in(&user, &password))
}

/// Creates the testbed of a master with Sentinels, which end with it.
///
/// # Errors
/// As [`ServerTestbed::new`].
pub fn watched_redis_testbed(watched: Arc<WatchedRedis>) -> Result<ServerTestbed> {
    let hosts = [watched.sentinels(), watched.servers()].concat();
    let mut testbed = over(&watched.url(), hosts, |addr| {
        Box::pin(async move {
            let servers = masters(&addr, 1).await?;
            if servers.is_empty() {
                return Err(Error::new(ErrorKind::Unavailable, "no server is the master at the moment"));
            }
            // Sentinels send PING.
            Ok(Box::new(RedisAdmin { servers, counted: &COUNTED[1..] }) as Box<dyn Admin>)
        })
    })?;
    testbed.doors = watched.sentinels().len();
    Ok(testbed.called("redis-sentinel").keeping(watched))
}

/// Creates the testbed of a cluster, which ends with it.
///
/// # Errors
/// As [`ServerTestbed::new`].
pub fn clustered_redis_testbed(cluster: Arc<ClusteredRedis>) -> Result<ServerTestbed> {
    let mut testbed = over(&cluster.url(), cluster.servers(), |addr| {
        Box::pin(async move {
            let servers = masters(&addr, usize::MAX).await?;
            Ok(Box::new(RedisAdmin { servers, counted: &COUNTED }) as Box<dyn Admin>)
        })
    })?;
    testbed.doors = 2;
    testbed.capabilities.held_writes = false;
    Ok(testbed.called("redis-cluster").keeping(cluster))
}

fn over(url: &str, hosts: Vec<String>, admin: OpenAdmin) -> Result<ServerTestbed> {
    let connector = latchwork_redis::connector();
    ServerTestbed::new(url, hosts, connector, CAPABILITIES, EXPIRY_BOUND, EXACT_NAMES, admin)
}

async fn open(addr: &str) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(format!("redis://{addr}")).map_err(unavailable)?;
    // The crate's defaults are too short for a busy machine.
    let patient = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    client.get_multiplexed_async_connection_with_config(&patient).await.map_err(unavailable)
}

/// Later servers are not asked.
async fn masters(addrs: &str, most: usize) -> Result<Vec<MultiplexedConnection>> {
    let mut masters = Vec::new();
    for addr in addrs.split(',') {
        let mut connection = open(addr).await?;
        let info: String = redis::cmd("INFO").query_async(&mut connection).await.map_err(unavailable)?;
        if info.contains("role:master") {
            masters.push(connection);
        }
        if masters.len() == most {
            break;
        }
    }
    Ok(masters)
}

async fn keys(server: &mut MultiplexedConnection, pattern: &str) -> Result<Vec<String>> {
    // Other cases may have a hundred thousand keys.
    let options = ScanOptions::default().with_pattern(pattern).with_count(1000);
    let keys = server.scan_options::<String>(options).await.map_err(unavailable)?;
    keys.try_collect().await.map_err(unavailable)
}

/// By their names in INFO.
const COUNTED: [&str; 7] = ["ping", "evalsha", "eval", "fcall", "script|load", "subscribe", "wait"];

/// In microseconds.
const NEVER: u64 = 1 << 52;

/// Makes waiters and watchers look at the expired queue, because Redis wakes no waiter at an expiry.
///
/// KEYS  one node exp seq
/// ARGV  label | the channel of the queue's watches | the remaining time of a node without an expiry
/// ->    how long each node had left, in microseconds
const EXPIRE: &str = r"
local function num(n) return string.format('%.0f', n) end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function is_its(label)
  return label and (label == ARGV[1] or string.sub(label, 1, #ARGV[1] + 1) == ARGV[1] .. '\0')
end
local left = {}
local head, expiry, rest = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+ %S+ )(%d+)( %d+ [xs] %d+ %S+ .*)$')
if expiry and is_its(string.match(rest, '^ %d+ [xs] %d+ %S+ (.*)$')) then
  left[1] = num(tonumber(expiry) - now)
  redis.call('SET', KEYS[1], head .. num(now) .. rest, 'KEEPTTL')
end
local nodes = redis.call('HGETALL', KEYS[2])
for i = 1, #nodes, 2 do
  if is_its(string.match(nodes[i + 1], '^[xsp] %d+ %d+ %d+ %S+ (.*)$')) then
    local at = redis.call('ZSCORE', KEYS[3], nodes[i])
    left[#left + 1] = at and num(tonumber(at) - now) or ARGV[3]
    redis.call('ZADD', KEYS[3], num(now), nodes[i])
  end
end
if #left > 0 then
  for i = 1, #nodes, 2 do
    local inbox = string.match(nodes[i + 1], '^[xsp] %d+ %d+ %d+ %w+@(%S+) ')
    local seq = redis.call('ZSCORE', KEYS[4], nodes[i])
    if inbox and seq then
      redis.call('PUBLISH', inbox, nodes[i] .. ' -' .. num(tonumber(seq)))
    end
  end
  redis.call('PUBLISH', ARGV[2], '+')
end
return left
";

/// KEYS  cell, whose name is also its channel
/// ->    how long it had left, in milliseconds; -1 of another cell
const EXPIRE_CELL: &str = r"
local left = redis.call('PTTL', KEYS[1])
if left < 0 or redis.call('HEXISTS', KEYS[1], 'i') == 1 then
  return -1
end
redis.call('PEXPIRE', KEYS[1], 0)
redis.call('PUBLISH', KEYS[1], '')
return left
";

#[derive(Debug)]
struct RedisAdmin {
    servers: Vec<MultiplexedConnection>,
    counted: &'static [&'static str],
}

fn prefix(queue: &Address) -> String {
    let (kind, key) = (queue.kind().as_str(), queue.coded());
    match queue.namespace() {
        Some(namespace) => format!("{namespace}:{kind}:{{{key}}}:"),
        None => format!("{kind}:{{{key}}}:"),
    }
}

fn folded_node(text: &[u8]) -> Option<u64> {
    // Data of any bytes may follow the label.
    String::from_utf8_lossy(text).split_once(' ')?.0.parse().ok()
}

#[async_trait]
impl Admin for RedisAdmin {
    async fn contents(&self, namespace: &str, names: &[String]) -> Result<Vec<String>> {
        let mut patterns: Vec<_> = of_a_case(namespace).map(|namespace| format!("{namespace}:*")).into();
        patterns.extend(names.iter().map(|name| format!("*:{{{name}}}:*")));
        let mut contents = Vec::new();
        for pattern in patterns {
            for mut connection in self.servers.clone() {
                contents.extend(keys(&mut connection, &pattern).await?);
            }
        }
        // The meta hash and tombstones expire. Limits and the suite's foreign entry may stay.
        contents
            .retain(|key| ![":meta", ":left", ":limit", ":foreign"].iter().any(|part| key.ends_with(part)));
        let stamps: Vec<_> = stamps(namespace)?.iter().map(|stamp| prefix(stamp) + "cell").collect();
        contents.retain(|key| !stamps.contains(key));
        let mut folded = Vec::new();
        for key in contents.iter().filter(|key| key.ends_with(":one")) {
            let text: Option<Vec<u8>> = self.at(key).await?.get(key).await.map_err(unavailable)?;
            if text.is_none_or(|text| folded_node(&text).is_none()) {
                folded.push(key.clone());
            }
        }
        contents.retain(|key| !folded.contains(key));
        Ok(contents)
    }

    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()> {
        let prefix = prefix(queue);
        let mut connection = self.at(&prefix).await?;
        let one = format!("{prefix}one");
        let text: Option<Vec<u8>> = connection.get(&one).await.map_err(unavailable)?;
        let removed: u32 = if text.is_some_and(|text| folded_node(&text) == Some(sequence)) {
            connection.del(one).await.map_err(unavailable)?
        } else {
            let key = format!("{prefix}seq");
            connection.zrembyscore(key, sequence, sequence).await.map_err(unavailable)?
        };
        if removed == 1 { Ok(()) } else { Err(Error::invalid("sequence", "no such node")) }
    }

    async fn plant(&self, queue: &Address) -> Result<()> {
        let prefix = prefix(queue);
        let mut connection = self.at(&prefix).await?;
        let mut pipeline = redis::pipe();
        pipeline.set(format!("{prefix}foreign"), "what is this").ignore();
        // Without a node's data and expiry.
        pipeline.zadd(format!("{prefix}seq"), "foreign", 1).ignore();
        pipeline.query_async::<()>(&mut connection).await.map_err(unavailable)
    }

    /// The server does not know the owner of an ephemeral cell, so all of the namespace end.
    async fn end_lease(&self, namespace: &str, label: &str) -> Result<Vec<Duration>> {
        let mut left = Vec::new();
        for namespace in of_a_case(namespace) {
            for mut server in self.servers.clone() {
                for (prefix, part) in keys_by_queue(&mut server, &namespace).await? {
                    let mut expire = redis::cmd("EVAL");
                    if part == "cell" {
                        expire.arg(EXPIRE_CELL).arg(1).arg(format!("{prefix}cell"));
                        let of_it: i64 = expire.query_async(&mut server).await.map_err(unavailable)?;
                        left.extend(u64::try_from(of_it).map(Duration::from_millis));
                        continue;
                    }
                    expire.arg(EXPIRE).arg(4);
                    expire.arg(["one", "node", "exp", "seq"].map(|part| format!("{prefix}{part}")).to_vec());
                    expire.arg(label).arg(format!("{prefix}news")).arg(NEVER);
                    let of_it: Vec<i64> = expire.query_async(&mut server).await.map_err(unavailable)?;
                    let of_it = of_it.into_iter().map(|of| u64::try_from(of).unwrap_or(0));
                    left.extend(of_it.map(Duration::from_micros));
                }
            }
        }
        Ok(left)
    }

    async fn requests(&self) -> Result<u64> {
        let mut all = 0;
        for mut connection in self.servers.clone() {
            let mut question = redis::cmd("INFO");
            let stats =
                question.arg("commandstats").query_async(&mut connection).await.map_err(unavailable)?;
            all += self.calls(stats);
        }
        Ok(all)
    }
}

/// A queue that changes during the scan may come twice.
async fn keys_by_queue(
    server: &mut MultiplexedConnection,
    namespace: &str,
) -> Result<BTreeSet<(String, &'static str)>> {
    let mut found = BTreeSet::new();
    for key in keys(server, &format!("{namespace}:*")).await? {
        for part in ["node", "one", "cell"] {
            if let Some(prefix) = key.strip_suffix(part).filter(|prefix| prefix.ends_with("}:")) {
                found.insert((prefix.to_owned(), part));
            }
        }
    }
    Ok(found)
}

impl RedisAdmin {
    async fn at(&self, key: &str) -> Result<MultiplexedConnection> {
        for mut connection in self.servers.clone() {
            match connection.exists::<_, bool>(key).await {
                Err(error) if error.code() == Some("MOVED") => {}
                answer => return answer.map(|_| connection).map_err(unavailable),
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "no server has this key"))
    }

    fn calls(&self, stats: String) -> u64 {
        // INFO also counts commands inside scripts, by other names.
        let calls = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            self.counted.contains(&name).then(|| rest.split(',').next()?.parse::<u64>().ok())?
        };
        stats.lines().filter_map(calls).sum()
    }
}

fn unavailable(error: redis::RedisError) -> Error {
    Error::new(ErrorKind::Unavailable, "the operator's connection").because(error)
}
