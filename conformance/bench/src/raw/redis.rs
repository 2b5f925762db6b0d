use async_trait::async_trait;
use latchwork_core::backend::NodeId;
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, IntoConnectionInfo};

use super::recording::{TTL, Words, cmd, recorded};
use super::{AtOnce, PLAIN, Pair, Result, SAME, SAME_OF_THREE, Subject, THREE, TO_FIVE, TO_THREE, Target};
use crate::target::NAMESPACE;

const COMPARE_AND_DELETE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

pub(crate) fn client(target: &Target) -> Result<Client> {
    let url = format!("redis://{}/{}", target.addr().unwrap_or_default(), target.config.path);
    let server = url.into_connection_info()?;
    let mut login = server.redis_settings().clone();
    if let Some(user) = &target.config.user {
        login = login.set_username(user);
    }
    if let Some(password) = &target.config.password {
        login = login.set_password(password.expose());
    }
    Ok(Client::open(server.set_redis_settings(login))?)
}

pub(super) async fn subjects(target: &Target) -> Result<Vec<Subject>> {
    let connection = client(target)?.get_multiplexed_async_connection().await?;
    let mut three: Vec<Box<dyn Pair>> = Vec::new();
    for key in THREE {
        three.push(Box::new(RedisMutex::open(target, connection.clone(), key).await?));
    }
    let same = RedisMutex::open(target, connection.clone(), "m1").await?;
    let plain = Plain::open(connection).await?;
    Ok(vec![
        Subject { peer: SAME, pair: Box::new(same) },
        Subject { peer: PLAIN, pair: Box::new(plain) },
        Subject { peer: SAME_OF_THREE, pair: Box::new(AtOnce(three)) },
    ])
}

pub(super) async fn at_once(target: &Target, members: usize) -> Result<Subject> {
    let mut pairs: Vec<Box<dyn Pair>> = Vec::new();
    for number in 0..members {
        let connection = client(target)?.get_multiplexed_async_connection().await?;
        pairs.push(Box::new(RedisMutex::open(target, connection, &format!("raw-member-{number}")).await?));
    }
    let peer = if members == 3 { TO_THREE } else { TO_FIVE };
    Ok(Subject { peer, pair: Box::new(AtOnce(pairs)) })
}

async fn load(connection: &mut MultiplexedConnection, code: &str) -> Result<String> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(code).query_async(connection).await?)
}

async fn of_a_mutex(target: &Target, key: &str) -> Result<(Words, Words)> {
    let scripts = recorded(target, key, async |coordinator| {
        Ok(coordinator.mutex(key)?.acquire().await?.release().await.map(drop)?)
    });
    let [join, leave] = <[Words; 2]>::try_from(scripts.await?)
        .map_err(|_| "a mutex has not sent one script to acquire and one to release")?;
    Ok((join, leave))
}

/// Sends the recorded join, and the leave with the sequence number of the join's answer.
struct RedisMutex {
    connection: MultiplexedConnection,
    join: Cmd,
    leave: Words,
    sequence: usize,
}

impl RedisMutex {
    async fn open(target: &Target, connection: MultiplexedConnection, key: &str) -> Result<Self> {
        let (join, leave) = of_a_mutex(target, key).await?;
        // EVALSHA, script, number of keys, keys; then time, shape, id and sequence number.
        let keys: usize = std::str::from_utf8(&leave[2])?.parse()?;
        Ok(Self { connection, join: cmd(&join), leave, sequence: 3 + keys + 3 })
    }
}

#[async_trait]
impl Pair for RedisMutex {
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
