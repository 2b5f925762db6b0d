use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::servers::{self, Options, Server};
use latchwork_core::backend::NodeId;
use latchwork_core::{Address, Kind, Result};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, PushInfo, PushKind, Value};

use crate::driver::command::{by_hash, reply};
use crate::error::from_redis;
use crate::layout::{QueueKeys, life};
use crate::scripts::{self, Call, Reply};

/// Microseconds. The history sets the scripts' time, but keys expire by the server's clock: a TTL of at least
/// ten seconds tolerates a pause of the machine.
pub(crate) const TICK: u64 = 10_000_000;
pub(crate) const FAR: Duration = Duration::from_secs(60);
const SECRET: u64 = 0x5ec2e7;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Fixture {
    connection: MultiplexedConnection,
    channel: String,
    messages: Arc<Mutex<Vec<u8>>>,
    news: Arc<Mutex<Vec<String>>>,
    life: String,
    _server: Server,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        let server = Server::start(servers::Kind::Redis, Options::new()).await.unwrap();
        let messages = Arc::new(Mutex::new(Vec::new()));
        let news = Arc::new(Mutex::new(Vec::new()));
        let (received, heard) = (Arc::clone(&messages), Arc::clone(&news));
        let on_push = move |push: PushInfo| -> std::result::Result<(), Infallible> {
            if let (PushKind::Message, [Value::BulkString(channel), Value::BulkString(message)]) =
                (push.kind, &push.data[..])
            {
                if channel.ends_with(b":news") {
                    heard.lock().push(String::from_utf8_lossy(channel).into_owned());
                    return Ok(());
                }
                let mut received = received.lock();
                received.extend_from_slice(message);
                received.push(b' ');
            }
            Ok(())
        };
        // The client crate's defaults are too short for a slow machine.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE))
            .set_push_sender(on_push);
        let client = redis::Client::open(format!("{}?protocol=resp3", server.url())).unwrap();
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        for script in scripts::ALL {
            redis::cmd("SCRIPT").arg("LOAD").arg(script.text()).exec_async(&mut connection).await.unwrap();
        }
        let channel = format!("internals:inbox:{}", NodeId::random());
        connection.subscribe(&channel).await.unwrap();
        let life = life(Duration::from_secs(24 * 3600), Duration::from_secs(10)).to_string();
        Self { connection, channel, messages, news, life, _server: server }
    }

    pub(crate) async fn listen(&self, queue: &QueueKeys) {
        self.connection.clone().subscribe(&*queue.news()).await.unwrap();
    }

    /// Call [`notified`](Self::notified) first.
    pub(crate) fn told(&self, queue: &QueueKeys) -> usize {
        let channel = queue.news();
        std::mem::take(&mut *self.news.lock()).iter().filter(|told| **told == *channel).count()
    }

    pub(crate) fn queue(kind: Kind, name: &str) -> Address {
        Address::new("internals", kind, format!("{name}-{}", NodeId::random())).unwrap()
    }

    pub(crate) fn inbox(&self) -> String {
        format!("{SECRET:x}@{}", self.channel)
    }

    pub(crate) async fn try_run(&self, call: Call) -> Result<Reply> {
        let command = by_hash(&call, &self.life);
        let mut connection = self.connection.clone();
        let answer = connection.send_packed_command(&command).await.and_then(Value::extract_error);
        answer.map(reply).map_err(|error| from_redis(error, true).error)
    }

    pub(crate) async fn run(&self, call: Call) -> Reply {
        self.try_run(call).await.unwrap()
    }

    pub(crate) async fn raw<T: FromRedisValue>(&self, command: &Cmd) -> redis::RedisResult<T> {
        command.query_async(&mut self.connection.clone()).await
    }

    /// In the messages of the last script. A message may come after the script's reply, but not after the
    /// next one's.
    pub(crate) async fn notified(&self) -> Vec<(String, i64)> {
        self.raw::<()>(&redis::cmd("PING")).await.unwrap();
        let messages = std::mem::take(&mut *self.messages.lock());
        let text = String::from_utf8(messages).unwrap();
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let mut notified: Vec<_> =
            words.chunks(2).map(|pair| (pair[0].to_owned(), read_sequence(pair[1]))).collect();
        notified.sort_unstable();
        notified
    }
}

fn read_sequence(word: &str) -> i64 {
    let (sequence, secret) =
        word.split_once('.').map_or((word, None), |(number, secret)| (number, Some(secret)));
    let sequence = sequence.parse().unwrap();
    let expected = (sequence > 0).then(|| format!("{SECRET:x}"));
    assert_eq!(secret.map(str::to_owned), expected, "{word}");
    sequence
}
