use latchwork_conformance::servers::Server;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};

use super::PATIENCE;

pub const RIGHTS: &str = "+@read +@write +@pubsub +@scripting +@connection -@dangerous +time +info";

#[derive(Clone)]
pub struct Operator(MultiplexedConnection);

impl Operator {
    pub async fn of(server: &Server) -> Self {
        Self::at(server.addr()).await
    }

    pub async fn at(addr: &str) -> Self {
        let client = redis::Client::open(format!("redis://{addr}")).unwrap();
        // Some commands take long.
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        Self(client.get_multiplexed_async_connection_with_config(&config).await.unwrap())
    }

    pub async fn say<T: FromRedisValue>(&mut self, words: &str) -> T {
        let mut cmd = Cmd::new();
        cmd.arg(words.split(' ').collect::<Vec<_>>());
        cmd.query_async(&mut self.0).await.unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    pub async fn tell(&mut self, words: &str) {
        self.say::<()>(words).await;
    }

    /// The words may contain spaces.
    pub async fn run(&mut self, cmd: &Cmd) {
        cmd.exec_async(&mut self.0).await.unwrap();
    }

    pub async fn publish(&mut self, channel: &str, message: &str) {
        self.run(redis::cmd("PUBLISH").arg(channel).arg(message)).await;
    }

    pub async fn keys(&mut self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.say(&format!("KEYS {pattern}")).await;
        keys.sort_unstable();
        keys
    }

    pub async fn fill_memory(&mut self) {
        self.tell("CONFIG SET maxmemory-policy noeviction").await;
        self.tell("CONFIG SET maxmemory 1").await;
    }

    /// The password is `word`.
    pub async fn allow(&mut self, user: &str, rights: &str) {
        self.tell(&format!("ACL SETUSER {user} on >word ~latchwork:* &latchwork:* {rights}")).await;
    }

    pub async fn calls(&mut self, command: &str) -> u64 {
        self.counted("INFO commandstats", &format!("cmdstat_{command}:calls=")).await
    }

    pub async fn script_calls(&mut self) -> [u64; 2] {
        [self.calls("evalsha").await, self.calls("eval").await]
    }

    /// 0 without `mark`.
    pub async fn counted(&mut self, words: &str, mark: &str) -> u64 {
        number_after(&self.say::<String>(words).await, mark)
    }
}

pub fn number_after(text: &str, mark: &str) -> u64 {
    let digits = text.split_once(mark).and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
