use std::time::{Duration, SystemTime};

use latchwork_core::facts::ClockDifference;
use latchwork_core::{Error, ErrorKind, Result};
use redis::Cmd;

use super::connection::Server;
use crate::scripts::Reply;

const RESOLUTION: Duration = Duration::from_micros(1);

#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) info: Result<String>,
    /// `appendfsync` and `save`.
    pub(crate) settings: Result<(String, String)>,
    pub(crate) clock: Result<ClockDifference>,
}

pub(super) async fn said(server: &Server, within: Duration) -> Said {
    let info = server.ask("INFO", &redis::cmd("INFO"), within).await;
    let settings =
        async { Ok((setting(server, "appendfsync", within).await?, setting(server, "save", within).await?)) };
    Said {
        info: info.and_then(|reply| text(reply).ok_or_else(|| malformed("INFO"))),
        settings: settings.await,
        clock: ClockDifference::measured(RESOLUTION, || time(server, within)).await,
    }
}

/// Redis 6.2 accepts one name in a request.
async fn setting(server: &Server, name: &str, within: Duration) -> Result<String> {
    let mut command = Cmd::new();
    command.arg("CONFIG").arg("GET").arg(name);
    let Reply::List(mut words) = server.ask("CONFIG GET", &command, within).await? else {
        return Err(malformed("CONFIG GET"));
    };
    words.pop().and_then(text).ok_or_else(|| malformed("CONFIG GET"))
}

async fn time(server: &Server, within: Duration) -> Result<SystemTime> {
    let Reply::List(parts) = server.ask("TIME", &redis::cmd("TIME"), within).await? else {
        return Err(malformed("TIME"));
    };
    let mut parts = parts.into_iter().map(|part| text(part)?.parse::<u64>().ok());
    let mut part = || parts.next().flatten().ok_or_else(|| malformed("TIME"));
    let since = Duration::from_secs(part()?).checked_add(Duration::from_micros(part()?));
    since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since)).ok_or_else(|| malformed("TIME"))
}

fn text(reply: Reply) -> Option<String> {
    match reply {
        Reply::Text(text) => String::from_utf8(text).ok(),
        _ => None,
    }
}

fn malformed(question: &str) -> Error {
    Error::new(ErrorKind::Misconfigured, format!("the server's answer to {question} is not valid"))
}
