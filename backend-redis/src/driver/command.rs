use latchwork_core::{Error, ErrorKind, Result};
use redis::{Cmd, Value};

use crate::scripts::{Call, Reply, Script};

/// `life` is the last argument of every script.
pub(crate) fn by_hash(call: &Call, life: &str) -> Cmd {
    invocation("EVALSHA", sha1(call.script), call, life)
}

pub(crate) fn by_text(call: &Call, life: &str) -> Cmd {
    invocation("EVAL", call.script.text(), call, life)
}

pub(crate) fn by_pattern(cursor: u64, pattern: &str, count: usize) -> Cmd {
    let mut command = Cmd::new();
    command.arg("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
    command
}

pub(crate) fn scanned(reply: Reply) -> Result<(u64, Vec<Vec<u8>>)> {
    let malformed = || Error::new(ErrorKind::Misconfigured, "the server's answer to SCAN is not valid");
    let Reply::List(parts) = reply else { return Err(malformed()) };
    let Ok([Reply::Text(cursor), Reply::List(keys)]) = <[Reply; 2]>::try_from(parts) else {
        return Err(malformed());
    };
    let cursor = std::str::from_utf8(&cursor).ok().and_then(|cursor| cursor.parse().ok());
    let keys = keys.into_iter().filter_map(|key| if let Reply::Text(key) = key { Some(key) } else { None });
    Ok((cursor.ok_or_else(malformed)?, keys.collect()))
}

fn invocation(how: &str, script: &str, Call { keys, args, .. }: &Call, life: &str) -> Cmd {
    let mut command =
        Cmd::with_capacity(4 + keys.len() + args.len(), script.len() + keys.size() + args.size() + 32);
    command.arg(how).arg(script).arg(keys.len());
    keys.iter().chain(args.iter()).for_each(|word| {
        command.arg(word);
    });
    command.arg(life);
    command
}

pub(crate) fn sha1(script: &'static Script) -> &'static str {
    script.hash.get_or_init(|| redis::Script::new(script.text()).get_hash().to_owned())
}

pub(crate) fn reply(value: Value) -> Reply {
    match value {
        Value::Int(value) => Reply::Int(value),
        Value::BulkString(text) => Reply::Text(text),
        Value::VerbatimString { text, .. } => Reply::Text(text.into_bytes()),
        Value::Map(pairs) => {
            Reply::List(pairs.into_iter().flat_map(|(name, value)| [reply(name), reply(value)]).collect())
        }
        Value::SimpleString(text) => Reply::Text(text.into_bytes()),
        Value::Okay => Reply::Text(b"OK".to_vec()),
        Value::Array(values) => Reply::List(values.into_iter().map(reply).collect()),
        _ => Reply::Nil,
    }
}
