//! Redis: the scripts of a join and a leave; and a plain `SET NX PX` with a compare-and-delete.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::connect;
use latchwork_core::contracts::NodeId;
use latchwork_servers::proxy::Proxy;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, IntoConnectionInfo};

use super::{AtOnce, PLAIN, Pair, Result, SAME, SAME_OF_THREE, Subject, THREE, Target};
use crate::target::NAMESPACE;

const TTL: Duration = Duration::from_secs(30);
const COMPARE_AND_DELETE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

pub(super) async fn subjects(target: &Target) -> Result<Vec<Subject>> {
    let url = format!("redis://{}/{}", target.addr().unwrap_or_default(), target.config.path);
    let server = url.into_connection_info()?;
    let mut login = server.redis_settings().clone();
    if let Some(user) = &target.config.user {
        login = login.set_username(user);
    }
    if let Some(password) = &target.config.password {
        login = login.set_password(password.expose());
    }
    let client = redis::Client::open(server.set_redis_settings(login))?;
    let connection = client.get_multiplexed_async_connection().await?;
    let mut three: Vec<Box<dyn Pair>> = Vec::new();
    for key in THREE {
        three.push(Box::new(Same::open(target, connection.clone(), key).await?));
    }
    let same = Same::open(target, connection.clone(), "m1").await?;
    let plain = Plain::open(connection).await?;
    Ok(vec![
        Subject { peer: SAME, pair: Box::new(same) },
        Subject { peer: PLAIN, pair: Box::new(plain) },
        Subject { peer: SAME_OF_THREE, pair: Box::new(AtOnce(three)) },
    ])
}

async fn load(connection: &mut MultiplexedConnection, code: &str) -> Result<String> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(code).query_async(connection).await?)
}

type Words = Vec<Vec<u8>>;

/// The commands in what a client has sent at once.
fn commands(mut bytes: &[u8]) -> Vec<Words> {
    let mut commands = Vec::new();
    while let Some(command) = command(&mut bytes) {
        commands.push(command);
    }
    commands
}

fn command(bytes: &mut &[u8]) -> Option<Words> {
    let count = length(bytes, b'*')?;
    (0..count).map(|_| word(bytes)).collect()
}

fn word(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let length = length(bytes, b'$')?;
    let word = bytes.get(..length)?.to_vec();
    *bytes = bytes.get(length + 2..)?;
    Some(word)
}

fn length(bytes: &mut &[u8], kind: u8) -> Option<usize> {
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    let digits = bytes[..end].strip_prefix(&[kind])?;
    let length = std::str::from_utf8(digits).ok()?.parse().ok()?;
    *bytes = bytes.get(end + 2..)?;
    Some(length)
}

/// The scripts that a mutex of this crate runs for one acquire and one release, as a proxy between
/// it and the server has seen them.
async fn recorded(target: &Target, key: &str) -> Result<(Words, Words)> {
    let proxy = Proxy::start(target.addr().unwrap_or_default()).await?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&seen);
    let _recording = proxy.request(move |bytes| {
        recorder.lock().unwrap_or_else(PoisonError::into_inner).extend(commands(bytes));
        false
    });
    let mut config = target.config.clone();
    (config.hosts, config.ttl) = (vec![proxy.addr().to_string()], TTL);
    (config.namespace, config.label) = (format!("{NAMESPACE}-raw"), Some("raw".to_owned()));
    let coordinator = connect(&[latchwork_redis::connector()], &config).await?;
    coordinator.mutex(key)?.acquire().await?.release().await.map(drop)?;
    coordinator.close().await?;
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    let one = format!(":mutex:{{{key}}}:one");
    let of_queue = |command: &Words| {
        let is_key = |word: &Vec<u8>| word.ends_with(one.as_bytes());
        command.first().is_some_and(|name| name == b"EVALSHA") && command.iter().any(is_key)
    };
    let mut scripts = seen.into_iter().filter(of_queue);
    match (scripts.next(), scripts.next(), scripts.next()) {
        (Some(join), Some(leave), None) => Ok((join, leave)),
        _ => Err("a mutex has not sent one script to acquire and one to release".into()),
    }
}

/// The requests of our mutex. The join is sent as it was recorded, and the leave with the sequence
/// number of the join's answer.
struct Same {
    connection: MultiplexedConnection,
    join: Cmd,
    leave: Words,
    // Where the leave names the sequence number.
    sequence: usize,
}

impl Same {
    async fn open(target: &Target, connection: MultiplexedConnection, key: &str) -> Result<Self> {
        let (join, leave) = recorded(target, key).await?;
        // EVALSHA, script, number of keys, keys; then time, shape, id and sequence number.
        let keys: usize = std::str::from_utf8(&leave[2])?.parse()?;
        Ok(Self { connection, join: cmd(&join), leave, sequence: 3 + keys + 3 })
    }
}

fn cmd(words: &Words) -> Cmd {
    let mut cmd = Cmd::new();
    cmd.arg(words);
    cmd
}

#[async_trait]
impl Pair for Same {
    async fn once(&mut self) -> Result<()> {
        let (answer, sequence, _, _, _): (i64, u64, i64, i64, i64) =
            self.join.query_async(&mut self.connection).await?;
        if answer != 1 {
            return Err(format!("the raw join answered {answer}").into());
        }
        self.leave[self.sequence] = sequence.to_string().into_bytes();
        let (there, _, _): (i64, i64, i64) = cmd(&self.leave).query_async(&mut self.connection).await?;
        if there == 1 { Ok(()) } else { Err("the raw node was gone".into()) }
    }
}

struct Plain {
    connection: MultiplexedConnection,
    set: Cmd,
    delete: Cmd,
}

impl Plain {
    async fn open(mut connection: MultiplexedConnection) -> Result<Self> {
        let hash = load(&mut connection, COMPARE_AND_DELETE).await?;
        let (key, value) = (format!("{NAMESPACE}-raw:plain"), NodeId::random().to_string());
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(&value).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
        let mut delete = redis::cmd("EVALSHA");
        delete.arg(hash).arg(1).arg(&key).arg(&value);
        Ok(Self { connection, set, delete })
    }
}

#[async_trait]
impl Pair for Plain {
    async fn once(&mut self) -> Result<()> {
        let set: Option<String> = self.set.query_async(&mut self.connection).await?;
        if set.is_none() {
            return Err("the plain key was there".into());
        }
        let deleted: i64 = self.delete.query_async(&mut self.connection).await?;
        if deleted == 1 { Ok(()) } else { Err("the plain key was gone".into()) }
    }
}
