//! ELECTION-: who leads, and in which order.

use std::ops::ControlFlow;

use futures_util::future::join_all;
use latchwork_core::recipes::{Election, Leader, Leadership};
use latchwork_core::{Ended, ErrorKind, LostReason};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::node::{counts, upkeep};
use crate::actions::{acquire, mutex};
use crate::bounds::QUIET_TTL;
use crate::case::cases;
use crate::context::Context;
use crate::testbed::{Client, Fault};
use crate::waits::{soon, until, within};

pub(super) fn election(client: &Client) -> Election {
    client.coordinator.election("a").expect("a good key")
}

pub(super) async fn campaign(election: &Election, data: &str) -> Leadership {
    soon("campaign", election.campaign(data.as_bytes())).await.expect("leads")
}

/// A candidate in the background.
pub(super) type Candidate = JoinHandle<latchwork_core::Result<Leadership>>;

/// Stands in the background, as the `place`-th in the queue.
pub(super) async fn stand(election: &Election, data: &'static str, place: usize) -> Candidate {
    let candidate = election.clone();
    let standing = tokio::spawn(async move { candidate.campaign(data.as_bytes()).await });
    until("it stands", || async { queue(election).await.len() == place }).await;
    standing
}

pub(super) async fn elected(standing: Candidate) -> Leadership {
    soon("the next leader", standing).await.expect("no panic").expect("leads")
}

/// The data of the leader and of the candidates, in order.
pub(super) async fn queue(election: &Election) -> Vec<String> {
    let entries = soon("list", election.queue().first(100)).await.expect("listed");
    entries.iter().map(|entry| text(&entry.data)).collect()
}

/// Who leads now: its data.
pub(super) async fn leads(election: &Election) -> Option<String> {
    let leading = soon("leader", election.leader()).await.expect("read");
    leading.map(|leading| text(&leading.data))
}

pub(super) fn text(data: &[u8]) -> String {
    String::from_utf8(data.to_vec()).expect("text")
}

/// So often is done what is counted.
const ROUNDS: u64 = 20;

/// How many requests the server gets for this, [`ROUNDS`] times.
async fn cost<F: Future<Output = ()>>(context: &Context, round: impl Fn() -> F) -> u64 {
    // The first time makes what the key needs, once.
    round().await;
    let before = context.fixture.requests().await.expect("counted");
    for _ in 0..ROUNDS {
        round().await;
    }
    context.fixture.requests().await.expect("counted") - before
}

cases! {
    "ELECTION-TERM" alone =>
    /// to stand and resign, or to join a group and leave, costs as many requests as to acquire a
    /// mutex and release it, and new data cost one
    async fn election_term_costs_what_a_mutex_costs(context) {
        let client = context.client_with(&context.config(QUIET_TTL)).await;
        if !counts(context).await {
            return;
        }
        let (mutex, election) = (mutex(&client, "a"), election(&client));
        let group = client.coordinator.group("a").expect("a good key");
        let began = Instant::now();
        let held = cost(context, || async {
            acquire(&mutex).await.release().await.expect("released");
        })
        .await;
        let led = cost(context, || async {
            campaign(&election, "it").await.release().await.expect("resigned");
        })
        .await;
        let joined = cost(context, || async {
            let member = soon("join", group.join(b"it")).await.expect("joined");
            member.release().await.expect("left");
        })
        .await;
        let leader = campaign(&election, "it").await;
        let proclaimed = cost(context, || async {
            soon("proclaim", leader.proclaim(b"again")).await.expect("leads");
        })
        .await;
        // The upkeep of the lease falls into the count. ZooKeeper counts packets that nobody waits for:
        // a member's join lists in its trip, and a node whose data was written is watched again.
        let few = ROUNDS / 5 + upkeep(1, began.elapsed());
        let beside = if client.coordinator.backend().name() == "zookeeper" { ROUNDS } else { 0 };
        let costs = format!("{held} of a mutex, {led} of an election, {joined} of a group");
        assert!(led <= held + few && joined <= held + beside + few, "{costs}");
        assert!((ROUNDS..=ROUNDS + beside + few).contains(&proclaimed), "{proclaimed} for {ROUNDS} proclamations");
        leader.release().await.expect("resigned");
    }

    "ELECTION-TERM" =>
    /// candidates lead one at a time, in the order of their coming, and terms rise; a leader that
    /// resigns is followed at once
    async fn election_term_rises_from_leader_to_leader(context) {
        let clients = [context.client().await, context.client().await, context.client().await];
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
        let second = elected(second).await;
        assert!(!third.is_finished() && first.token() < second.token(), "{:?} {:?}", first.token(), second.token());
        assert_eq!(leads(&one).await.as_deref(), Some("second"));
        // Dropped, not resigned.
        let term = second.token();
        drop(second);
        let third = elected(third).await;
        assert!(term < third.token());
        assert_eq!((first.is_held(), third.is_held()), (false, true));
        third.release().await.expect("resigned");
        assert_eq!(leads(&two).await, None);
    }

    "ELECTION-TERM" =>
    /// leader, first candidate and one in the middle die, and nobody waits for them longer than
    /// their leases last
    async fn election_term_goes_on_without_the_dead(context) {
        let (leads_first, next) = (context.doomed().await, context.doomed().await);
        let (middle, last) = (context.doomed().await, context.client().await);
        let dead = campaign(&election(&leads_first), "dead").await;
        let first = stand(&election(&next), "first", 2).await;
        let second = stand(&election(&middle), "second", 3).await;
        let third = stand(&election(&last), "third", 4).await;
        let bound = context.over(&next);
        // The first candidate goes first, so that the leader's death must be seen beyond its place.
        latchwork_core::crash(&next.coordinator).await;
        latchwork_core::crash(&middle.coordinator).await;
        latchwork_core::crash(&leads_first.coordinator).await;
        let dead_clients = [&next, &middle, &leads_first];
        join_all(dead_clients.map(|dead| context.end_lease(dead))).await;
        dead_clients.iter().for_each(|dead| context.outlast(dead));
        let third = within(bound, "the next leader", third).await.expect("no panic").expect("leads");
        assert!(dead.token() < third.token() && !dead.is_held());
        for candidate in [first, second] {
            let error = soon("its end", candidate).await.expect("no panic").expect_err("it died");
            assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::Lost(_)), "{error}");
        }
        assert_eq!(queue(&election(&last)).await, ["third"]);
        third.release().await.expect("resigned");
    }

    "ELECTION-TERM" =>
    /// a candidate whose replies are lost, or who is cut off for a while, stands once and leads when
    /// it is its turn
    async fn election_term_beside_lost_replies_and_cuts(context) {
        let (one, two) = (context.client().await, context.client().await);
        let (mine, theirs) = (election(&one), election(&two));
        let mut lost = one.link.drop_reply("a");
        let leader = campaign(&mine, "one").await;
        soon("its reply is lost", lost.caught()).await.expect("lost");
        assert_eq!(queue(&theirs).await, ["one"]);
        let mut lost = one.link.drop_reply("a");
        soon("proclaim", leader.proclaim(b"again")).await.expect("leads");
        soon("its reply is lost", lost.caught()).await.expect("lost");
        assert_eq!(leads(&theirs).await.as_deref(), Some("again"));

        let standing = stand(&theirs, "two", 2).await;
        assert!(context.can(Fault::Cut));
        two.link.cut();
        tokio::time::sleep(two.ttl() / 3).await;
        let mut lost = one.link.drop_reply("a");
        let resigned = soon("resign", leader.release()).await;
        soon("its reply is lost", lost.caught()).await.expect("lost");
        // Nobody knows whether the first try has removed it, or somebody else before.
        let is_unknown = |error: &latchwork_core::Error| error.kind() == ErrorKind::OutcomeUnknown;
        assert!(resigned.as_ref().err().is_none_or(is_unknown), "{resigned:?}");
        two.link.heal();
        let next = elected(standing).await;
        assert!(leader.token() < next.token());
        assert_eq!(queue(&mine).await, ["two"]);
        next.release().await.expect("resigned");
    }

    "ELECTION-TERM" =>
    /// a candidate that leads again and again does its work under each leadership, stands again when
    /// it was lost, and resigns when it is dropped
    async fn election_term_is_led_again_and_again(context) {
        let (one, two) = (context.client().await, context.client().await);
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
                        // Dropped here, when the loss is told.
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

        // Dropped while it leads, and somebody has kept the leader.
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
    /// a leader that was removed is told, and what it proclaims after that is not seen
    async fn election_loss_is_told_and_nothing_is_proclaimed_after_it(context) {
        let (one, two) = (context.client().await, context.client().await);
        let leader = campaign(&election(&one), "one").await;
        let standing = stand(&election(&two), "two", 2).await;
        let lost = leader.lost();
        // One proclamation comes late, when another leads.
        let mut late = one.link.park("a");
        let meanwhile = async {
            soon("catch", late.caught()).await.expect("caught");
            let (removes, term) = (election(&two), leader.token());
            assert!(soon("force_release", removes.force_release(term.sequence())).await.expect("removed"));
            let next = elected(standing).await;
            soon("deliver", late.deliver()).await;
            next
        };
        // It is made again by itself, while it leads.
        let (_proclaimed, next) = tokio::join!(soon("proclaim", leader.proclaim(b"late")), meanwhile);
        let error = soon("proclaim", leader.proclaim(b"no")).await.expect_err("it leads no more");
        assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
        assert_eq!(soon("its loss", lost).await, Ended::Lost(LostReason::Revoked));
        let seen = soon("leader", election(&one).leader()).await.expect("read");
        assert_eq!(seen, Some(Leader { term: next.token(), data: (*b"two").into() }));
        assert_eq!(queue(&election(&one)).await, ["two"]);
        next.release().await.expect("resigned");
    }

    "ELECTION-LOSS" =>
    /// a leader that is cut off knows before another leads, and what it proclaims fails by then
    async fn election_loss_is_told_to_one_who_is_cut_off(context) {
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
        let (proclaimed, next, ()) = within(bound, "the next leader", async {
            tokio::join!(leader.proclaim(b"unheard"), standing, ended)
        })
        .await;
        let next = next.expect("no panic").expect("leads");
        let error = proclaimed.expect_err("it leads no more");
        assert_eq!(error.lost_reason(), Some(LostReason::Expired), "{error}");
        assert!(!leader.is_held() && leader.token() < next.token());
        is_cut.link.heal();
        assert_eq!(leads(&election(&follows)).await.as_deref(), Some("next"));
        next.release().await.expect("resigned");
    }
}
