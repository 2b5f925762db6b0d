//! Finds the master of a service by its Sentinels (`docs/protocol/redis-sentinel.md`).

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use latchwork_core::{Error, ErrorKind};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ParsingError, PushInfo, RedisResult, Value};
use tokio::time::{Instant, timeout, timeout_at};

use super::open::{connect, login, within};
use crate::config::{Host, Sentinels, share_of};
use crate::error::{Answer, Failure, from_redis, timed_out};

/// How long a Sentinel may name a replaced master. Sentinels exchange their knowledge every 2 s.
const BEHIND: Duration = Duration::from_secs(10);
/// The time of the other Sentinels after the first answer.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) async fn master(sentinels: &Sentinels, bound: Duration) -> Answer<Host> {
    let hosts = &sentinels.hosts;
    let each = share_of(bound, hosts);
    let mut asking: FuturesUnordered<_> = (0..hosts.len())
        .map(|place| async move { (place, ask(sentinels, place, each, None).await) })
        .collect();
    let mut votes = vec![None; hosts.len()];
    let mut refusals: Vec<_> = hosts.iter().map(|_| None).collect();
    let mut until = Instant::now() + each;
    while let Ok(Some((place, answer))) = timeout_at(until, asking.next()).await {
        match answer {
            Ok((_, master)) => {
                votes[place] = Some(master);
                // A silent Sentinel must not delay the client.
                until = until.min(Instant::now() + PATIENCE);
            }
            Err(failure) => {
                tracing::debug!(sentinel = %hosts[place], error = %failure.error, "no master from this Sentinel");
                refusals[place] = Some(failure);
            }
        }
        if let Some(master) = named_by_most(&votes, &sentinels.replaced.lately()) {
            return Ok(master.clone());
        }
    }
    if let Some(master) = named_by_some(&votes, &sentinels.replaced.lately()) {
        return Ok(master.clone());
    }
    let refused = refusals.into_iter().flatten().reduce(|told, failure| failure.or_more_telling(Some(told)));
    match refused {
        Some(failure) if failure.answered => Err(failure),
        silent => {
            let what = format!("no Sentinel answers at {sentinels}");
            let error = Error::new(ErrorKind::Unavailable, what);
            let error = error.because_of(silent.map(|failure| failure.error));
            Err(Failure { answered: false, ..Failure::said(error) })
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Replaced(Mutex<Vec<(Host, Instant)>>);

impl Replaced {
    pub(super) fn heard(&self, old: Host, new: &Host) {
        let mut replaced = self.0.lock();
        replaced.retain(|(host, at)| host != new && *host != old && at.elapsed() < BEHIND);
        replaced.push((old, Instant::now()));
    }

    pub(super) fn lately(&self) -> Vec<Host> {
        let replaced = self.0.lock();
        replaced.iter().filter(|(_, at)| at.elapsed() < BEHIND).map(|(host, _)| host.clone()).collect()
    }
}

/// More than half of all Sentinels must name it, and it must not be a replaced host.
pub(super) fn named_by_most<'a>(votes: &'a [Option<Host>], replaced: &[Host]) -> Option<&'a Host> {
    let master = named_by_some(votes, replaced)?;
    let for_it = votes.iter().flatten().filter(|vote| *vote == master).count();
    (for_it * 2 > votes.len() && !replaced.contains(master)).then_some(master)
}

fn named_by_some<'a>(votes: &'a [Option<Host>], replaced: &[Host]) -> Option<&'a Host> {
    let votes = || votes.iter().flatten();
    let backed = |master: &Host| votes().filter(|vote| *vote == master).count();
    let first_of_most = |masters: Vec<&'a Host>| {
        let most = masters.iter().map(|master| backed(master)).max()?;
        masters.into_iter().find(|master| backed(master) == most)
    };
    first_of_most(votes().filter(|vote| !replaced.contains(*vote)).collect())
        .or_else(|| first_of_most(votes().collect()))
}

/// It runs on the connection's task.
pub(super) type OnPush = Arc<dyn Fn(PushInfo) + Send + Sync>;

pub(super) const SWITCH: &str = "+switch-master";

/// The replaced master and the new one, if the message is about this service.
pub(super) fn switched(message: &[u8], service: &str) -> Option<[Host; 2]> {
    let text = std::str::from_utf8(message).ok()?;
    let mut words = text.strip_prefix(service)?.strip_prefix(' ')?.split(' ');
    let mut host = || Some(Host { name: words.next()?.to_owned(), port: words.next()?.parse().ok()? });
    let named = [host()?, host()?];
    words.next().is_none().then_some(named)
}

/// `on_push` receives changes from before the question on. All of it takes at most `bound`.
pub(super) async fn ask(
    sentinels: &Sentinels,
    place: usize,
    bound: Duration,
    on_push: Option<OnPush>,
) -> Answer<(MultiplexedConnection, Host)> {
    let sentinel = &sentinels.hosts[place];
    let answer = timeout(bound, ask_at(sentinels, sentinel, within(bound), on_push)).await;
    answer.unwrap_or_else(|_| Err(explain(timed_out(), sentinel)))
}

async fn ask_at(
    sentinels: &Sentinels,
    sentinel: &Host,
    mut config: AsyncConnectionConfig,
    on_push: Option<OnPush>,
) -> Answer<(MultiplexedConnection, Host)> {
    let listens = on_push.is_some();
    if let Some(on_push) = on_push {
        config = config.set_push_sender(move |push| {
            on_push(push);
            Ok::<_, std::convert::Infallible>(())
        });
    }
    // The listener and a dial may ask at the same time.
    let transport = sentinels.transport.apart();
    let failed = |error| explain(from_redis(error, false).secured_by(&transport), sentinel);
    let login = login(sentinels.login.clone(), 0);
    let connecting = connect(sentinel, &login, &transport, config).await;
    let mut connection = connecting.map_err(failed)?;
    if listens {
        // Before the question, so that no change is missed.
        connection.subscribe(SWITCH).await.map_err(failed)?;
    }
    let service = &sentinels.service;
    let misconfigured = |what: &str| {
        let what = format!("the Sentinel at {sentinel} {what} {service:?}");
        Failure::said(Error::new(ErrorKind::Misconfigured, what))
    };
    match named(&mut connection, service).await.map_err(failed)? {
        Ok(Some(master)) => Ok((connection, master)),
        Ok(None) => Err(misconfigured("watches no service")),
        Err(_) => Err(misconfigured("reports no valid host and port for the service")),
    }
}

/// `None`: the Sentinel watches no such service.
pub(super) async fn named(
    connection: &mut MultiplexedConnection,
    service: &str,
) -> RedisResult<std::result::Result<Option<Host>, ParsingError>> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
    let said = question.query_async::<Value>(connection).await?;
    let named = redis::from_redis_value::<Option<(String, u16)>>(said);
    Ok(named.map(|named| named.map(|(name, port)| Host { name, port })))
}

fn explain(failure: Failure, sentinel: &Host) -> Failure {
    let words = failure.error.to_string();
    let what = format!("the Sentinel at {sentinel}");
    let error = match failure.error.kind() {
        ErrorKind::Forbidden => {
            let asked = if failure.redial { "log in at" } else { "SENTINEL or SUBSCRIBE at" };
            Error::forbidden(&format!("{asked} {what}"), &words)
        }
        _ if failure.answered && words.contains("unknown command") => {
            let saw = format!("a server at {sentinel} that is not a Sentinel");
            Error::wrong_server("Redis Sentinel", &saw, "")
        }
        ErrorKind::OutcomeUnknown => Error::new(ErrorKind::Unavailable, what),
        kind => Error::new(kind, what),
    };
    Failure { error: error.because(failure.error), ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_of_this_service_names_the_new_master() {
        let host = |name: &str, port| Host { name: name.to_owned(), port };
        for (message, expected) in [
            ("cache 10.0.0.1 6379 10.0.0.2 6380", Some([host("10.0.0.1", 6379), host("10.0.0.2", 6380)])),
            ("cache ::1 6379 ::2 6380", Some([host("::1", 6379), host("::2", 6380)])),
            ("cache2 10.0.0.1 6379 10.0.0.2 6380", None),
            ("cache 10.0.0.1 6379 10.0.0.2", None),
            ("cache 10.0.0.1 6379 10.0.0.2 port", None),
            ("cache 10.0.0.1 6379 10.0.0.2 6380 more", None),
            ("", None),
        ] {
            assert_eq!(switched(message.as_bytes(), "cache"), expected, "{message}");
        }
    }

    /// `-`: no answer.
    fn votes(said: &str) -> Vec<Option<Host>> {
        said.chars().map(|name| (name != '-').then(|| host(name))).collect()
    }

    fn host(name: char) -> Host {
        Host { name: name.to_string(), port: 6379 }
    }

    #[test]
    fn master_is_the_host_that_most_sentinels_name() {
        for (said, replaced, most, some) in [
            // One Sentinel has only an old master.
            ("onn", None, Some('n'), Some('n')),
            ("o-n", None, None, Some('o')),
            ("on", None, None, Some('o')),
            ("o--", None, None, Some('o')),
            ("---", None, None, None),
            ("n", None, Some('n'), Some('n')),
            ("xoonn", None, None, Some('o')),
            // One Sentinel and this client know of a failover.
            ("noo", Some('o'), None, Some('n')),
            ("-oo", Some('o'), None, Some('o')),
            ("nno", Some('o'), Some('n'), Some('n')),
            ("ooo", Some('o'), None, Some('o')),
        ] {
            let (votes, replaced) = (votes(said), Vec::from_iter(replaced.map(host)));
            assert_eq!(named_by_most(&votes, &replaced), most.map(host).as_ref(), "{said}");
            assert_eq!(named_by_some(&votes, &replaced), some.map(host).as_ref(), "{said}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_master_that_was_replaced_counts_again_when_it_leads_again_or_after_a_while() {
        let replaced = Replaced::default();
        replaced.heard(host('a'), &host('b'));
        assert_eq!(replaced.lately(), [host('a')]);
        replaced.heard(host('b'), &host('a'));
        assert_eq!(replaced.lately(), [host('b')], "the way back was heard");
        tokio::time::advance(BEHIND).await;
        assert_eq!(replaced.lately(), [], "the way back was missed");
        assert_eq!(named_by_most(&votes("bba"), &replaced.lately()), Some(&host('b')));
    }
}
