//! ELECTION-: leaders in processes that are killed.

use std::time::Duration;

use latchwork_core::Token;
use latchwork_core::recipes::{Leader, Watch};
use tokio::time::{Instant, timeout};

use super::election::{election, queue, text};
use super::process::processes;
use crate::bounds::{ANSWER, CLEAN_UP, CONNECT, PATIENCE, QUIET_TTL};
use crate::case::cases;
use crate::child::{Child, Hold, HoldEvent};
use crate::context::Context;
use crate::testbed::Client;
use crate::waits::{until_within, within};

cases! {
    "ELECTION-TERM" =>
    /// a leader process is killed repeatedly: terms rise, and an observer sees each leader and each gap
    async fn process_killed_while_leading(context) {
        kill_leaders(context, 3).await;
    }

    "ELECTION-TERM" alone long =>
    /// the leader process is killed 50 times: terms rise, an observer sees each leader and each gap, and the time of
    /// each hand-over is printed
    async fn soak_leader_killed_fifty_times(context) {
        kill_leaders(context, 50).await;
    }
}

/// Each second leader has a waiting candidate. Another successor comes only after the observed end.
async fn kill_leaders(context: &Context, times: usize) {
    let Some(mut config) = processes(context, QUIET_TTL) else { return };
    // Without an answer, a candidate's process fails.
    config.request_timeout = CONNECT;
    let observing = context.patient(QUIET_TTL).await;
    let ttl = context.client_with(&config).await.ttl();
    let bound = CLEAN_UP;
    let of = |data: &str| {
        let mut config = config.clone();
        config.label = Some(format!("leader {data}"));
        config
    };
    let election = election(&observing);
    let mut observer = election.watch().await.expect("observed");
    assert_eq!(observer.changed().await.expect("observed"), None);

    let (mut handovers, mut gaps) = (Vec::new(), Vec::new());
    let contested = context.contested("a").await;
    let begin = |data: &str| {
        let leads_as = Some(data.to_owned());
        Child::start(&of(data), &Hold { leads_as, ..Hold::of(contested.clone()) })
    };
    let mut leader = begin("0");
    let mut term = leads(&mut leader, &mut observer, PATIENCE, "0", None).await;
    for round in 1..=times {
        let (data, last) = (round.to_string(), format!("leader {}", round - 1));
        let next = (round % 2 == 1).then(|| begin(&data));
        if next.is_some() {
            stands(&observing, &data).await;
        }
        let killed = Instant::now();
        leader.kill().await;
        context.end_lease_of(&last, ttl).await;
        if let Some(next) = next {
            leader = next;
            term = leads(&mut leader, &mut observer, bound, &data, Some(term)).await;
            handovers.push(killed.elapsed());
        } else {
            nobody_leads(&mut observer).await;
            gaps.push(killed.elapsed());
            leader = begin(&data);
            term = leads(&mut leader, &mut observer, PATIENCE, &data, Some(term)).await;
        }
    }
    leader.release().await;
    nobody_leads(&mut observer).await;
    eprintln!(
        "{}: {times} leaders killed, TTL {ttl:?}: {}; {}",
        context.testbed.name(),
        shown("the next leader led after", handovers),
        shown("the gap was visible after", gaps)
    );
}

async fn leads(
    process: &mut Child<HoldEvent>,
    observer: &mut Watch<Option<Leader>>,
    bound: Duration,
    data: &str,
    last: Option<Token>,
) -> Token {
    let HoldEvent::Held { token, .. } = process.next_within(bound).await else { panic!("it leads first") };
    assert!(last < Some(token), "{last:?}, then {token:?}");
    let seen = async {
        loop {
            if let Some(leading) = observer.changed().await.expect("observed") {
                return leading;
            }
        }
    };
    // On etcd the observer reads twice after a reconnect, and each read may take a request timeout.
    let told = CLEAN_UP + 2 * ANSWER;
    let Ok(seen) = timeout(told, seen).await else {
        let (latest, current) = (observer.latest(), observer.is_current());
        panic!("the observer did not see the leader {data} within {told:?}: {latest:?}, current: {current}");
    };
    assert_eq!((seen.term, text(&seen.data).as_str()), (token, data));
    token
}

async fn nobody_leads(observer: &mut Watch<Option<Leader>>) {
    let leading = within(CLEAN_UP, "that nobody leads", observer.changed()).await.expect("observed");
    assert_eq!(leading, None);
}

async fn stands(client: &Client, data: &str) {
    let election = election(client);
    let stands = || async { queue(&election).await.last().is_some_and(|last| last == data) };
    until_within(PATIENCE, "it stands", stands).await;
}

fn shown(what: &str, mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    match times.as_slice() {
        [] => format!("{what}: never"),
        [least, .., most] => {
            format!("{what} {least:.2?} to {most:.2?}, in the median {:.2?}", times[times.len() / 2])
        }
        [once] => format!("{what} {once:.2?}"),
    }
}
