//! Reads the map of a cluster: at the start from the first host that answers, later from most masters,
//! because a master that is cut off has an old map.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt};
use latchwork_core::backend::decide::renewal_period;
use latchwork_core::backend::{Backoff, Pauses};
use latchwork_core::{Error, ErrorKind, Eviction, Result, seen};
use redis::Cmd;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use super::cluster::Cluster;
use super::command::reply;
use super::connection::Server;
use super::dial::{Setup, reach};
use super::open::within;
use super::slots::{Range, SLOTS, ranges};
use crate::config::{Host, NAME, Settings, share_of};
use crate::error::{Answer, Failure, from_redis};
use crate::scripts::Reply;

const CALM: Duration = Duration::from_secs(10);
/// Requests within this time share one answer.
const TOGETHER: Duration = Duration::from_millis(20);

/// Also returns the hosts whose connections are lost from then on, and whether a server evicts locks.
pub(super) async fn connect(
    setup: Setup,
    seeds: Arc<[Host]>,
) -> Answer<(Arc<Cluster>, mpsc::UnboundedReceiver<Arc<Host>>, Eviction)> {
    let settings = &setup.settings;
    let bound = settings.request_timeout.min(settings.connect_timeout / 2);
    let known = first_map(settings, &seeds, bound).await?;
    let masters = masters_of(&known);
    let dialling = masters.iter().map(|master| Server::connect(setup.of_shard(master)));
    let dialled = join_all(dialling).await;
    let (cluster, losses) = Cluster::new(setup);
    let (mut eviction, mut up, mut refused) = (Eviction::Never, 0, None);
    for (master, dialled) in masters.iter().zip(dialled) {
        match dialled {
            Ok((server, evicts)) => {
                up += 1;
                eviction = worse(eviction, evicts);
                cluster.watch_over(master, &server);
                cluster.map.send_modify(|map| {
                    map.server_or(master, || Arc::new(server));
                });
            }
            // A shard that is down does not prevent the use of the others.
            Err(failure) if failure.is_replica || failure.error.kind() == ErrorKind::Unavailable => {
                seen::shard_down(NAME, &master.to_string(), &failure.error);
                refused = Some(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    if let (0, Some(failure)) = (up, refused) {
        return Err(failure);
    }
    cluster.apply(&known, true);
    let cluster = Arc::new(cluster);
    tokio::spawn(keep_fresh(Arc::downgrade(&cluster), Arc::clone(&cluster.stale), seeds));
    Ok((cluster, losses, eviction))
}

pub(super) async fn masters(settings: &Settings, seeds: &[Host]) -> Answer<Vec<Host>> {
    let bound = settings.request_timeout.min(settings.connect_timeout / 2);
    Ok(masters_of(&first_map(settings, seeds, bound).await?))
}

fn masters_of(known: &[Range]) -> Vec<Host> {
    let mut masters: Vec<_> = known.iter().map(|range| range.master.clone()).collect();
    masters.sort_unstable();
    masters.dedup();
    masters
}

fn worse(one: Eviction, other: Eviction) -> Eviction {
    match (one, other) {
        (Eviction::Possible, _) | (_, Eviction::Possible) => Eviction::Possible,
        (Eviction::Unknown, _) | (_, Eviction::Unknown) => Eviction::Unknown,
        _ => Eviction::Never,
    }
}

async fn first_map(settings: &Settings, seeds: &[Host], bound: Duration) -> Answer<Vec<Range>> {
    let each = share_of(bound, seeds);
    let mut refused = None;
    for seed in seeds {
        match asked(settings, seed, each).await {
            Ok(ranges) => return Ok(ranges),
            Err(failure) => {
                tracing::debug!(%seed, error = %failure.error, "this host returned no slot map");
                refused = Some(failure.or_more_telling(refused));
            }
        }
    }
    let none = || Failure::said(Error::new(ErrorKind::Unavailable, "no host of the cluster is known"));
    Err(refused.unwrap_or_else(none))
}

async fn asked(settings: &Settings, host: &Host, bound: Duration) -> Answer<Vec<Range>> {
    let (_, mut connection) = reach(&settings.of_shard(host.clone()), within(bound), bound).await?;
    let said = question().query_async(&mut connection).await.map_err(|error| {
        let failure = from_redis(error, false);
        let words = failure.error.to_string();
        let error = match failure.error.kind() {
            ErrorKind::Forbidden => Error::forbidden("CLUSTER SLOTS", &words),
            _ if words.contains("cluster support disabled") => {
                let what =
                    format!("the server at {host} is not in a Redis Cluster: connect with redis://host");
                Error::new(ErrorKind::Misconfigured, what)
            }
            _ => return failure,
        };
        Failure { error, ..failure }
    })?;
    whole(reply(said), host).map_err(Failure::said)
}

/// A server that was emptied, or has left the cluster, does not know all slots.
fn whole(said: Reply, host: &Host) -> Result<Vec<Range>> {
    let mut known = ranges(said, host)?;
    // Servers list ranges in different orders.
    known.sort_unstable_by_key(|range| range.first);
    let covered: usize = known.iter().map(|range| usize::from(range.last - range.first) + 1).sum();
    if covered < SLOTS {
        let what = format!("{host} knows masters for {covered} of {SLOTS} slots only");
        return Err(Error::new(ErrorKind::Unavailable, what));
    }
    Ok(known)
}

fn question() -> Cmd {
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    question
}

async fn keep_fresh(cluster: Weak<Cluster>, stale: Arc<Notify>, seeds: Arc<[Host]>) {
    let mut pauses = Backoff::new(Pauses::FAILOVER);
    let is_down = |cluster: Arc<Cluster>| {
        let closed = cluster.map.borrow().closed;
        (!closed).then(|| cluster.servers().iter().any(|server| !server.is_up()))
    };
    while let Some(down) = cluster.upgrade().and_then(is_down) {
        if !down {
            pauses.reset();
        }
        drop(timeout(if down { pauses.next() } else { CALM }, stale.notified()).await);
        let Some(cluster) = cluster.upgrade() else { return };
        match fresh(&cluster, &seeds).await {
            Ok(known) => cluster.apply(&known, true),
            Err(error) => tracing::debug!(%error, "no server returned a slot map"),
        }
        tokio::time::sleep(TOGETHER).await;
    }
}

/// Asks most servers, otherwise the configured hosts.
async fn fresh(cluster: &Cluster, seeds: &[Host]) -> Result<Vec<Range>> {
    let bound = cluster.setup.settings.request_timeout.min(renewal_period(cluster.setup.settings.ttl)) / 2;
    let servers: Vec<_> =
        cluster.map.borrow().hosts().into_iter().filter(|(_, server)| server.is_up()).collect();
    let asked: FuturesUnordered<_> = servers
        .iter()
        .map(async |(host, server)| {
            let said = server.ask("CLUSTER SLOTS", &question(), bound).await;
            said.and_then(|said| whole(said, host))
        })
        .collect();
    match agreed(servers.len(), asked).await {
        Ok(known) => Ok(known),
        Err(why) => {
            let first = first_map(&cluster.setup.settings, seeds, bound).await;
            first.map_err(|failure| failure.error.because_of(why))
        }
    }
}

/// The answer of more than half of the `asked` servers, otherwise the earliest of the most frequent answers;
/// if all fail, the last error.
async fn agreed<T: PartialEq>(
    asked: usize,
    mut answers: impl Stream<Item = Result<T>> + Unpin,
) -> std::result::Result<T, Option<Error>> {
    let (mut said, mut why): (Vec<(T, usize)>, _) = (Vec::new(), None);
    while let Some(answer) = answers.next().await {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                why = Some(error);
                continue;
            }
        };
        let at = said.iter().position(|(known, _)| *known == answer).unwrap_or_else(|| {
            said.push((answer, 0));
            said.len() - 1
        });
        said[at].1 += 1;
        if 2 * said[at].1 > asked {
            return Ok(said.swap_remove(at).0);
        }
    }
    // `max_by_key` returns the last of equal elements.
    said.into_iter().rev().max_by_key(|(_, times)| *times).map(|(answer, _)| answer).ok_or(why)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn unavailable() -> Result<char> {
        Err(Error::new(ErrorKind::Unavailable, "silent"))
    }

    async fn of(asked: usize, answers: &str) -> std::result::Result<char, Option<Error>> {
        let answers = answers.chars().map(|said| if said == '-' { unavailable() } else { Ok(said) });
        agreed(asked, stream::iter(answers.collect::<Vec<_>>())).await
    }

    #[tokio::test]
    async fn what_most_say_is_believed_though_one_that_is_cut_off_answers_first() {
        for (asked, answers, most) in [
            (1, "a", 'a'),
            (3, "abb", 'b'),
            (3, "-ab", 'a'),
            (4, "abab", 'a'),
            (5, "abbcc", 'b'),
            (5, "acbbb", 'b'),
        ] {
            assert_eq!(of(asked, answers).await.expect("some answer"), most, "{answers}");
        }
        let why = of(2, "--").await.expect_err("nobody answers");
        assert_eq!(why.expect("an error").kind(), ErrorKind::Unavailable);
        assert!(of(0, "").await.expect_err("nobody is asked").is_none());
    }

    #[tokio::test]
    async fn a_server_that_is_silent_is_not_waited_for_where_most_agree() {
        let answers = stream::iter([Ok('a'), Ok('a')]).chain(stream::pending());
        assert_eq!(agreed(3, answers).await.expect("most have answered"), 'a');
    }

    fn said(masters: &[(i64, i64, &str)]) -> Reply {
        let range = |(first, last, name): &(i64, i64, &str)| {
            let master = Reply::List(vec![Reply::Text((*name).into()), Reply::Int(7)]);
            Reply::List(vec![Reply::Int(*first), Reply::Int(*last), master])
        };
        Reply::List(masters.iter().map(range).collect())
    }

    #[test]
    fn incomplete_slot_map_is_refused_and_range_order_ignored() {
        let host = Host { name: "h".to_owned(), port: 1 };
        let (a, b, c) = ((0, 5_460, "a"), (5_461, 10_921, "b"), (10_922, 16_383, "c"));
        for (said, covered) in [
            (said(&[]), 0),
            (said(&[a, c]), 10_923),
            (said(&[(0, 16_382, "a")]), 16_383),
            (said(&[(1, 16_383, "a")]), 16_383),
        ] {
            let error = whole(said, &host).expect_err("slots are missing");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            let words = format!("h:1 knows masters for {covered} of 16384 slots");
            assert!(error.to_string().contains(&words), "{error}");
        }
        let known = whole(said(&[a, b, c]), &host).expect("all slots");
        let masters: Vec<_> = known.iter().map(|range| range.master.name.as_str()).collect();
        assert_eq!(masters, ["a", "b", "c"]);
        assert_eq!(whole(said(&[c, a, b]), &host).expect("all slots"), known);
    }
}
