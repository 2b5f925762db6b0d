//! Where the master of a service is: what its Sentinels say.
//!
//! They are asked at every dial, the one that answered last before the others, and the first that
//! names a master is believed. A Sentinel may be behind: whether the server that it names *is* the
//! master, that server says itself (see `info`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use latchwork_core::{Error, ErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, Value};
use tokio::time::timeout;

use super::open::{connect, login, within};
use crate::config::{Host, Sentinels, share_of};
use crate::error::{Failure, from_redis, timed_out};

type Result<T> = std::result::Result<T, Failure>;

/// The master that the first Sentinel names which knows one. All of it takes `bound` at most.
pub(super) async fn master(sentinels: &Sentinels, bound: Duration) -> Result<Host> {
    first_answer(sentinels, bound, None).await.map(|(_, master)| master)
}

/// A connection to the first Sentinel that answers and knows a master, which hears of a new one,
/// and the master that it names.
pub(super) async fn listen(
    sentinels: &Sentinels,
    bound: Duration,
    on_push: OnPush,
) -> Result<(MultiplexedConnection, Host)> {
    first_answer(sentinels, bound, Some(on_push)).await
}

/// Receives what a Sentinel says unasked, on the connection's task.
pub(super) type OnPush = Arc<dyn Fn(PushInfo) + Send + Sync>;

/// The channel on which a Sentinel says that a service has another master.
pub(super) const SWITCH: &str = "+switch-master";

/// The new master that a message on [`SWITCH`] names, if it is about this service.
pub(super) fn switched(message: &[u8], service: &str) -> Option<Host> {
    let text = std::str::from_utf8(message).ok()?;
    let mut words = text.strip_prefix(service)?.strip_prefix(' ')?.split(' ').skip(2);
    let (name, port) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    words.next().is_none().then_some(Host { name, port })
}

/// Asks one Sentinel after the other. Each has its part of the time, so that one that is silent
/// does not take that of the others.
async fn first_answer(
    sentinels: &Sentinels,
    bound: Duration,
    on_push: Option<OnPush>,
) -> Result<(MultiplexedConnection, Host)> {
    let (hosts, first) = (&sentinels.hosts, sentinels.first.load(Ordering::Relaxed));
    let each = share_of(bound, hosts);
    let mut refused: Option<Failure> = None;
    for place in 0..hosts.len() {
        let place = (first + place) % hosts.len();
        let answer = timeout(each, ask(sentinels, &hosts[place], each, on_push.clone())).await;
        let failure = match answer.unwrap_or_else(|_| Err(explain(timed_out(), &hosts[place]))) {
            Ok(answer) => {
                sentinels.first.store(place, Ordering::Relaxed);
                return Ok(answer);
            }
            Err(failure) => failure,
        };
        tracing::debug!(sentinel = %hosts[place], error = %failure.error, "no master from this Sentinel");
        refused = Some(failure.or_more_telling(refused));
    }
    match refused {
        Some(failure) if failure.answered => Err(failure),
        silent => {
            let what = format!("no Sentinel answers of {sentinels}");
            let error = Error::new(ErrorKind::Unavailable, what);
            let error = error.because_of(silent.map(|failure| failure.error));
            Err(Failure { answered: false, ..Failure::said(error) })
        }
    }
}

async fn ask(
    sentinels: &Sentinels,
    sentinel: &Host,
    bound: Duration,
    on_push: Option<OnPush>,
) -> Result<(MultiplexedConnection, Host)> {
    let mut config = within(bound);
    let listens = on_push.is_some();
    if let Some(on_push) = on_push {
        config = config.set_push_sender(move |push| {
            on_push(push);
            Ok::<_, std::convert::Infallible>(())
        });
    }
    // The listener and a dial may ask at one time.
    let transport = sentinels.transport.apart();
    let failed = |error| explain(from_redis(error, false).secured_by(&transport), sentinel);
    let login = login(sentinels.login.clone(), 0);
    let connecting = connect(sentinel, &login, &transport, config).await;
    let mut connection = connecting.map_err(failed)?;
    if listens {
        // Before the question: a change behind its answer is heard.
        connection.subscribe(SWITCH).await.map_err(failed)?;
    }
    let service = &sentinels.service;
    let misconfigured = |what: &str| {
        let what = format!("the Sentinel at {sentinel} {what} {service:?}");
        Failure::said(Error::new(ErrorKind::Misconfigured, what))
    };
    let said = asked_for(&mut connection, service).await.map_err(failed)?;
    match master_in(said) {
        Ok(Some(master)) => Ok((connection, master)),
        Ok(None) => Err(misconfigured("watches no service")),
        Err(_) => Err(misconfigured("names no host and port of")),
    }
}

/// The master that a Sentinel names on this connection; `None` if it watches no such service.
pub(super) async fn named(
    connection: &mut MultiplexedConnection,
    service: &str,
) -> redis::RedisResult<Option<Host>> {
    Ok(master_in(asked_for(connection, service).await?)?)
}

async fn asked_for(connection: &mut MultiplexedConnection, service: &str) -> redis::RedisResult<Value> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
    question.query_async::<Value>(connection).await
}

fn master_in(said: Value) -> std::result::Result<Option<Host>, redis::ParsingError> {
    let named = redis::from_redis_value::<Option<(String, u16)>>(said)?;
    Ok(named.map(|(name, port)| Host { name, port }))
}

/// The failure of a Sentinel, which it names.
fn explain(failure: Failure, sentinel: &Host) -> Failure {
    let words = failure.error.to_string();
    let what = format!("the Sentinel at {sentinel}");
    let error = match failure.error.kind() {
        ErrorKind::Forbidden { .. } => {
            let asked = if failure.redial { "to log in at" } else { "SENTINEL or SUBSCRIBE at" };
            Error::new(ErrorKind::Forbidden { what: format!("{asked} {what}") }, words)
        }
        _ if failure.answered && words.contains("unknown command") => {
            let saw = format!("a server at {sentinel} that is no Sentinel");
            Error::new(ErrorKind::WrongServer { expected: "Redis Sentinel", saw }, "")
        }
        ErrorKind::Unknown => Error::new(ErrorKind::Unavailable, what),
        kind => Error::new(kind.clone(), what),
    };
    Failure { error: error.because(failure.error), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_of_this_service_names_the_new_master() {
        let host = |name: &str, port| Some(Host { name: name.to_owned(), port });
        for (message, expected) in [
            ("cache 10.0.0.1 6379 10.0.0.2 6380", host("10.0.0.2", 6380)),
            ("cache ::1 6379 ::2 6380", host("::2", 6380)),
            ("cache2 10.0.0.1 6379 10.0.0.2 6380", None),
            ("cache 10.0.0.1 6379 10.0.0.2", None),
            ("cache 10.0.0.1 6379 10.0.0.2 port", None),
            ("cache 10.0.0.1 6379 10.0.0.2 6380 more", None),
            ("", None),
        ] {
            assert_eq!(switched(message.as_bytes(), "cache"), expected, "{message}");
        }
    }
}
