//! A proxy records the commands of a Latchwork client to Redis, so that they can be sent raw.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use latchwork_core::{Coordinator, connect};
use latchwork_servers::proxy::Proxy;
use redis::{Cmd, Parser};

use super::{Result, Target};
use crate::target::NAMESPACE;

pub(super) const TTL: Duration = Duration::from_secs(30);

pub(super) type Words = Vec<Vec<u8>>;

pub(super) async fn recorded<W>(target: &Target, key: &str, work: W) -> Result<Vec<Words>>
where
    W: AsyncFnOnce(&Coordinator) -> Result<()>,
{
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
    work(&coordinator).await?;
    coordinator.close().await?;
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    let tag = format!("{{{key}}}");
    let of_key = |command: &Words| {
        let names = |word: &Vec<u8>| word.windows(tag.len()).any(|part| part == tag.as_bytes());
        command.first().is_some_and(|name| name == b"EVALSHA") && command.iter().any(names)
    };
    Ok(seen.into_iter().filter(of_key).collect())
}

pub(super) fn cmd(words: &Words) -> Cmd {
    let mut cmd = Cmd::new();
    cmd.arg(words);
    cmd
}

/// Commands are encoded like answers.
fn commands(mut bytes: &[u8]) -> Vec<Words> {
    let mut parser = Parser::new();
    std::iter::from_fn(|| redis::from_redis_value(parser.parse_value(&mut bytes).ok()?).ok()).collect()
}
