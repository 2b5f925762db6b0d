#![allow(unreachable_pub, reason = "a module of a program")]

pub mod cells;
pub mod coordinators;
mod operator;

use std::sync::Arc;
use std::time::{Duration, Instant};

use latchwork_conformance::actions::{admitted_node, join_of, waiting_node};
use latchwork_conformance::servers::{Kind as ServerKind, Options, Server};
use latchwork_core::backend::{Backend, ChangeWatch, Close, EntryPage, Join, Node};
use latchwork_core::{Address, Claim, Config, Connector, Kind, Lease, Limit};
use latchwork_redis::RedisConnector;

pub use latchwork_conformance::patience::{PATIENCE, soon, until};

pub use self::operator::{Operator, RIGHTS, number_after};

/// A renewal may be delayed by 2.8 s on a busy machine.
pub const SHORT: &str = "5s";

/// The next renewal is 20 s away: a notification within [`PROMPT`] came by a message.
pub const LONG: &str = "60s";
const PROMPT: Duration = Duration::from_secs(10);

pub const ALL: EntryPage = EntryPage::new(0, 10_000);
pub const KINDS: [(Kind, Claim); 3] =
    [(Kind::Mutex, Claim::Exclusive), (Kind::RwLock, Claim::Exclusive), (Kind::Semaphore, Claim::Permits(1))];

/// The effect came by a message.
pub async fn promptly<F: Future>(what: F) -> F::Output {
    let started = Instant::now();
    let output = soon(what).await;
    assert!(started.elapsed() < PROMPT, "not by message: {:?}", started.elapsed());
    output
}

pub async fn told(watch: &mut Box<dyn ChangeWatch>) {
    promptly(watch.changed()).await.unwrap();
}

pub async fn close_all(clients: impl IntoIterator<Item = Arc<dyn Backend>>) {
    for client in clients {
        soon(client.close(Close::Orderly)).await.unwrap();
    }
}

pub async fn outlive(lease: &Lease, ttls: f64) {
    lease.clock().sleep_until(lease.clock().now() + lease.ttl().mul_f64(ttls)).await;
}

pub async fn own(arguments: &[&str]) -> Server {
    let options = Options::new().own().args(arguments.iter().copied());
    Server::start(ServerKind::Redis, options).await.unwrap_or_else(|error| panic!("{error}"))
}

pub async fn operated() -> (Server, Operator) {
    let server = own(&[]).await;
    let operator = Operator::of(&server).await;
    (server, operator)
}

pub async fn served(ttl: &str) -> (Server, Operator, Arc<dyn Backend>) {
    let (server, operator) = operated().await;
    let client = client(&server, ttl).await;
    (server, operator, client)
}

pub async fn connect(url: &str) -> Arc<dyn Backend> {
    let config = Config::from_url(url).expect("a good URL");
    soon(RedisConnector.connect(&config)).await.unwrap_or_else(|error| panic!("{error}"))
}

/// The default request timeout is too short for a busy machine.
pub async fn client(server: &Server, ttl: &str) -> Arc<dyn Backend> {
    connect(&format!("{}?ttl={ttl}&request_timeout=20s", server.url())).await
}

pub fn says(word: &str) -> impl Fn(&[u8]) -> bool + Send + 'static {
    let word = word.as_bytes().to_vec();
    move |request| request.windows(word.len()).any(|part| part == word)
}

pub fn is_script(request: &[u8]) -> bool {
    says("EVALSHA")(request)
}

pub fn queue(kind: Kind, key: &str) -> Address {
    Address::new("latchwork", kind, key).unwrap()
}

pub fn ask(queue: &Address, claim: Claim) -> Join {
    Join { limit: Limit::Stored, label: "test".into(), ..join_of(queue, claim) }
}

pub fn permits(queue: &Address, weight: u32) -> Join {
    ask(queue, Claim::Permits(weight))
}

pub fn limited(queue: &Address, weight: u32, limit: u32) -> Join {
    Join { limit: Limit::Exactly(limit), ..permits(queue, weight) }
}

/// One limit for all of [`KINDS`]: it makes the claim exclusive.
pub fn limit(kind: Kind) -> Limit {
    if kind == Kind::Semaphore { Limit::Exactly(1) } else { Limit::Stored }
}

pub async fn standing(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<bool> {
    backend.list(queue, ALL).await.unwrap().iter().map(|entry| entry.admitted).collect()
}

pub async fn admitted(backend: &Arc<dyn Backend>, join: &Join) -> Arc<dyn Node> {
    admitted_node(backend.join(join).await)
}

pub async fn waiting(backend: &Arc<dyn Backend>, join: &Join) -> Arc<dyn Node> {
    waiting_node(backend.join(join).await)
}

pub async fn expire(operator: &mut Operator, queue: &Address, node: &Arc<dyn Node>) {
    let of = format!("latchwork:{}:{{{}}}", queue.kind().as_str(), queue.name());
    let one: Option<String> = match queue.kind() {
        Kind::Semaphore => None,
        _ => operator.say(&format!("GET {of}:one")).await,
    };
    match one {
        Some(text) => {
            let words: Vec<&str> = text.splitn(4, ' ').collect();
            let mut set = redis::cmd("SET");
            set.arg(format!("{of}:one")).arg(format!("{} {} 1 {}", words[0], words[1], words[3]));
            operator.run(&set).await;
        }
        None => {
            let sequence = node.state().sequence();
            let ids: Vec<String> =
                operator.say(&format!("ZRANGEBYSCORE {of}:seq {sequence} {sequence}")).await;
            operator.tell(&format!("ZADD {of}:exp 1 {}", ids[0])).await;
        }
    }
}
