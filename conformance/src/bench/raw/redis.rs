//! Redis: the scripts of a join and a leave; and a plain `SET NX PX` with a compare-and-delete.

use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::{AskedLimit, Join, NodeId, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::{Address, Kind};
use latchwork_redis::bench::{Request, join, leave};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, IntoConnectionInfo};

use super::{PLAIN, Pair, Result, SAME, Subject, Target};
use crate::bench::target::NAMESPACE;

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
    let same = Same::open(connection.clone()).await?;
    let plain = Plain::open(connection).await?;
    Ok(vec![Subject { peer: SAME, pair: Box::new(same) }, Subject { peer: PLAIN, pair: Box::new(plain) }])
}

async fn load(connection: &mut MultiplexedConnection, code: &str) -> Result<String> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(code).query_async(connection).await?)
}

fn command(hash: &str, Request { keys, args, .. }: &Request) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(hash).arg(keys.len()).arg(keys).arg(args);
    command
}

/// The requests of our mutex. The join is made once: only what the server's answer decides is made anew.
struct Same {
    connection: MultiplexedConnection,
    join: Cmd,
    leave: String,
    queue: Address,
    id: NodeId,
}

impl Same {
    async fn open(mut connection: MultiplexedConnection) -> Result<Self> {
        let queue = Address::new(&format!("{NAMESPACE}-raw"), Kind::Mutex, "m1")?;
        let id = NodeId::random();
        let request = join(
            &Join {
                queue: queue.clone(),
                id,
                claim: Claim::Exclusive,
                limit: AskedLimit::Stored,
                label: "raw".into(),
                patience: Patience::Wait,
                repeated: false,
            },
            TTL,
            &format!("{NAMESPACE}-raw:inbox"),
        )?;
        let hash = load(&mut connection, request.code).await?;
        let leave = load(&mut connection, leave(&queue, id, 0, TTL)?.code).await?;
        Ok(Self { join: command(&hash, &request), connection, leave, queue, id })
    }
}

#[async_trait]
impl Pair for Same {
    async fn once(&mut self) -> Result<()> {
        let (answer, sequence, _, _, _): (i64, u64, i64, i64, i64) =
            self.join.query_async(&mut self.connection).await?;
        if answer != 1 {
            return Err(format!("the raw join answered {answer}").into());
        }
        let request = leave(&self.queue, self.id, sequence, TTL)?;
        let (there, _, _): (i64, i64, i64) =
            command(&self.leave, &request).query_async(&mut self.connection).await?;
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
