//! A Redis of the test's own, clients of it, and an operator's connection.

#![allow(dead_code, unreachable_pub, reason = "each test target uses a part")]

pub mod coordinators;

use std::sync::Arc;
use std::time::{Duration, Instant};

use latchwork_conformance::servers::{Kind as ServerKind, Options, Server};
use latchwork_core::backend::{Backend, EntryPage, Join, Joined, Node, NodeId, Patience};
use latchwork_core::{Address, Claim, Config, Connector, Error, Kind, Limit, Result};
use latchwork_redis::RedisConnector;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};

/// A TTL that survives a busy machine: a renewal may be held up for 2.8 s.
pub const SHORT: &str = "5s";

/// A TTL whose next renewal is 20 s away: news within [`PROMPT`] came by a message.
pub const LONG: &str = "60s";
const PROMPT: Duration = Duration::from_secs(10);

pub const ALL: EntryPage = EntryPage::new(0, 10_000);
pub const KINDS: [(Kind, Claim); 3] =
    [(Kind::Mutex, Claim::Exclusive), (Kind::RwLock, Claim::Exclusive), (Kind::Semaphore, Claim::Permits(1))];

/// Only a test without an end meets this bound.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(PATIENCE, what).await.expect("it never came")
}

/// Waits for what a message brings.
pub async fn promptly<F: Future>(what: F) -> F::Output {
    let started = Instant::now();
    let output = soon(what).await;
    assert!(started.elapsed() < PROMPT, "not by message: {:?}", started.elapsed());
    output
}

/// A server that no other test uses.
pub async fn own(arguments: &[&str]) -> Server {
    let options = Options::new().own().args(arguments.iter().copied());
    Server::start(ServerKind::Redis, options).await.unwrap_or_else(|error| panic!("{error}"))
}

pub async fn connect(url: &str) -> Result<Arc<dyn Backend>> {
    let config = Config::from_url(url)?;
    soon(RedisConnector.connect(&config)).await
}

/// A client with a TTL, and more than the default patience with a server that a busy machine holds up.
pub async fn client(server: &Server, ttl: &str) -> Arc<dyn Backend> {
    connect(&format!("{}?ttl={ttl}&request_timeout=4s", server.url()))
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Matches requests with this word in them.
pub fn says(word: &str) -> impl Fn(&[u8]) -> bool + Send + 'static {
    let word = word.as_bytes().to_vec();
    move |request| request.windows(word.len()).any(|part| part == word)
}

pub fn is_script(request: &[u8]) -> bool {
    says("EVALSHA")(request)
}

pub async fn refused(url: &str) -> Error {
    connect(url).await.expect_err("connected")
}

pub fn queue(kind: Kind, key: &str) -> Address {
    Address::new("latchwork", kind, key).unwrap()
}

pub fn ask(queue: &Address, claim: Claim) -> Join {
    Join {
        queue: queue.clone(),
        id: NodeId::random(),
        claim,
        limit: Limit::Stored,
        label: "test".into(),
        data: Default::default(),
        patience: Patience::Wait,
        repeated: false,
    }
}

pub fn permits(queue: &Address, weight: u32) -> Join {
    ask(queue, Claim::Permits(weight))
}

pub fn limited(queue: &Address, weight: u32, limit: u32) -> Join {
    Join { limit: Limit::Exactly(limit), ..permits(queue, weight) }
}

/// The limit that makes a claim of [`KINDS`] exclusive.
pub fn limit(kind: Kind) -> Limit {
    if kind == Kind::Semaphore { Limit::Exactly(1) } else { Limit::Stored }
}

/// Whether each node of the queue is admitted, in order.
pub async fn standing(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<bool> {
    backend.list(queue, ALL).await.unwrap().iter().map(|entry| entry.admitted).collect()
}

pub async fn admitted(backend: &Arc<dyn Backend>, join: &Join) -> Arc<dyn Node> {
    match backend.join(join).await {
        Ok(Joined::Admitted(node)) => node,
        other => panic!("not admitted: {other:?}"),
    }
}

pub async fn waiting(backend: &Arc<dyn Backend>, join: &Join) -> Arc<dyn Node> {
    match backend.join(join).await {
        Ok(Joined::Waiting(node)) => node,
        other => panic!("not waiting: {other:?}"),
    }
}

/// An operator with redis-cli.
#[derive(Clone)]
pub struct Operator(MultiplexedConnection);

impl Operator {
    pub async fn of(server: &Server) -> Self {
        Self::at(server.url()).await
    }

    pub async fn at(url: &str) -> Self {
        let client = redis::Client::open(url).unwrap();
        // Some of an operator's commands take long.
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        Self(client.get_multiplexed_async_connection_with_config(&config).await.unwrap())
    }

    pub async fn say<T: FromRedisValue>(&mut self, words: &str) -> T {
        self.cmd(words).query_async(&mut self.0).await.unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    pub async fn publish(&mut self, channel: &str, message: &str) {
        let mut cmd = Cmd::new();
        cmd.arg("PUBLISH").arg(channel).arg(message);
        cmd.exec_async(&mut self.0).await.unwrap();
    }

    /// Words with spaces in them.
    pub async fn run(&mut self, cmd: &Cmd) {
        cmd.exec_async(&mut self.0).await.unwrap();
    }

    fn cmd(&self, words: &str) -> Cmd {
        let mut cmd = Cmd::new();
        words.split(' ').for_each(|word| {
            cmd.arg(word);
        });
        cmd
    }

    /// How often a command was called, by clients and scripts.
    pub async fn calls(&mut self, command: &str) -> u64 {
        let stats: String = self.say("INFO commandstats").await;
        let prefix = format!("cmdstat_{command}:calls=");
        let found =
            stats.lines().find_map(|line| line.strip_prefix(&prefix)?.split(',').next()?.parse().ok());
        found.unwrap_or(0)
    }
}
