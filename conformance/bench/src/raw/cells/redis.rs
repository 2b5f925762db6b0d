use async_trait::async_trait;
use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{Cmd, FromRedisValue};

use super::super::recording::{Words, cmd, recorded};
use super::super::redis::client;
use super::{Hear, Pair, Result, Target, Write};
use crate::target::NAMESPACE;

const CELL: usize = 3;
const VALUE: usize = 7;
/// In a change of a count: its number, the next number, and the most writes at which a missing record is a
/// proof.
const NUMBER: usize = 8;
const FENCE: usize = 9;
const UNTIL: usize = 10;
const NONCE: usize = 13;
/// Other writers before a record is replaced.
const WRITERS: u64 = 48;

pub(super) async fn writing(target: &Target, key: &str, write: Write) -> Result<Box<dyn Pair>> {
    let mut sent = recorded(target, key, async |coordinator| {
        match write {
            Write::OnVersion => drop(coordinator.counter(key)?.add(1).await?),
            Write::Anyhow => drop(coordinator.shared_value(key)?.write("raw").await?),
        }
        Ok(())
    })
    .await?;
    let last = sent.pop().filter(|words| words.len() > VALUE).ok_or("a cell was written without a script")?;
    let connection = client(target)?.get_multiplexed_async_connection().await?;
    Ok(match write {
        Write::OnVersion if last.len() <= NONCE => return Err("a count was changed otherwise".into()),
        Write::OnVersion => Box::new(Counting { connection, change: last, number: 2 }),
        Write::Anyhow => Box::new(Repeated { connection, command: cmd(&last), check: is_written }),
    })
}

struct Repeated<A> {
    connection: MultiplexedConnection,
    command: Cmd,
    check: fn(A) -> Result<()>,
}

#[async_trait]
impl<A: FromRedisValue + Send> Pair for Repeated<A> {
    async fn once(&mut self) -> Result<()> {
        (self.check)(self.command.query_async(&mut self.connection).await?)
    }
}

fn is_written((answer, _, _): (i64, i64, String)) -> Result<()> {
    if answer == 1 { Ok(()) } else { Err(format!("the raw write of a cell answered {answer}").into()) }
}

struct Counting {
    connection: MultiplexedConnection,
    change: Words,
    number: u64,
}

#[async_trait]
impl Pair for Counting {
    async fn once(&mut self) -> Result<()> {
        self.number += 2;
        self.change[NUMBER] = self.number.to_string().into_bytes();
        self.change[FENCE] = (self.number + 1).to_string().into_bytes();
        self.change[NONCE] = format!("{:x}", self.number).into_bytes();
        let (answer, _, writes, _): (i64, i64, u64, i64) =
            cmd(&self.change).query_async(&mut self.connection).await?;
        if answer != 1 {
            return Err(format!("the raw change of a count answered {answer}").into());
        }
        self.change[UNTIL] = (writes + WRITERS).to_string().into_bytes();
        Ok(())
    }
}

pub(super) async fn incrementing(target: &Target) -> Result<Box<dyn Pair>> {
    let mut command = redis::cmd("INCRBY");
    command.arg(format!("{NAMESPACE}-raw:incremented")).arg(1);
    let connection = client(target)?.get_multiplexed_async_connection().await?;
    Ok(Box::new(Repeated { connection, command, check: |_: i64| Ok(()) }))
}

pub(super) async fn watching(target: &Target, key: &str, write: Write) -> Result<Box<dyn Hear>> {
    let sent = recorded(target, key, async |coordinator| {
        // Each recipe has other cells.
        match write {
            Write::OnVersion => drop(coordinator.counter(key)?.get().await?),
            Write::Anyhow => drop(coordinator.shared_value(key)?.read().await?),
        }
        Ok(())
    });
    let read = sent.await?.pop().filter(|words| words.len() <= VALUE).ok_or("a cell was read otherwise")?;
    let client = client(target)?;
    let mut events = client.get_async_pubsub().await?;
    events.subscribe(&read[CELL]).await?;
    let connection = client.get_multiplexed_async_connection().await?;
    Ok(Box::new(RedisWatcher { events, connection, read: cmd(&read) }))
}

struct RedisWatcher {
    events: PubSub,
    connection: MultiplexedConnection,
    read: Cmd,
}

#[async_trait]
impl Hear for RedisWatcher {
    async fn hear(&mut self, _round: u64) -> Result<()> {
        self.events.on_message().next().await.ok_or("the subscription has ended")?;
        let _: (String, Vec<u8>) = self.read.query_async(&mut self.connection).await?;
        Ok(())
    }
}
