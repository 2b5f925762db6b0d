use std::collections::HashMap;

use latchwork_core::{Error, ErrorKind, Eviction};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{RedisResult, Value};

use super::command::{by_hash, by_text, reply, sha1};
use super::wait_command::may_wait;
use super::{info, slots};
use crate::config::{Servers, Settings};
use crate::error::{Again, Answer, Failure, from_redis};
use crate::layout::life;
use crate::scripts;

/// The hash tags that are tried to find a slot of the server.
const TAGS: usize = 100_000;

/// `first`: the driver's first connection. Returns the run id, and whether the server evicts locks.
pub(super) async fn handshake(
    connection: &mut MultiplexedConnection,
    settings: &Settings,
    first: bool,
) -> Answer<(Option<String>, Eviction)> {
    set_name(connection, settings).await;
    let info = read_info(connection, first || settings.strict).await?;
    // Before any write, which a replica refuses without a reason.
    let eviction = judge(connection, info.as_deref(), settings, settings.strict).await?;
    load_missing(connection).await.map_err(unsent)?;
    // The answer comes after the server's Subscribe push: from then on no message is lost.
    let subscribed = connection.subscribe(&settings.inbox).await;
    subscribed.map_err(|error| name_forbidden(unsent(error), "SUBSCRIBE"))?;
    match selftest(connection, settings, first).await {
        // An operator reads on a server that refuses writes.
        Err(failure) if settings.operator && failure.error.is_refusal() => {}
        tested => tested?,
    }
    if settings.min_replicas > 0 {
        may_wait(connection).await?;
    }
    Ok((info.as_deref().and_then(info::run_id), eviction))
}

/// A connection for confirmations renews nodes, and receives no messages. Returns the run id.
pub(super) async fn handshake_to_confirm(
    connection: &mut MultiplexedConnection,
    settings: &Settings,
) -> Answer<Option<String>> {
    set_name(connection, settings).await;
    let info = read_info(connection, false).await?;
    judge(connection, info.as_deref(), settings, false).await?;
    load_missing(connection).await.map_err(unsent)?;
    Ok(info.as_deref().and_then(info::run_id))
}

/// By INFO or, if that is forbidden, by the role in the answer to HELLO.
async fn judge(
    connection: &mut MultiplexedConnection,
    info: Option<&str>,
    settings: &Settings,
    strict: bool,
) -> Answer<Eviction> {
    let in_cluster = matches!(settings.servers, Servers::Shard(_));
    let judged =
        info::judge(info, strict, in_cluster).map_err(|error| match info.is_some_and(info::is_replica) {
            true => Failure::replica(error),
            false => Failure::said(error),
        })?;
    if info.is_none() {
        let hello: HashMap<String, Value> =
            redis::cmd("HELLO").query_async(connection).await.map_err(unsent)?;
        let role = hello.get("role").cloned().map(redis::from_redis_value::<String>);
        if matches!(role, Some(Ok(role)) if role != "master") {
            let why = "the server is a replica: connect to the master";
            return Err(Failure::replica(Error::new(ErrorKind::Misconfigured, why)));
        }
    }
    Ok(judged)
}

async fn set_name(connection: &mut MultiplexedConnection, settings: &Settings) {
    let mut name = redis::cmd("CLIENT");
    name.arg("SETNAME").arg(&settings.client_name);
    if let Err(error) = name.exec_async(connection).await {
        tracing::debug!(%error, "the connection has no name");
    }
}

fn unsent(error: redis::RedisError) -> Failure {
    from_redis(error, false)
}

/// `None`: INFO is forbidden. A complete INFO costs the server as much as twenty joins, mostly for its memory
/// section, so a later connection reads two sections. (Redis 6.2 accepts one in a request.)
async fn read_info(connection: &mut MultiplexedConnection, whole: bool) -> Answer<Option<String>> {
    let sections: &[Option<&str>] = if whole { &[None] } else { &[Some("server"), Some("replication")] };
    let mut info = Some(String::new());
    for section in sections {
        match redis::cmd("INFO").arg(section).query_async::<String>(connection).await {
            Ok(text) => info.iter_mut().for_each(|info| info.push_str(&text)),
            Err(error) if error.code() == Some("NOPERM") || is_unknown_command(&error) => info = None,
            Err(error) => return Err(unsent(error)),
        }
    }
    Ok(info)
}

/// Loads the scripts of every hold, so that no join, leave or renewal needs a second trip. Others are sent
/// with their first call.
async fn load_missing(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let mut exists = redis::cmd("SCRIPT");
    exists.arg("EXISTS");
    scripts::LOADED.iter().for_each(|script| {
        exists.arg(sha1(script));
    });
    let known: Vec<bool> = exists.query_async(connection).await?;
    for (script, _) in scripts::LOADED.iter().zip(known).filter(|(_, known)| !known) {
        redis::cmd("SCRIPT").arg("LOAD").arg(script.text()).exec_async(connection).await?;
    }
    Ok(())
}

/// Uses every command of the scripts once. The first connection tests both ways of a call, by hash and by
/// text, a later one only one way, to check keys and channels.
async fn selftest(connection: &mut MultiplexedConnection, settings: &Settings, first: bool) -> Answer<()> {
    let Some(tag) = scratch_tag(connection, settings).await? else { return Ok(()) };
    let call = scripts::selftest(settings.scratch_keys(&tag), &settings.inbox);
    let life = life(settings.remember, settings.ttl).to_string();
    for (how, command) in [("EVALSHA", by_hash(&call, &life)), ("EVAL", by_text(&call, &life))] {
        let answer = connection.req_packed_command(&command).await.and_then(Value::extract_error);
        let answer = match answer.map_err(unsent) {
            // The call of an unknown script is allowed: enough for the test.
            Err(failure) if failure.again == Some(Again::WithText) && how == "EVALSHA" => continue,
            answer => answer.map_err(|failure| name_forbidden(failure, how))?,
        };
        if let Some((command, words)) = scripts::selftested(reply(answer)).map_err(Failure::said)? {
            let error = redis::RedisError::from((redis::ErrorKind::Extension, "self-test", words));
            return Err(name_missing(name_forbidden(unsent(error), &command), &command));
        }
        if !first {
            break;
        }
    }
    Ok(())
}

/// A hash tag whose slot this server has. `None`: it has no slots.
async fn scratch_tag(connection: &mut MultiplexedConnection, settings: &Settings) -> Answer<Option<String>> {
    let client = &settings.scratch.1;
    let Servers::Shard(host) = &settings.servers else { return Ok(Some(client.clone())) };
    let mut question = redis::cmd("CLUSTER");
    let said = question.arg("SLOTS").query_async::<Value>(connection).await;
    let said = said.map_err(|error| name_forbidden(unsent(error), "CLUSTER SLOTS"))?;
    let mut ranges = slots::ranges(reply(said), host).map_err(Failure::said)?;
    ranges.retain(|range| range.master == *host);
    let has = |slot: u16| ranges.iter().any(|range| (range.first..=range.last).contains(&slot));
    if ranges.is_empty() {
        return Ok(None);
    }
    // A server has at least one slot in thousands, except while it is filled or emptied.
    let mut tags = (0..TAGS).map(|number| format!("{client}-{number}"));
    Ok(tags.find(|tag| has(slots::slot_of(tag.as_bytes()))))
}

fn is_unknown_command(error: &redis::RedisError) -> bool {
    error.code() == Some("ERR") && error.detail().is_some_and(|words| words.starts_with("unknown command"))
}

fn name_missing(failure: Failure, command: &str) -> Failure {
    if failure.error.kind() != ErrorKind::Misconfigured {
        return failure;
    }
    let what = format!("locks need {command}, which the server refuses: remove its rename-command");
    Failure { error: Error::new(ErrorKind::Misconfigured, what).because(failure.error), ..failure }
}

fn name_forbidden(failure: Failure, command: &str) -> Failure {
    if failure.error.kind() != ErrorKind::Forbidden {
        return failure;
    }
    let what = format!("{command} (needed on the keys and channels of the namespace)");
    let words = failure.error.to_string();
    Failure { error: Error::forbidden(&what, &words), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_that_was_renamed_away_is_unknown() {
        let is_unknown = |said: &str| {
            let value = redis::parse_redis_value(said.as_bytes()).expect("an error is a value");
            is_unknown_command(&value.extract_error().expect_err("an error"))
        };
        assert!(is_unknown("-ERR unknown command 'INFO', with args beginning with: \r\n"));
        assert!(
            !is_unknown("-ERR syntax error\r\n") && !is_unknown("-NOPERM this user has no permissions\r\n")
        );
    }
}
