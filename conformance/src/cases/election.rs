//! ELECTION-: leaders and their order.

use std::ops::ControlFlow;

use futures_util::future::{join_all, join3};
use latchwork_core::recipes::{Election, Leader, Leadership};
use latchwork_core::{Ended, ErrorKind, LostReason};
use tokio::time::Instant;

use super::node::{counts, upkeep};
use crate::actions::{Waiter, acquire_and_release, mutex, queued, release, without_reply};
use crate::case::cases;
use crate::context::Context;
use crate::errors::is_lost;
use crate::testbed::{Client, Fault};
use crate::waits::{soon, within};

pub(super) fn election(client: &Client) -> Election {
    client.coordinator.election("a").expect("a good key")
}

pub(super) async fn campaign(election: &Election, data: &str) -> Leadership {
    soon("campaign", election.campaign(data.as_bytes())).await.expect("leads")
}

pub(super) async fn stand(election: &Election, data: &str, place: usize) -> Waiter<Leadership> {
    queued(election.campaign(data.as_bytes()), election.queue(), place).await
}

pub(super) async fn queue(election: &Election) -> Vec<String> {
    let entries = soon("list", election.queue().first(100)).await.expect("listed");
    entries.iter().map(|entry| text(&entry.data)).collect()
}

pub(super) async fn leads(election: &Election) -> Option<String> {
    let leading = soon("leader", election.leader()).await.expect("read");
    leading.map(|leading| text(&leading.data))
}

pub(super) fn text(data: &[u8]) -> String {
    String::from_utf8(data.to_vec()).expect("text")
}

const ROUNDS: u64 = 20;

async fn cost<F: Future<Output = ()>>(context: &Context, round: impl Fn() -> F) -> u64 {
    round().await;
    let before = context.requests().await;
    for _ in 0..ROUNDS {
        round().await;
    }
    context.requests().await - before
}

cases! {
    "ELECTION-TERM" alone =>
    /// a candidature and a resignation, or joining and leaving a group, costs as many requests as acquiring
    /// and releasing a mutex; new data costs one request
    async fn election_term_costs_as_many_requests_as_a_mutex(context) {
        let client = context.quiet().await;
        if !counts(context).await {
            return;
        }
        let (mutex, election) = (mutex(&client, "a"), election(&client));
        let group = client.coordinator.group("a").expect("a good key");
        let began = Instant::now();
        let held = cost(context, || acquire_and_release(&mutex)).await;
        let led = cost(context, || async { release(campaign(&election, "it").await).await }).await;
        let join = || async { release(soon("join", group.join(b"it")).await.expect("joined")).await };
        let joined = cost(context, join).await;
        let leader = campaign(&election, "it").await;
        let proclaim = || async { soon("proclaim", leader.proclaim(b"again")).await.expect("leads") };
        let proclaimed = cost(context, proclaim).await;
        let few = ROUNDS / 5 + upkeep(1, began.elapsed());
        let beside = if client.coordinator.backend().name() == "zookeeper" { ROUNDS } else { 0 };
        let costs = format!("{held} of a mutex, {led} of an election, {joined} of a group");
        assert!(led <= held + few && joined <= held + beside + few, "{costs}");
        assert!((ROUNDS..=ROUNDS + beside + few).contains(&proclaimed), "{proclaimed} for {ROUNDS} proclamations");
        leader.release().await.expect("resigned");
    }

    "ELECTION-TERM" =>
    /// candidates lead one at a time, in the order in which they joined, and terms rise; after a resignation the next
    /// candidate leads at once
    async fn election_term_rises_from_leader_to_leader(context) {
        let clients: [_; 3] = context.clients().await;
        let [one, two, three] = [0, 1, 2].map(|at| election(&clients[at]));
        assert_eq!(leads(&one).await, None);
        let first = campaign(&one, "first").await;
        let second = stand(&two, "second", 2).await;
        let third = stand(&three, "third", 3).await;
        assert!(soon("try", one.try_campaign(b"no")).await.expect("answered").is_none(), "somebody leads");
        let seen = soon("leader", three.leader()).await.expect("read");
        assert_eq!(seen, Some(Leader { term: first.token(), data: (*b"first").into() }));
        assert_eq!(queue(&two).await, ["first", "second", "third"]);
        assert!(!second.is_finished() && !third.is_finished(), "two lead");
        first.release().await.expect("resigned");
        let second = second.guard().await;
        assert!(!third.is_finished() && first.token() < second.token(), "{:?} {:?}", first.token(), second.token());
        assert_eq!(leads(&one).await.as_deref(), Some("second"));
        let term = second.token();
        drop(second);
        let third = third.guard().await;
        assert!(term < third.token());
        assert_eq!((first.is_held(), third.is_held()), (false, true));
        third.release().await.expect("resigned");
        assert_eq!(leads(&two).await, None);
    }

    "ELECTION-TERM" =>
    /// the leader, the first candidate and a candidate in the middle die: others wait only until the leases have ended
    async fn election_term_goes_on_without_the_dead(context) {
        let (leads_first, next) = (context.doomed().await, context.doomed().await);
        let (middle, last) = (context.doomed().await, context.client().await);
        let dead = campaign(&election(&leads_first), "dead").await;
        let first = stand(&election(&next), "first", 2).await;
        let second = stand(&election(&middle), "second", 3).await;
        let third = stand(&election(&last), "third", 4).await;
        let bound = context.over(&next);
        // The leader's death must be seen beyond the dead candidate.
        let dead_clients = [&next, &middle, &leads_first];
        for dead in dead_clients {
            latchwork_core::crash(&dead.coordinator).await;
        }
        join_all(dead_clients.map(|dead| context.end_lease(dead))).await;
        dead_clients.iter().for_each(|dead| context.outlast(dead));
        let third = within(bound, "the next leader", third.outcome()).await.expect("leads");
        assert!(dead.token() < third.token() && !dead.is_held());
        for candidate in [first, second] {
            let error = candidate.outcome().await.expect_err("it died");
            assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::Lost(_)), "{error}");
        }
        assert_eq!(queue(&election(&last)).await, ["third"]);
        third.release().await.expect("resigned");
    }

    "ELECTION-TERM" =>
    /// a candidate that loses replies or is cut off for a while joins once, and leads in its turn
    async fn election_term_survives_lost_replies_and_cuts(context) {
        let [one, two] = context.clients().await;
        let (mine, theirs) = (election(&one), election(&two));
        let leader = without_reply(&one, "a", campaign(&mine, "one")).await;
        assert_eq!(queue(&theirs).await, ["one"]);
        without_reply(&one, "a", leader.proclaim(b"again")).await.expect("leads");
        assert_eq!(leads(&theirs).await.as_deref(), Some("again"));

        let standing = stand(&theirs, "two", 2).await;
        assert!(context.can(Fault::Cut));
        two.link.cut();
        tokio::time::sleep(two.ttl() / 3).await;
        let resigned = without_reply(&one, "a", leader.release()).await;
        // The first try or another client may have removed the node.
        let is_unknown = |error: &latchwork_core::Error| error.kind() == ErrorKind::OutcomeUnknown;
        assert!(resigned.as_ref().err().is_none_or(is_unknown), "{resigned:?}");
        two.link.heal();
        let next = standing.guard().await;
        assert!(leader.token() < next.token());
        assert_eq!(queue(&mine).await, ["two"]);
        next.release().await.expect("resigned");
    }

    "ELECTION-TERM" =>
    /// a candidate that leads repeatedly does its work in each leadership, joins again after a loss, and resigns when
    /// it is dropped
    async fn election_term_is_led_again_and_again(context) {
        let [one, two] = context.clients().await;
        let (candidate, removes) = (election(&one), election(&two));
        let mut terms = Vec::new();
        let led = candidate.lead(b"again", |leader| {
            terms.push(leader.token());
            let (times, removes) = (terms.len(), removes.clone());
            async move {
                match times {
                    1 => ControlFlow::Continue(()),
                    2 => {
                        let removed = removes.force_release(leader.token().sequence());
                        assert!(soon("force_release", removed).await.expect("removed"));
                        std::future::pending().await
                    }
                    _ => ControlFlow::Break("done"),
                }
            }
        });
        assert_eq!(soon("the work", led).await.expect("led"), "done");
        assert_eq!(terms.len(), 3);
        assert!(terms.is_sorted_by(|one, next| one < next), "{terms:?}");
        assert_eq!(leads(&removes).await, None);

        let (keep, mut kept) = tokio::sync::mpsc::unbounded_channel();
        let leading = tokio::spawn(async move {
            let work = |leader| {
                let _kept = keep.send(leader);
                std::future::pending::<ControlFlow<()>>()
            };
            candidate.lead(b"dropped", work).await
        });
        let leader = soon("it leads", kept.recv()).await.expect("kept");
        leading.abort();
        let next = campaign(&removes, "next").await;
        assert!(!leader.is_held() && leader.token() < next.token());
        next.release().await.expect("resigned");
    }

    "ELECTION-LOSS" =>
    /// a removed leader is notified, and its later proclamations are not visible
    async fn election_loss_is_reported_and_ends_proclamations(context) {
        let [one, two] = context.clients().await;
        let leader = campaign(&election(&one), "one").await;
        let standing = stand(&election(&two), "two", 2).await;
        let lost = leader.lost();
        let mut late = one.link.park("a");
        let meanwhile = async {
            soon("catch", late.caught()).await.expect("caught");
            let (removes, term) = (election(&two), leader.token());
            assert!(soon("force_release", removes.force_release(term.sequence())).await.expect("removed"));
            let next = standing.guard().await;
            soon("deliver", late.deliver()).await;
            next
        };
        let (_proclaimed, next) = tokio::join!(soon("proclaim", leader.proclaim(b"late")), meanwhile);
        is_lost(soon("proclaim", leader.proclaim(b"no")).await, LostReason::Revoked);
        assert_eq!(soon("its loss", lost).await, Ended::Lost(LostReason::Revoked));
        let seen = soon("leader", election(&one).leader()).await.expect("read");
        assert_eq!(seen, Some(Leader { term: next.token(), data: (*b"two").into() }));
        assert_eq!(queue(&election(&one)).await, ["two"]);
        next.release().await.expect("resigned");
    }

    "ELECTION-LOSS" =>
    /// a leader that is cut off knows its loss before another candidate leads, and its proclamations fail from then on
    async fn election_loss_reaches_a_leader_that_is_cut_off(context) {
        let (is_cut, follows) = (context.doomed().await, context.client().await);
        let leader = campaign(&election(&is_cut), "cut off").await;
        let standing = stand(&election(&follows), "next", 2).await;
        assert!(context.can(Fault::Cut));
        let bound = context.over(&is_cut);
        is_cut.link.cut();
        let ended = async {
            context.outlast(&is_cut);
            context.end_lease(&is_cut).await;
        };
        let all = join3(leader.proclaim(b"unheard"), standing.outcome(), ended);
        let (proclaimed, next, ()) = within(bound, "the next leader", all).await;
        let next = next.expect("leads");
        is_lost(proclaimed, LostReason::Expired);
        assert!(!leader.is_held() && leader.token() < next.token());
        is_cut.link.heal();
        assert_eq!(leads(&election(&follows)).await.as_deref(), Some("next"));
        next.release().await.expect("resigned");
    }
}
